"""Counts that a metric makes of each sentence, and draws of new test sets from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rela.evaluation.score import Interval

SEED = 12345
"""Of every draw in this room; sacrebleu's own default, so that both draw the same sentences."""

FEWEST_SAMPLES = 40
"""With fewer, nothing lies outside of 95% of the samples."""


@dataclass(frozen=True, kw_only=True)
class Counts:
    """A corpus as a metric sees it: one row of counts a sentence, and the score of a sum of rows.

    Corpus scores are functions of such sums, so a new test set is a new sum and needs no text.
    """

    rows: NDArray[np.float64]  # [sentences, counts]; whole numbers, exact up to 2^53
    score: Callable[[Sequence[float]], float]

    def __post_init__(self) -> None:
        assert self.rows.ndim == 2


def check_num_bootstrap(num_bootstrap: int) -> None:
    """Checks a number of bootstrap samples.

    Raises:
        ValueError: it is neither 0, for none, nor enough for a 95% interval.
    """
    if num_bootstrap != 0 and num_bootstrap < FEWEST_SAMPLES:
        raise ValueError(
            f"expected at least {FEWEST_SAMPLES} bootstrap samples for a 95% interval, got {num_bootstrap}; "
            "1000 are usual, 0 means none"
        )


def resample(num_rows: int, num_samples: int) -> Iterator[NDArray[np.int64]]:
    """Test sets drawn with replacement, as row numbers; the same ones in every call, and in sacrebleu."""
    generator = np.random.default_rng(SEED)
    for _ in range(num_samples):
        yield generator.integers(num_rows, size=num_rows)


def bootstrap_scores(counts: Counts, num_samples: int) -> NDArray[np.float64]:
    """The score of each resampled test set."""
    samples = resample(len(counts.rows), num_samples)
    return np.array([counts.score(counts.rows[sample].sum(0).tolist()) for sample in samples])


def bootstrap_interval(counts: Counts, num_samples: int) -> Interval | None:
    """The 95% interval as sacrebleu computes it; None for no samples."""
    check_num_bootstrap(num_samples)
    if num_samples == 0:
        return None
    scores = np.sort(bootstrap_scores(counts, num_samples))
    outside = num_samples // 40  # 2.5% at each end
    half_width = 0.5 * (scores[num_samples - outside - 1] - scores[outside])
    return Interval(mean=float(scores.mean()), half_width=float(half_width), num_samples=num_samples)
