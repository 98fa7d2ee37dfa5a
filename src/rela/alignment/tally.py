"""Errors of every layer and head, counted batch by batch: all that is kept are the counts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rela.alignment.batched import RULES, SHIFTS, Rule, Shift, link_words_in_all_ways
from rela.alignment.errors import ErrorCounts, ErrorTable, GoldLinks
from rela.alignment.gold import check_links
from rela.alignment.native import count_links, native_library
from rela.alignment.pairs import PairBatch


class GoldBatch(NamedTuple):
    """Gold links of a batch: True where target word and source word ``[B, Wt, Ws]`` belong together."""

    sure: Tensor
    possible: Tensor

    @classmethod
    def from_links(cls, links: Sequence[GoldLinks], batch: PairBatch) -> GoldBatch:
        """The gold links of each pair of a batch, in its order."""
        limits = np.array([(len(pair.source.words), len(pair.target.words)) for pair in batch.pairs])
        shape = (len(batch.pairs), batch.most_target_words, batch.most_source_words)
        sure, possible = np.zeros(shape, bool), np.zeros(shape, bool)
        for found, of_pairs in ((sure, [gold.sure for gold in links]), (possible, [gold.possible for gold in links])):
            counts = [len(known) for known in of_pairs]
            numbers = chain.from_iterable(chain.from_iterable(of_pairs))
            places = np.fromiter(numbers, np.int64, 2 * sum(counts)).reshape(-1, 2)
            rows = np.repeat(np.arange(len(counts)), counts)
            for row in rows[((places < 0) | (places >= limits[rows])).any(1)]:
                check_links(links[row], int(limits[row, 0]), int(limits[row, 1]), f"line {batch.pairs[row].line}")
            found[rows, places[:, 1], places[:, 0]] = True
        possible |= sure
        return cls(torch.from_numpy(sure).to(batch.device), torch.from_numpy(possible).to(batch.device))


class AlignmentErrors:
    """Counts of errors ``[layer, head + 1]`` for each shift and rule; the last column is the mean over heads."""

    def __init__(self, layers: int, heads: int) -> None:
        self._heads = heads
        self._counts = np.zeros((len(SHIFTS), len(RULES), layers, heads + 1, len(ErrorCounts._fields)), np.int64)

    def add(self, layer: int, weights: Tensor, batch: PairBatch, gold: GoldBatch) -> None:
        """One layer's cross weights ``[B, H, T, S]`` of a batch. Each layer must get all batches."""
        if weights.shape[1] != self._heads:
            raise ValueError(f"weights: expected {self._heads} heads, got the shape {tuple(weights.shape)}")
        library = native_library() if weights.device.type == "cpu" and weights.dtype == torch.float32 else None
        found = plain_counts(weights, batch, gold) if library is None else count_links(library, weights, batch, *gold)
        links, sure, possible = np.moveaxis(found, -1, 0)
        num_sure = np.full_like(links, int(gold.sure.sum()))
        self._counts[:, :, layer] += np.stack([links, num_sure, sure, possible], axis=-1)

    def merge(self, other: AlignmentErrors) -> None:
        """Add what was counted elsewhere."""
        self._counts += other._counts

    def state(self) -> NDArray[np.int64]:
        """All that was counted."""
        return self._counts

    def restore(self, state: NDArray[np.int64]) -> None:
        """Go on from there."""
        self._counts = state.copy()

    def counts(self, shift: Shift, rule: Rule) -> ErrorTable:
        """Counts, and with them the rates, as arrays ``[layer, head + 1]``; layers from 0."""
        chosen = self._counts[SHIFTS.index(shift), RULES.index(rule)]
        return ErrorTable(*np.moveaxis(chosen, -1, 0))


def plain_counts(weights: Tensor, batch: PairBatch, gold: GoldBatch) -> NDArray[np.int64]:
    """As :func:`rela.alignment.native.count_links`."""
    both = torch.cat([weights, weights.mean(1, keepdim=True)], dim=1)
    counts = np.zeros((len(SHIFTS), len(RULES), both.shape[1], 3), np.int64)
    for shift, rule, links in link_words_in_all_ways(both, batch):
        sums = [(links & known.unsqueeze(1)).sum((0, 2, 3)) for known in gold]
        found = torch.stack([links.sum((0, 2, 3)), *sums], dim=-1)  # [H + 1, 3]
        counts[SHIFTS.index(shift), RULES.index(rule)] = found.cpu().numpy()
    return counts
