"""Whether two systems differ by more than chance, of the test set and of trainings, when each was trained often."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from rela._version import __version__
from rela.evaluation.counts import SEED, Counts, check_num_bootstrap, resample

Values = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The mean score of one system's trainings minus that of another's, with a 95% interval.

    ``p`` is two-sided: how probable a difference so large would be if there were none. With one training of each, the
    interval knows the chance of the test set alone.
    """

    delta: float
    low: float
    high: float
    p: float
    runs: tuple[int, int]
    signature: str


def difference_of_runs(first: Sequence[Counts], second: Sequence[Counts], num_samples: int = 1000) -> Difference:
    """Bootstrap over sentences and trainings: each draw takes the same sentences for all, and trainings of each system.

    Args:
        first: the counts of each training's translations, all of the same test set.
        second: those of the other system, whose scores are subtracted.
        num_samples: draws.

    Raises:
        ValueError: no trainings, other numbers of sentences, or too few draws.
    """
    check_num_bootstrap(num_samples)
    if not first or not second or num_samples == 0:
        raise ValueError("expected at least one training of each system, and draws, got none")
    sizes = {len(counts.rows) for counts in (*first, *second)}
    if len(sizes) > 1:
        raise ValueError(f"expected translations of the same test set, got {sorted(sizes)} sentences")
    times = _times_drawn(sizes.pop(), num_samples)
    generator = np.random.default_rng(SEED)
    draws = _drawn_means(first, times, generator) - _drawn_means(second, times, generator)
    delta = float(np.mean([_whole(counts) for counts in first]) - np.mean([_whole(counts) for counts in second]))
    low, high = np.percentile(draws, [2.5, 97.5])
    tail = min(int((draws <= 0).sum()), int((draws >= 0).sum()))
    runs = len(first), len(second)
    return Difference(
        delta=delta,
        low=float(low),
        high=float(high),
        p=min(1.0, 2 * (tail + 1) / (num_samples + 1)),
        runs=runs,
        signature=f"difference|runs:{runs[0]}-{runs[1]}|bootstrap:sentences,runs|bs:{num_samples}|seed:{SEED}"
        f"|v{__version__}",
    )


@cache
def _times_drawn(num_rows: int, num_samples: int) -> Values:
    """``[draws, sentences]``: how often each sentence is in each resampled test set."""
    return np.stack([np.bincount(sample, minlength=num_rows) for sample in resample(num_rows, num_samples)]).astype(
        np.float64
    )


def _drawn_means(system: Sequence[Counts], times: Values, generator: np.random.Generator) -> Values:
    """``[draws]``: mean scores over trainings that are drawn with replacement, each on the draw's sentences."""
    scores = np.array([[counts.score(sums.tolist()) for sums in times @ counts.rows] for counts in system])
    drawn = generator.integers(len(system), size=(len(times), len(system)))
    return scores[drawn, np.arange(len(times))[:, None]].mean(1)


def _whole(counts: Counts) -> float:
    return counts.score(counts.rows.sum(0).tolist())
