"""What can be wrong with a line of text, and the report that counts it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

PROBLEMS: Final[Mapping[str, str]] = {
    "unequal-lines": "a line without a partner, because the other file has fewer lines",
    "bad-record": "a record without two sides: too few columns, malformed JSON, a missing key or a line break inside",
    "invalid-utf8": "bytes that are not UTF-8",
    "half-character": "an escape such as \\ud800 without its other half (a lone surrogate), which is no character",
    "too-long": "more characters than are allowed",
    "nul-character": "a NUL character (U+0000), which no text has",
    "empty-source": "nothing but blanks on the source side",
    "empty-target": "nothing but blanks on the target side",
}
"""All problems, in the order in which they are looked for: a line counts under the first that it has."""

_NUM_PLACES: Final = 5


class Place(NamedTuple):
    """A line of a file; lines count from 1."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass
class ReadReport:
    """How many lines were read and kept, and which problems they had. One report may serve several files.

    Of pairs, a line with a problem is left out: ``num_lines`` is ``num_kept`` plus all counts. Of single lines
    (`read_lines`) all are kept, and the counts say how many of them had a problem.
    """

    num_lines: int = 0
    num_kept: int = 0
    counts: dict[str, int] = field(default_factory=dict[str, int])
    places: dict[str, list[Place]] = field(default_factory=dict[str, list[Place]])

    @property
    def num_left_out(self) -> int:
        """The lines that were not kept."""
        return self.num_lines - self.num_kept

    def add(self, problem: str, place: Place) -> None:
        """Counts a problem; the first few places of each are remembered."""
        assert problem in PROBLEMS, problem
        self.counts[problem] = self.counts.get(problem, 0) + 1
        places = self.places.setdefault(problem, [])
        if len(places) < _NUM_PLACES:
            places.append(place)

    def lines(self, *, but: Collection[str] = ()) -> list[str]:
        """For people: one line for all, and one for each problem that occurred, ``but`` for some."""
        summary = [f"{self.num_lines:,} lines read, {self.num_kept:,} kept, {self.num_left_out:,} left out"]
        for problem, meaning in PROBLEMS.items():
            if (count := self.counts.get(problem)) and problem not in but:
                places = ", ".join(str(place) for place in self.places[problem])
                more = ", ..." if count > len(self.places[problem]) else ""
                summary.append(f"{problem}: {count:,} ({meaning}): {places}{more}")
        return summary

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ReadReport:
        """The report that `to_json` wrote."""
        report = cls(data["num_lines"], data["num_kept"])
        for problem, found in data["problems"].items():
            report.counts[problem] = found["count"]
            report.places[problem] = [Place(**place) for place in found["first"]]
        return report

    def to_json(self) -> dict[str, object]:
        """For programs: the same, ready for `json.dumps`."""
        problems = {
            problem: {"count": self.counts[problem], "first": [place._asdict() for place in self.places[problem]]}
            for problem in PROBLEMS
            if problem in self.counts
        }
        return {
            "num_lines": self.num_lines,
            "num_kept": self.num_kept,
            "num_left_out": self.num_left_out,
            "problems": problems,
        }
