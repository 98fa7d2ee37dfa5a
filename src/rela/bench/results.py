"""What benchmarks write: the schema of docs/results-format.md; and points that outlive a run that was cut off."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rela._version import __version__
from rela.bench.others import Share, watching
from rela.bench.timing import Speed

FORMAT: Final = "rela-results-1"
"""That of `rela analyze`: docs/results-format.md."""

_LISTS: Final = ("low", "high", "rounds", "target")


@dataclass(frozen=True, kw_only=True)
class Number:
    """A measured number: quartiles over so many rounds if there are some, and what was asked for, at least."""

    value: float
    low: float | None = None
    high: float | None = None
    rounds: int | None = None
    target: float | None = None

    @classmethod
    def of_speed(cls, speed: Speed, target: float | None = None) -> Number:
        """A ratio of times."""
        return cls(value=speed.median, low=speed.low, high=speed.high, rounds=speed.rounds, target=target)


def measure(signature: str, axis: str | None, numbers: Mapping[str, Number] | Number) -> dict[str, Any]:
    """A measure of the schema: one number, or numbers along an axis, whose names are the mapping's keys.

    Beside ``value`` stand ``low``, ``high``, ``rounds`` and ``target``, each with the same shape, if any number has it.
    """
    if isinstance(numbers, Number):
        found = {"signature": signature, "axes": [], "labels": {}, "value": numbers.value}
        extra = {name: getattr(numbers, name) for name in _LISTS}
    else:
        assert axis is not None
        values = list(numbers.values())
        found = {
            "signature": signature,
            "axes": [axis],
            "labels": {axis: list(numbers)},
            "value": [number.value for number in values],
        }
        columns = {name: [getattr(number, name) for number in values] for name in _LISTS}
        extra = {name: column if any(part is not None for part in column) else None for name, column in columns.items()}
    return found | {name: value for name, value in extra.items() if value is not None}


def document(
    benchmark: str, machine: Mapping[str, Any], entries: Sequence[Mapping[str, Any]], **facts: Any
) -> dict[str, Any]:
    """A result file. ``facts`` say more about what was measured."""
    return {
        "format": FORMAT,
        "rela_version": __version__,
        "data": {"benchmark": benchmark, "machine": dict(machine), **facts},
        "models": [dict(entry) for entry in entries],
        "groups": [],
    }


def check(data: Mapping[str, Any]) -> None:
    """Raise a ValueError unless this is a benchmark's result file: every list as long as the labels of its axis."""
    if data.get("format") != FORMAT or data.get("groups") != [] or "benchmark" not in data.get("data", {}):
        raise ValueError(f"expected results of the format {FORMAT} with data.benchmark, got {data.get('format')!r}")
    for entry in data["models"]:
        for name, found in entry["measures"].items():
            where = f"{entry['name']}: {name}"
            if not isinstance(found["signature"], str) or len(found["axes"]) > 1:
                raise ValueError(f"{where}: expected a signature and at most one axis")
            lists = {key: found[key] for key in ("value", *_LISTS) if key in found}
            if not found["axes"]:
                if any(isinstance(value, list) for value in lists.values()):
                    raise ValueError(f"{where}: expected a number, got a list")
                continue
            labels = found["labels"][found["axes"][0]]
            if any(len(value) != len(labels) for value in lists.values()):
                raise ValueError(f"{where}: expected {len(labels)} numbers, as many as there are labels")


class Points:
    """The points of a run, by key. Those in the file of one that was cut off are taken from there.

    The file stands beside the result and is removed when that is written. Without a path, nothing is kept.
    """

    def __init__(self, result: Path | None, *, resume: bool) -> None:
        self.path = None if result is None else result.with_name(f"{result.name}.points")
        self._found: dict[str, Any] = {}
        self._shares: dict[str, Share] = {}
        if self.path is None:
            return
        if resume and self.path.is_file():
            for line in self.path.read_text(encoding="utf-8").splitlines():
                self._read(line)
        else:
            self.path.unlink(missing_ok=True)

    def get(self, key: str, make: Callable[[], Any]) -> Any:
        """The point of this key, made now unless it was before."""
        if key not in self._found:
            with watching() as share:
                point = make()
            self._found[key], self._shares[key] = point, share
            if self.path is not None:
                line = {"key": key, "point": point, "others": share.others, "capacity": share.capacity}
                with self.path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line, allow_nan=False) + "\n")
        return self._found[key]

    def others_share(self) -> float | None:
        """What other processes took of the processors while the points were measured; None if nobody knows."""
        capacity = sum(share.capacity for share in self._shares.values())
        return sum(share.others for share in self._shares.values()) / capacity if capacity > 0 else None

    def _read(self, line: str) -> None:
        """A line that was cut off is no point: it is measured again."""
        with contextlib.suppress(ValueError, KeyError, TypeError):
            found = json.loads(line)
            share = Share(found["others"], found["capacity"])
            self._found[found["key"]], self._shares[found["key"]] = found["point"], share

    def __contains__(self, key: str) -> bool:
        return key in self._found

    def done(self) -> None:
        """The result is written: the points are not needed any more."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
