"""How time and memory grow with the length: each point in a fresh process, so that its peak of memory is its own.

A process makes its queries, keys and values, warms torch's threads up on something small, and then looks how far its
peak of resident memory rises above what is resident, during the first call. Later calls are timed.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Self

from rela.bench.cases import MODES, Mode
from rela.bench.results import Number, Points, measure

LENGTHS: Final = tuple(2**power for power in range(7, 16))
"""128 to 32,768."""
METHODS: Final = ("native", "blocked", "naive", "sdpa", "entmax15")
"""Our kernels, by their names in RELA_KERNEL; torch's attention; the entmax package."""
MOST_SECONDS: Final = 25.0
"""A call that would take longer, by what the lengths before took, is left out; and so are all longer lengths."""
MOST_BYTES_SHARE: Final = 0.6
"""Of the memory that is free: what would need more, by what the lengths before needed, is left out."""
_TIMEOUT_SECONDS: Final = 120


@dataclass(frozen=True, kw_only=True)
class Place:
    """What a process measures."""

    method: str
    mode: Mode
    length: int
    heads: int
    threads: int
    rounds: int

    @property
    def key(self) -> str:
        """Its name among the points of a run."""
        return f"{self.method}|{self.mode}|T:{self.length}|BH:{self.heads}|threads:{self.threads}|rounds:{self.rounds}"


class Server:
    """Measures points, each by a process of its own: ``seconds`` (the median) and ``bytes``; or ``failed``, and why."""

    def __init__(self) -> None:
        environment = {name: value for name, value in os.environ.items() if name != "RELA_KERNEL"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "rela.bench.scaling_point"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            process_group=0,  # Ctrl-C is for us alone, who answer it in one line
        )

    def __call__(self, place: Place) -> dict[str, Any]:
        """Measure a point."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(place) | {"most_seconds": _TIMEOUT_SECONDS}) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise ValueError("the process that measures points has ended; what it said last stands above")
        return json.loads(answer)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:  # nobody waits for the point that it may be measuring
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._process.wait()


def measure_scaling(
    lengths: Sequence[int],
    methods: Sequence[str],
    *,
    heads: int,
    threads: int,
    rounds: int,
    points: Points,
    recipe: str,
    make: Callable[[Place], dict[str, Any]],
    on_point: Callable[[Place, dict[str, Any]], object] = lambda _place, _point: None,
) -> list[dict[str, Any]]:
    """The entries of a result file: of each method time and memory along the lengths, and how they grow."""
    found: dict[tuple[str, Mode], dict[int, dict[str, Any]]] = {(m, mode): {} for m in methods for mode in MODES}
    left_out: dict[tuple[str, Mode], str] = {}
    for length in sorted(lengths):  # methods side by side, whatever the machine does in between
        for method, mode in found:
            before = found[method, mode]
            if (method, mode) in left_out:
                continue
            place = Place(method=method, mode=mode, length=length, heads=heads, threads=threads, rounds=rounds)
            if (reason := _too_much(before, length)) is None:
                point = points.get(f"{recipe}|{place.key}", lambda place=place: make(place))
                on_point(place, point)
                reason = point.get("failed")
                if reason is None:
                    before[length] = point
            if reason is not None:
                left_out[method, mode] = f"T={length} and more: {reason}"
    return [
        {
            "name": method,
            "measures": {
                name: one
                for mode in MODES
                if found[method, mode]
                for name, one in _measures(
                    found[method, mode], f"{recipe}|method:{method}|mode:{mode}|BH:{heads}", mode
                ).items()
            },
            "left_out": {mode: left_out[method, mode] for mode in MODES if (method, mode) in left_out},
        }
        for method in methods
    ]


def _measures(found: Mapping[int, Mapping[str, Any]], recipe: str, mode: Mode) -> dict[str, Any]:
    seconds = {
        str(length): Number(value=point["seconds"], low=point["low"], high=point["high"], rounds=point["rounds"])
        for length, point in found.items()
    }
    peaks = {str(length): Number(value=point["bytes"]) for length, point in found.items()}
    measures = {
        f"scaling.{mode}.seconds": measure(f"{recipe}|statistic:median", "length", seconds),
        f"scaling.{mode}.bytes": measure(f"{recipe}|peak of resident memory over the inputs'", "length", peaks),
    }
    for name, numbers in (("seconds", seconds), ("bytes", peaks)):
        exponent = fitted_exponent({int(label): number.value for label, number in numbers.items()})
        if exponent is not None:
            fitted = measure(f"{recipe}|exponent of {name}|upper half of T", None, Number(value=exponent))
            measures[f"scaling.{mode}.{name}.exponent"] = fitted
    return measures


def _too_much(found: Mapping[int, Mapping[str, Any]], length: int) -> str | None:
    """Why this length is not tried, by the longest that was: nothing here grows faster than the square."""
    if not found:
        return None
    before = max(found)
    square = (length / before) ** 2
    seconds = found[before]["seconds"] * square
    if seconds > MOST_SECONDS:
        return f"a call would take about {seconds:.0f} s"
    if (free := free_bytes()) is not None and (needed := found[before]["bytes"] * square) > free * MOST_BYTES_SHARE:
        return f"a call would need about {needed / 2**30:.0f} GiB of memory"
    return None


def free_bytes() -> int | None:
    """Memory that processes may still take; None where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return None


def fitted_exponent(values: Mapping[int, float]) -> float | None:
    """The exponent p of ``value = c * T ** p``: least squares of the logarithms over the upper half of the lengths.

    None for fewer than four lengths, or if a value of the upper half is not positive.
    """
    lengths = sorted(values)
    upper = lengths[len(lengths) // 2 :]
    if len(lengths) < 4 or any(values[length] <= 0 for length in upper):
        return None
    xs, ys = [math.log(length) for length in upper], [math.log(values[length]) for length in upper]
    return statistics.linear_regression(xs, ys).slope
