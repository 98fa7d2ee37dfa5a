"""Ratios within a round, whatever the machine does between rounds."""

import math
import time
from unittest import mock

import pytest

from rela.bench.timing import Speed, Subject, compare


def _with_clock(seconds: dict[str, float], rounds: int, most: float = math.inf) -> tuple[list[str], dict[str, Speed]]:
    """Run subjects that take the given time on a made-up clock; returns what ran, in order, and the speeds."""
    ran: list[str] = []
    clock = 0.0

    def subject(name: str) -> Subject:
        def run() -> None:
            nonlocal clock
            ran.append(name)
            clock += seconds[name] * 2 ** ((len(ran) - 1) // len(seconds))  # a machine that gets slower and slower

        return run

    with mock.patch.object(time, "perf_counter", side_effect=lambda: clock):
        speeds = compare({name: subject(name) for name in seconds}, "base", rounds=rounds, most=most)
    return ran, speeds


def test_speed_is_relative_to_the_baseline() -> None:
    _, speeds = _with_clock({"base": 2.0, "fast": 1.0, "slow": 4.0}, 5)
    assert {name: speed.median for name, speed in speeds.items()} == {"base": 1.0, "fast": 2.0, "slow": 0.5}
    assert speeds["fast"].low == speeds["fast"].high == 2.0


def test_everything_runs_in_every_round_in_changing_order() -> None:
    ran = _with_clock({"base": 1.0, "a": 1.0, "b": 1.0}, 6)[0][3:]  # after a warm-up call each
    rounds = [tuple(ran[i : i + 3]) for i in range(0, len(ran), 3)]
    assert len(rounds) == 6
    assert all(sorted(names) == ["a", "b", "base"] for names in rounds)
    assert len(set(rounds)) > 1


def test_a_very_slow_subject_sits_out_rounds() -> None:
    ran, speeds = _with_clock({"base": 1.0, "slow": 100.0}, 9)
    assert ran.count("slow") - 1 == 3
    assert speeds["slow"].rounds == 3


def test_a_slow_subject_is_warm_after_one_call() -> None:
    ran, _ = _with_clock({"base": 0.6, "fast": 0.1}, 3)
    assert ran[:3] == ["base", "fast", "fast"]


def test_short_ones_are_called_several_times() -> None:
    with mock.patch.object(time, "perf_counter", side_effect=(clock := iter(range(1000))).__next__):
        speeds = compare({"base": lambda: None}, "base", rounds=3, least=2.5)  # the clock ticks once a call
    assert speeds["base"].seconds == pytest.approx(1 / 3)
    assert next(clock) > 0


def test_no_round_begins_after_the_time_is_up() -> None:
    _, speeds = _with_clock({"base": 2.0, "fast": 1.0}, 50, most=100.0)
    assert 3 <= speeds["fast"].rounds < 10
    assert speeds["fast"].median == 2.0


def test_too_few_rounds_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 3"):
        compare({"base": lambda: None}, "base", rounds=2)
