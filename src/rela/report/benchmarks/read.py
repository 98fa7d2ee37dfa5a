"""Result files of benchmarks, as tables and figures want them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rela.report.results import load_results


@dataclass(frozen=True)
class Number:
    """One number of a measure: quartiles and a target if it has some."""

    label: str
    value: float
    low: float | None
    high: float | None
    target: float | None
    rounds: int | None

    @property
    def met(self) -> bool | None:
        """Whether the target is reached; None without one."""
        return None if self.target is None else self.value >= self.target


@dataclass(frozen=True)
class Benchmark:
    """A result file: facts, and the measures of each entry by name."""

    data: dict[str, Any]
    entries: dict[str, dict[str, Any]]

    def numbers(self, entry: str, measure: str) -> list[Number]:
        """The numbers of a measure in their order; one for a measure without an axis, none for one that is missing."""
        found = self.entries.get(entry, {}).get("measures", {}).get(measure)
        if found is None:
            return []
        labels = found["labels"][found["axes"][0]] if found["axes"] else [""]

        def column(name: str) -> list[Any]:
            if name not in found:
                return [None] * len(labels)
            return found[name] if found["axes"] else [found[name]]

        columns = [column(name) for name in ("value", "low", "high", "target", "rounds")]
        return [Number(label, *row) for label, *row in zip(labels, *columns, strict=True)]

    def number(self, entry: str, measure: str, label: str = "") -> Number | None:
        """The number with this label."""
        return next((number for number in self.numbers(entry, measure) if number.label == label), None)

    def signature(self, entry: str, measure: str) -> str:
        """How the measure was made."""
        return self.entries[entry]["measures"][measure]["signature"]

    def with_targets(self) -> Iterator[tuple[str, str, Number]]:
        """All numbers that something was asked for: entry, measure, number."""
        for entry, facts in self.entries.items():
            for measure in facts["measures"]:
                for number in self.numbers(entry, measure):
                    if number.target is not None:
                        yield entry, measure, number


def read_benchmark(path: Path) -> Benchmark:
    """Read the result file of a benchmark."""
    load_results(path, remedy="`rela bench` makes one")  # with errors for people
    data = json.loads(path.read_text(encoding="utf-8"))
    return Benchmark(data["data"], {entry["name"]: entry for entry in data["models"]})
