"""Fair timing on a noisy machine: everything in turn, round after round, and ratios within a round."""

from __future__ import annotations

import gc
import math
import random
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

Subject = Callable[[], object]

_FEWEST_ROUNDS: Final = 3
_SLOW_SECONDS: Final = 0.5  # a call that takes longer is warm after the first


@dataclass(frozen=True, kw_only=True)
class Speed:
    """How fast a subject was beside the baseline: above 1 is faster.

    ``median`` is over the rounds of (baseline's time / subject's time in the same round); ``low`` and ``high`` are
    the quartiles. ``seconds`` is the median time of one call.
    """

    median: float
    low: float
    high: float
    rounds: int
    seconds: float


def compare(
    subjects: Mapping[str, Subject],
    baseline: str,
    *,
    rounds: int,
    seed: int = 0,
    least: float = 0.0,
    most: float = math.inf,
    on_round: Callable[[], object] = lambda: None,
) -> dict[str, Speed]:
    """Time all subjects in every round, each round in a new order; ratios compare what ran side by side.

    A subject more than ten times slower than the baseline sits out most rounds (it runs in three at least): it would
    take the time of all others, and its ratio is far from 1 anyway. One that is over in less than ``least`` seconds is
    called several times in a row: a clock tells little about a short time. No round begins after ``most`` seconds, once
    there are three.
    """
    if rounds < _FEWEST_ROUNDS:
        raise ValueError(f"rounds: expected at least 3 for a median with quartiles, got {rounds}")
    warm = {name: _warm(subject) for name, subject in subjects.items()}
    stride = {name: _stride(warm[name] / warm[baseline], rounds) for name in subjects}
    calls = {name: max(1, math.ceil(least / warm[name])) if least > 0 else 1 for name in subjects}
    order = random.Random(seed)
    ratios: dict[str, list[float]] = {name: [] for name in subjects}
    seconds: dict[str, list[float]] = {name: [] for name in subjects}
    collecting = gc.isenabled()
    gc.disable()
    began = time.perf_counter()
    try:
        for number in range(rounds):
            if number >= _FEWEST_ROUNDS and time.perf_counter() - began >= most:
                break
            names = [name for name in subjects if number % stride[name] == 0]
            order.shuffle(names)
            times = {name: _timed(subjects[name], calls[name]) for name in names}
            for name in names:
                ratios[name].append(times[baseline] / times[name])
                seconds[name].append(times[name])
            on_round()
    finally:
        if collecting:
            gc.enable()
    return {name: summary(values, statistics.median(seconds[name])) for name, values in ratios.items()}


def _warm(subject: Subject) -> float:
    first = _timed(subject)
    return first if first > _SLOW_SECONDS else min(first, _timed(subject))


def _stride(slowness: float, rounds: int) -> int:
    return max(1, min(int(slowness / 10), (rounds - 1) // 2))


def _timed(subject: Subject, calls: int = 1) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        subject()
    return (time.perf_counter() - start) / calls


def summary(ratios: list[float], seconds: float) -> Speed:
    """The median of ratios, with quartiles."""
    if len(ratios) == 1:
        return Speed(median=ratios[0], low=ratios[0], high=ratios[0], rounds=1, seconds=seconds)
    low, median, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return Speed(median=median, low=low, high=high, rounds=len(ratios), seconds=seconds)
