"""How good links are: alignment error rate, precision, recall and F1, against links that are known to be right."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Link = tuple[int, int]
"""A source word and a target word, counted from 0."""

Counts = NDArray[np.int64]
Rates = NDArray[np.float64]


class GoldLinks(NamedTuple):
    """Sure links, and possible ones, among which are the sure."""

    sure: Collection[Link]
    possible: Collection[Link]


class ErrorCounts(NamedTuple):
    """Links of any number of sentences: how many were found, are sure, were found and are sure (or possible).

    Counts of parts of a corpus add up: ``ErrorCounts.sum``. Rates are NaN where there is nothing to divide by.
    """

    found: int = 0
    sure: int = 0
    found_sure: int = 0
    found_possible: int = 0

    @classmethod
    def of(cls, found: Collection[Link], gold: GoldLinks) -> ErrorCounts:
        """Of one sentence pair."""
        links, sure, possible = set(found), set(gold.sure), set(gold.possible)
        if not sure <= possible:
            raise ValueError(f"expected the sure links to be possible too, got {sorted(sure - possible)} sure only")
        return cls(len(links), len(sure), len(links & sure), len(links & possible))

    @classmethod
    def sum(cls, counts: Iterable[ErrorCounts]) -> ErrorCounts:
        """Of all of them together."""
        total = np.zeros(len(cls._fields), np.int64)
        for one in counts:
            total += one
        return cls(*total.tolist())

    @property
    def table(self) -> ErrorTable:
        """The same as arrays without dimensions."""
        return ErrorTable(*(np.array(value, np.int64) for value in self))

    @property
    def aer(self) -> float:
        """Alignment error rate."""
        return float(self.table.aer)

    @property
    def precision(self) -> float:
        """The share of found links that are possible."""
        return float(self.table.precision)

    @property
    def recall(self) -> float:
        """The share of sure links that were found."""
        return float(self.table.recall)

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return float(self.table.f1)


class ErrorTable(NamedTuple):
    """Counts as arrays of one shape, such as ``[layer, head]``, and their rates as arrays of that shape."""

    found: Counts
    sure: Counts
    found_sure: Counts
    found_possible: Counts

    @property
    def aer(self) -> Rates:
        """``1 - (|A & S| + |A & P|) / (|A| + |S|)`` (Och and Ney 2003): 1 where nothing was found."""
        return 1 - _ratio(self.found_sure + self.found_possible, self.found + self.sure)

    @property
    def precision(self) -> Rates:
        """``|A & P| / |A|``."""
        return _ratio(self.found_possible, self.found)

    @property
    def recall(self) -> Rates:
        """``|A & S| / |S|``."""
        return _ratio(self.found_sure, self.sure)

    @property
    def f1(self) -> Rates:
        """``2PR / (P + R)``; 0 where both are."""
        precision, recall = self.precision, self.recall
        total = precision + recall
        return np.where(total == 0, 0.0, _ratio(2 * precision * recall, total))

    def at(self, *place: int) -> ErrorCounts:
        """The counts at one place."""
        return ErrorCounts(*(int(values[place]) for values in self))


def _ratio(part: Counts | Rates, whole: Counts | Rates) -> Rates:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.true_divide(part, whole)


def alignment_error_rate(pairs: Iterable[tuple[Collection[Link], GoldLinks]]) -> float:
    """AER, counted over all pairs of found and gold links."""
    counts = ErrorCounts.sum(ErrorCounts.of(found, gold) for found, gold in pairs)
    if counts.found + counts.sure == 0:
        raise ValueError("expected at least one link, found or sure, got none")
    return counts.aer
