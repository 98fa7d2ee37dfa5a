"""Counts and times for Prometheus, in its text format."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Final

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

Labels = tuple[tuple[str, str], ...]


class Metrics:
    """Of one process: with several workers, each has its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, dict[Labels, float]] = defaultdict(lambda: defaultdict(float))
        self._times: dict[str, dict[Labels, list[float]]] = defaultdict(dict)  # counts up to each bound, sum
        self._read: dict[str, tuple[str, Callable[[], float]]] = {}  # type, and where the number is
        self._help: dict[str, str] = {}

    def describe(self, name: str, text: str) -> None:
        """What a metric is."""
        self._help[name] = text

    def count(self, name: str, value: float = 1.0, **labels: str) -> None:
        """Add to a counter."""
        with self._lock:
            self._counts[name][_sorted(labels)] += value

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        """Add to a histogram of times."""
        with self._lock:
            found = self._times[name].setdefault(_sorted(labels), [0.0] * (len(_BOUNDS) + 2))
            found[bisect_left(_BOUNDS, seconds)] += 1
            found[-1] += seconds

    def gauge(self, name: str, read: Callable[[], float]) -> None:
        """A number that is read when somebody asks."""
        self._read[name] = "gauge", read

    def counter(self, name: str, read: Callable[[], float]) -> None:
        """The same, of a number that only grows."""
        self._read[name] = "counter", read

    def text(self) -> str:
        """All of it."""
        with self._lock:
            lines: list[str] = []
            for name, counts in self._counts.items():
                lines += self._head(name, "counter")
                lines += [f"{name}{_shown(labels)} {_exact(value)}" for labels, value in counts.items()]
            for name, times in self._times.items():
                lines += self._head(name, "histogram")
                for labels, found in times.items():
                    lines += _histogram(name, labels, found)
            for name, (kind, read) in self._read.items():
                lines += [*self._head(name, kind), f"{name} {_exact(read())}"]
        return "".join(f"{line}\n" for line in lines)

    def _head(self, name: str, kind: str) -> list[str]:
        text = self._help.get(name)
        return [*([f"# HELP {name} {text}"] if text else []), f"# TYPE {name} {kind}"]


def _histogram(name: str, labels: Labels, found: list[float]) -> list[str]:
    lines, total = [], 0.0
    for bound, count in zip((*map(str, _BOUNDS), "+Inf"), found, strict=False):
        total += count
        lines.append(f"{name}_bucket{_shown((*labels, ('le', bound)))} {_exact(total)}")
    return [*lines, f"{name}_sum{_shown(labels)} {_exact(found[-1])}", f"{name}_count{_shown(labels)} {_exact(total)}"]


def _exact(number: float) -> str:
    """All digits: what is rounded stands still while it grows."""
    return str(int(number)) if number == int(number) else repr(number)


def _sorted(labels: Mapping[str, str]) -> Labels:
    return tuple(sorted(labels.items()))


def _shown(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
