"""Whether what was measured in a few trainings is more than their chance: t-tests, and draws of sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rela.evaluation.counts import SEED
from rela.evaluation.runs import Spread
from rela.experiments.reproduce.claims.verdict import Answer

LEVEL: Final = 0.05
_NODES: Final = 400  # of the integral

Values = NDArray[np.float64]


class Judged(NamedTuple):
    """An answer, and the test that gave it, in words."""

    answer: Answer
    test: str


def judge_margins(margins: Sequence[float]) -> Judged:
    """Whether a number that should be above 0 is, one of each training: a t-test (two-sided, 5%)."""
    if len(margins) < 2:
        return Judged("underpowered", "one training: no test")
    mean, error = float(np.mean(margins)), float(np.std(margins, ddof=1)) / math.sqrt(len(margins))
    p = _p(mean, error, len(margins) - 1)
    return Judged(_answer(mean, p), f"t-test over {len(margins)} trainings, {shown_p(p)}")


def judge_means(first: Sequence[float], second: Sequence[float]) -> Judged:
    """Whether the first system's trainings have the higher mean: Welch's t-test (two-sided, 5%)."""
    if min(len(first), len(second)) < 2:
        return Judged("underpowered", "one training of a system: no test")
    variances = [float(np.var(values, ddof=1)) / len(values) for values in (first, second)]
    mean, error = float(np.mean(first) - np.mean(second)), math.sqrt(sum(variances))
    parts = sum(variance**2 / (len(values) - 1) for variance, values in zip(variances, (first, second), strict=True))
    p = _p(mean, error, error**4 / parts if parts > 0 else 1.0)
    return Judged(_answer(mean, p), f"Welch's t-test over {len(first)} and {len(second)} trainings, {shown_p(p)}")


def judge_draws(parts: Sequence[tuple[float, Sequence[Values]]], spread: Spread | None) -> Judged:
    """Whether a sum of systems' means, each with a weight, is above 0 in nearly all draws of sentences and seeds.

    Args:
        parts: of each system its weight, and each training's numbers ``[draw]`` on drawn sentences, the same for all.
        spread: that of trainings with other seeds; None: not known, so that nothing can be said for sure.
    """
    draws = np.sum([weight * np.mean(np.stack(list(system)), axis=0) for weight, system in parts], axis=0)
    if spread is not None:
        squares = sum(weight**2 / len(system) for weight, system in parts)
        draws = draws + spread.draw(np.random.default_rng(SEED), len(draws), math.sqrt(squares))
    low, high = np.nanpercentile(draws, [2.5, 97.5])
    interval = f"95% interval {low:+.1%} to {high:+.1%}: bootstrap over sentences"
    if spread is None:
        return Judged("underpowered", f"{interval} alone, since no system was trained twice")
    answer: Answer = "holds" if low > 0 else "does not hold" if high < 0 else "underpowered"
    return Judged(answer, f"{interval} and seeds, {shown_spread(spread, f'{spread.deviation:.1%}')}")


def shown_spread(spread: Spread, deviation: str) -> str:
    """For people."""
    return f"which differ by {deviation} (t, {spread.freedom} degrees of freedom)"


def shown_p(p: float) -> str:
    """For people."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def two_sided_p(t: float, freedom: float) -> float:
    """How probable a value of Student's t at least so far from 0 is.

    With ``t = tan(a) sqrt(n)`` the density becomes a power of the cosine, which is integrated from there to the end.
    """
    begin = math.atan(abs(t) / math.sqrt(freedom))
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    half = (math.pi / 2 - begin) / 2
    tail = half * float(weights @ np.cos(begin + half * (nodes + 1)) ** (freedom - 1))
    whole = math.sqrt(math.pi) * math.exp(math.lgamma(freedom / 2) - math.lgamma((freedom + 1) / 2))
    return min(1.0, 2 * tail / whole)


def _p(mean: float, error: float, freedom: float) -> float:
    if error > 0:
        return two_sided_p(mean / error, freedom)
    return 1.0 if mean == 0 else 0.0


def _answer(mean: float, p: float) -> Answer:
    if p >= LEVEL:
        return "underpowered"
    return "holds" if mean > 0 else "does not hold"
