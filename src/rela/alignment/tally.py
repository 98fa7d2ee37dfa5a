"""Errors of every layer and head, counted batch by batch: all that is kept are the counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rela.alignment.batched import RULES, SHIFTS, Rule, Shift, link_words_in_all_ways
from rela.alignment.errors import ErrorCounts, ErrorTable, GoldLinks
from rela.alignment.gold import check_links
from rela.alignment.pairs import PairBatch


class GoldBatch(NamedTuple):
    """Gold links of a batch: True where target word and source word ``[B, Wt, Ws]`` belong together."""

    sure: Tensor
    possible: Tensor

    @classmethod
    def from_links(cls, links: Sequence[GoldLinks], batch: PairBatch) -> GoldBatch:
        """The gold links of each pair of a batch, in its order."""
        shape = (len(batch.pairs), batch.target_words.shape[-1], batch.source_words.shape[-1])
        for pair, gold in zip(batch.pairs, links, strict=True):
            check_links(gold, len(pair.source.words), len(pair.target.words), f"line {pair.line}")
        sure, possible = np.zeros(shape, bool), np.zeros(shape, bool)
        for found, of_pairs in ((sure, [gold.sure for gold in links]), (possible, [gold.possible for gold in links])):
            places = [(row, target, source) for row, known in enumerate(of_pairs) for source, target in known]
            if places:
                found[tuple(np.array(places).T)] = True
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
        both = torch.cat([weights, weights.mean(1, keepdim=True)], dim=1)
        sure, possible = gold.sure.unsqueeze(1), gold.possible.unsqueeze(1)
        num_sure = gold.sure.sum().expand(self._heads + 1)
        for shift, rule, links in link_words_in_all_ways(both, batch):
            sums = [(links & known).sum((0, 2, 3)) for known in (sure, possible)]
            counts = torch.stack([links.sum((0, 2, 3)), num_sure, *sums], dim=-1)  # [H + 1, 4]
            self._counts[SHIFTS.index(shift), RULES.index(rule), layer] += counts.cpu().numpy()

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
