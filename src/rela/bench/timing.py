"""Fair timing on a noisy machine: everything in turn, round after round, and ratios within a round."""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Subject = Callable[[], object]


@dataclass(frozen=True, kw_only=True)
class Speed:
    """How fast a subject was beside the baseline: above 1 is faster.

    ``median`` is over the rounds of (baseline's time / subject's time in the same round); ``low`` and ``high`` are
    the quartiles.
    """

    median: float
    low: float
    high: float
    rounds: int


def compare(
    subjects: Mapping[str, Subject],
    baseline: str,
    *,
    rounds: int,
    seed: int = 0,
    on_round: Callable[[], object] = lambda: None,
) -> dict[str, Speed]:
    """Time all subjects in every round, each round in a new order; ratios compare what ran side by side.

    A subject more than ten times slower than the baseline sits out most rounds (it runs in three at least): it would
    take the time of all others, and its ratio is far from 1 anyway.
    """
    if rounds < 3:
        raise ValueError(f"rounds: expected at least 3 for a median with quartiles, got {rounds}")
    warm = {name: min(_timed(subject) for _ in range(2)) for name, subject in subjects.items()}
    stride = {name: _stride(warm[name] / warm[baseline], rounds) for name in subjects}
    order = random.Random(seed)
    ratios: dict[str, list[float]] = {name: [] for name in subjects}
    collecting = gc.isenabled()
    gc.disable()
    try:
        for number in range(rounds):
            names = [name for name in subjects if number % stride[name] == 0]
            order.shuffle(names)
            times = {name: _timed(subjects[name]) for name in names}
            for name in names:
                ratios[name].append(times[baseline] / times[name])
            on_round()
    finally:
        if collecting:
            gc.enable()
    return {name: _summary(values) for name, values in ratios.items()}


def _stride(slowness: float, rounds: int) -> int:
    return max(1, min(int(slowness / 10), (rounds - 1) // 2))


def _timed(subject: Subject) -> float:
    start = time.perf_counter()
    subject()
    return time.perf_counter() - start


def _summary(values: list[float]) -> Speed:
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Speed(median=median, low=low, high=high, rounds=len(values))
