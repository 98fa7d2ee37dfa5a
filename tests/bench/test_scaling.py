"""How time and memory grow: exponents, what is left out, and points that processes measure."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from rela.bench import scaling
from rela.bench.results import Points
from rela.bench.scaling import Place, Server, fitted_exponent, measure_scaling


@pytest.mark.parametrize("power", [1.0, 1.5, 2.0])
def test_the_exponent_of_a_power(power: float) -> None:
    assert fitted_exponent({2**n: 3e-9 * (2**n) ** power for n in range(7, 16)}) == pytest.approx(power)


def test_the_upper_half_alone_decides() -> None:
    values = {2**n: 1.0 for n in range(4)} | {2**n: float(2**n) ** 2 for n in range(4, 8)}
    assert fitted_exponent(values) == pytest.approx(2)


def test_too_few_points_and_zeros_have_no_exponent() -> None:
    assert fitted_exponent({1: 1.0, 2: 2.0, 4: 4.0}) is None
    assert fitted_exponent({1: 1.0, 2: 2.0, 4: 0.0, 8: 4.0}) is None


def study(
    make: Callable[[Place], dict[str, Any]], lengths: tuple[int, ...] = (128, 256, 512, 1024)
) -> list[dict[str, Any]]:
    points = Points(None, resume=False)
    options: dict[str, Any] = {"heads": 1, "threads": 1, "rounds": 3, "recipe": "x"}
    return measure_scaling((128, 256, 512, 1024), ("sdpa", "naive"), points=points, make=make, **options)


def point(seconds: float, size: float = 1.0) -> dict[str, Any]:
    return {"seconds": seconds, "low": seconds, "high": seconds, "rounds": 3, "bytes": size}


def test_what_takes_too_long_is_left_out() -> None:
    def make(place: Place) -> dict[str, Any]:
        return point(1e-6 * place.length**2 * (100 if place.method == "naive" else 1))

    fast, slow = study(make)
    assert fast["left_out"] == {}
    assert fast["measures"]["scaling.forward.seconds.exponent"]["value"] == pytest.approx(2)
    assert slow["left_out"]["forward"].startswith("T=512 and more: a call would take about 26 s")
    assert slow["measures"]["scaling.forward.seconds"]["labels"]["length"] == ["128", "256"]


def test_what_needs_too_much_memory_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaling, "free_bytes", lambda: 2**30)
    first, _ = study(lambda place: point(0.001, place.length**2 * 4000.0))
    assert "GiB of memory" in first["left_out"]["forward"]


def test_a_point_that_fails_ends_its_curve() -> None:
    first, _ = study(lambda place: {"failed": "no memory"} if place.length > 200 else point(0.001))
    assert first["left_out"]["forward+backward"] == "T=256 and more: no memory"


def test_processes_measure_time_and_memory() -> None:
    place = Place(method="native", mode="forward", length=1024, heads=1, threads=1, rounds=3)
    with Server() as server:
        found = {method: server(replace(place, method=method)) for method in ("native", "naive", "sdpa")}
        failed = server(replace(place, heads=0))
    matrix = 1024 * 1024 * 4
    assert found["naive"]["bytes"] > matrix  # all weights at once
    assert found["native"]["bytes"] < matrix
    assert all(0 < one["low"] <= one["seconds"] <= one["high"] for one in found.values())
    assert "Error" in failed["failed"]
