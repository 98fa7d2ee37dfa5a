"""What benchmarks write: the schema of docs/results-format.md; and points that outlive a run that was cut off."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rela._files import write_text
from rela._version import __version__
from rela._warn import warn
from rela.bench.others import Share, watching
from rela.bench.timing import Speed

FORMAT: Final = "rela-results-1"
"""That of `rela analyze`: docs/results-format.md."""

_LISTS: Final = ("low", "high", "rounds", "target")
_CODE: Final = (".py", ".cpp", ".c")


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

    The file stands beside the result and is removed when that is written. Its first line tells the code that measured:
    points of other code are measured again. Without a path, nothing is kept.
    """

    def __init__(self, result: Path | None, *, resume: bool) -> None:
        self.path = None if result is None else points_file(result)
        self._found: dict[str, Any] = {}
        self._shares: dict[str, Share] = {}
        if self.path is None:
            return
        code_digest()  # now: while a long run measures, the files may change, and what runs does not
        if resume and self.path.is_file():
            self._take(self.path)
        else:
            self.path.unlink(missing_ok=True)

    def get(self, key: str, make: Callable[[], Any]) -> Any:
        """The point of this key, made now unless it was before."""
        if key not in self._found:
            with watching() as share:
                point = make()
            self._found[key], self._shares[key] = point, share
            if self.path is not None:
                lines = [self._line(key)] if self.path.is_file() else [_code_line(), self._line(key)]
                with self.path.open("a", encoding="utf-8") as file:
                    file.write("".join(lines))
        return self._found[key]

    def others_share(self) -> float | None:
        """What other processes took of the processors while the points were measured; None if nobody knows."""
        capacity = sum(share.capacity for share in self._shares.values())
        return sum(share.others for share in self._shares.values()) / capacity if capacity > 0 else None

    def __contains__(self, key: str) -> bool:
        return key in self._found

    def done(self) -> None:
        """The result is written: the points are not needed any more."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)

    def _take(self, path: Path) -> None:
        """What a file has, if the same code measured it. What cannot be used is told of, and is gone from the file."""
        first, *lines = path.read_text(encoding="utf-8", errors="replace").splitlines() or [""]
        same, readable = _is_by_this_code(first)
        if not same:
            count = len(lines) + first.startswith('{"key"')  # before files had a first line of their own
            why = "other code of rela" if readable else "unknown code, since its first line is damaged"
            if count:
                points = "1 point" if count == 1 else f"{count:,} points"
                warn(f"{path}: expected points measured by this code of rela, got {points} by {why}; measuring again")
            path.unlink()
            return
        damaged = [number for number, line in enumerate(lines, start=2) if not self._read(line)]
        if damaged:
            places = ", ".join(map(str, damaged))
            warn(
                f"{path}: expected a point on every line, got a damaged one on line {places}; measuring that again, "
                f"and keeping the rest ({len(self._found)})"
            )
            write_text(path, _code_line() + "".join(self._line(key) for key in self._found))

    def _read(self, line: str) -> bool:
        """Whether this is a point, which is kept then: one that was being written when a run was killed is none."""
        try:
            found = json.loads(line)
            key, point, share = found["key"], found["point"], Share(float(found["others"]), float(found["capacity"]))
            self._found[key], self._shares[key] = point, share
        except (ValueError, KeyError, TypeError):
            return False
        return True

    def _line(self, key: str) -> str:
        share = self._shares[key]
        line = {"key": key, "point": self._found[key], "others": share.others, "capacity": share.capacity}
        return json.dumps(line, allow_nan=False) + "\n"


def points_file(result: Path) -> Path:
    """Where the points of a result stand until it is written."""
    return result.with_name(f"{result.name}.points")


def count_points(result: Path) -> int:
    """How many points a run that was cut off has left beside its result."""
    path = points_file(result)
    if not path.is_file():
        return 0
    return sum(line.startswith('{"key"') for line in path.read_text(encoding="utf-8", errors="replace").splitlines())


def _code_line() -> str:
    return json.dumps({"code": code_digest()}) + "\n"


def _is_by_this_code(first: str) -> tuple[bool, bool]:
    """Whether a file with this first line is by the code that runs now, and whether the line says anything."""
    try:
        found = json.loads(first)
    except ValueError:
        return False, False
    known = isinstance(found, dict) and ("code" in found or "key" in found)
    return known and found.get("code") == code_digest(), known


@functools.cache
def code_digest() -> str:
    """What tells this package's code from other code, of the same version too: a working tree changes between runs."""
    package = Path(__file__).resolve().parents[1]
    found = hashlib.sha256()
    for path in sorted(path for path in package.rglob("*") if path.suffix in _CODE and path.is_file()):
        data = path.read_bytes()
        found.update(f"{path.relative_to(package).as_posix()} {len(data)}\n".encode())
        found.update(data)
    return found.hexdigest()
