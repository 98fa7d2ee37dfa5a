"""Whether systems differ by more than chance, of the test set and of trainings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from rela._version import __version__
from rela.evaluation.counts import SEED, Counts, check_num_bootstrap, resample

Values = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Spread:
    """How far apart trainings of one system are that differ in their seed alone.

    Attributes:
        deviation: the standard deviation of their scores.
        freedom: from how many trainings it is known, less one for each system.
    """

    deviation: float
    freedom: int

    @classmethod
    def pooled(cls, systems: Sequence[Sequence[float]]) -> Spread | None:
        """From the scores of each system's trainings, as if it was the same for all; None if none was trained twice."""
        several = [np.array(scores, np.float64) for scores in systems if len(scores) > 1]
        freedom = sum(len(scores) - 1 for scores in several)
        if not freedom:
            return None
        squares = sum(float(((scores - scores.mean()) ** 2).sum()) for scores in several)
        return cls(deviation=math.sqrt(squares / freedom), freedom=freedom)

    def draw(self, generator: np.random.Generator, num_draws: int, weight: float = 1.0) -> Values:
        """``[draw]``: what other seeds would add. The deviation is not known for sure, hence Student's t.

        Args:
            generator: of the draws.
            num_draws: how many.
            weight: the root of the sum of the squared weights of all trainings.
        """
        return weight * self.deviation * generator.standard_t(self.freedom, num_draws)


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A difference of mean scores, with a 95% interval.

    ``p`` is two-sided: how probable a difference so large would be if there were none. Without a ``spread``, the
    interval knows the chance of the test set alone.
    """

    delta: float
    low: float
    high: float
    p: float
    runs: tuple[int, ...]
    spread: Spread | None
    signature: str


def difference_of_runs(
    first: Sequence[Counts], second: Sequence[Counts], spread: Spread | None = None, num_samples: int = 1000
) -> Difference:
    """The mean score of one system's trainings minus that of another's. See :func:`contrast_of_runs`."""
    return contrast_of_runs([(1.0, first), (-1.0, second)], spread, num_samples)


def contrast_of_runs(
    parts: Sequence[tuple[float, Sequence[Counts]]], spread: Spread | None = None, num_samples: int = 1000
) -> Difference:
    """A sum of systems' mean scores, each with a weight, such as one system above the middle of two others.

    Each draw of the bootstrap takes the same sentences for all trainings, and adds the chance of their seeds.

    Args:
        parts: of each system its weight, and the counts of each training's translations, all of the same test set.
        spread: that of trainings with other seeds.
        num_samples: draws.

    Raises:
        ValueError: no trainings, other numbers of sentences, or too few draws.
    """
    check_num_bootstrap(num_samples)
    if not parts or not all(system for _, system in parts) or num_samples == 0:
        raise ValueError("expected at least one training of each system, and draws, got none")
    sizes = {len(counts.rows) for _, system in parts for counts in system}
    if len(sizes) > 1:
        raise ValueError(f"expected translations of the same test set, got {sorted(sizes)} sentences")
    times = _times_drawn(sizes.pop(), num_samples)
    draws = np.zeros(num_samples)
    for weight, system in parts:
        draws += weight * np.mean([_drawn(counts, times) for counts in system], axis=0)
    if spread is not None:
        squares = sum(weight**2 / len(system) for weight, system in parts)
        draws += spread.draw(np.random.default_rng(SEED), num_samples, math.sqrt(squares))
    low, high = np.percentile(draws, [2.5, 97.5])
    tail = min(int((draws <= 0).sum()), int((draws >= 0).sum()))
    runs = tuple(len(system) for _, system in parts)
    seeds = "" if spread is None else f"|seeds:t({spread.freedom}),{spread.deviation:.3g}"
    return Difference(
        delta=float(sum(weight * np.mean([_whole(counts) for counts in system]) for weight, system in parts)),
        low=float(low),
        high=float(high),
        p=min(1.0, 2 * (tail + 1) / (num_samples + 1)),
        runs=runs,
        spread=spread,
        signature=f"difference|runs:{'-'.join(map(str, runs))}|bootstrap:sentences{seeds}|bs:{num_samples}|seed:{SEED}"
        f"|v{__version__}",
    )


@cache
def _times_drawn(num_rows: int, num_samples: int) -> Values:
    """``[draws, sentences]``: how often each sentence is in each resampled test set."""
    return np.stack([np.bincount(sample, minlength=num_rows) for sample in resample(num_rows, num_samples)]).astype(
        np.float64
    )


def _drawn(counts: Counts, times: Values) -> Values:
    """``[draws]``: the score on each draw's sentences."""
    return np.array([counts.score(sums.tolist()) for sums in times @ counts.rows])


def _whole(counts: Counts) -> float:
    return counts.score(counts.rows.sum(0).tolist())
