"""The hallucinated set: sources with the targets of other sentences. How well does the null rate tell it apart?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rela.alignment.pairs import EncodedPair
from rela.analysis.probe import Seen

Values = NDArray[np.float64]

BINS: Final = 1024
"""Null rates of pairs are counted in so many bins: an area under the curve needs no more, and memory stays the same."""


def shuffled(pairs: Sequence[EncodedPair], seed: int, window: int) -> list[EncodedPair]:
    """The same sources, each with the target of another pair: none keeps its own.

    One cycle through all of them (Sattolo 1986), the same for the same seed and window whatever came before it. Pairs
    whose new target happens to be the same text as their own are left out; of a single pair nothing can be made.
    """
    generator = np.random.default_rng((seed, window))
    order = np.arange(len(pairs))
    for place in range(len(pairs) - 1, 0, -1):
        other = int(generator.integers(place))
        order[[place, other]] = order[[other, place]]
    found = [EncodedPair(pair.line, pair.source, pairs[order[place]].target) for place, pair in enumerate(pairs)]
    return [new for new, old in zip(found, pairs, strict=True) if new.target.ids != old.target.ids]


class Hallucination:
    """Cross null rates of pairs as they are, and with targets shuffled: by rows, and each pair's in a histogram."""

    def __init__(self, num_layers: int) -> None:
        self._num_layers = num_layers
        self.rows = np.zeros((2, num_layers, 2))  # real or shuffled; of each layer the null rows and all rows
        self.counts = np.zeros((2, num_layers + 1, BINS + 1), np.int64)  # the last layer is the mean over layers
        self.num_pairs = np.zeros(2, np.int64)
        self._waiting: list[NDArray[np.float64]] = []

    def add(self, seen: Seen, chosen: NDArray[np.bool_] | None = None, *, is_shuffled: bool) -> None:
        """One layer of one batch; layers come in order. ``chosen`` says which pairs of the batch count; None: all."""
        if chosen is not None and not chosen.any():
            return
        null = seen.sums.null
        which = slice(None) if chosen is None else chosen
        each = null.sum((1, 2)).double().cpu().numpy()[which]  # [B]
        possible = (seen.frame.query_lengths * null.shape[1]).double().cpu().numpy()[which]
        self.rows[int(is_shuffled), seen.layer] += np.array([each.sum(), possible.sum()])
        self._waiting.append(each / possible)
        self._count(int(is_shuffled), seen.layer, self._waiting[-1])
        if len(self._waiting) == self._num_layers:
            self.num_pairs[int(is_shuffled)] += len(each)
            self._count(int(is_shuffled), self._num_layers, np.mean(self._waiting, axis=0))
            self._waiting.clear()

    def _count(self, group: int, layer: int, rates: NDArray[np.float64]) -> None:
        self.counts[group, layer] += np.bincount(np.rint(rates * BINS).astype(np.int64), minlength=BINS + 1)

    def values(self) -> dict[str, Values]:
        """By their names in results.json; empty if there is nothing to compare."""
        if not self.counts.any(axis=(1, 2)).all():
            return {}
        real, fake = self.rows[..., 0] / self.rows[..., 1]
        areas = np.array([area_under_curve(*layer) for layer in self.counts.swapaxes(0, 1)])
        return {
            "hallucinated.null.real": real,
            "hallucinated.null.shuffled": fake,
            "hallucinated.auc": areas[:-1],
            "hallucinated.auc.mean": areas[-1:].reshape(()),
        }

    def state(self) -> dict[str, NDArray[Any]]:
        """All that was counted."""
        return {"rows": self.rows, "counts": self.counts, "pairs": self.num_pairs}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Go on from there."""
        self.rows, self.counts, self.num_pairs = state["rows"], state["counts"], state["pairs"]


def area_under_curve(low: NDArray[np.int64], high: NDArray[np.int64]) -> float:
    """How often a value of the second histogram is above one of the first, equal ones counting half."""
    below = np.concatenate([[0], np.cumsum(low)[:-1]])
    wins = (high * (below + low / 2)).sum()
    return float(wins / (low.sum() * high.sum()))
