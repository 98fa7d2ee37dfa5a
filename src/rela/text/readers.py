"""Reading parallel text and single lines: plain or packed, from files or standard input, in constant memory.

Lines end with a line feed (a carriage return before it belongs to the end) and with nothing else: U+2028 and form
feeds are characters of the text. A byte order mark at the start of a file is taken off; that of UTF-16 is an error.

Nothing is dropped in silence. A pair with a problem (`PROBLEMS`) is left out, counted and listed by line number in
the report; with ``strict`` it is a ValueError. Of two files with unequal numbers of lines, the pairs up to the end of
the shorter one are kept, and every surplus line counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import IO, Any, Final, Literal, NamedTuple, cast

from rela.text.compression import STDIN, open_text
from rela.text.marks import without_mark
from rela.text.problems import PROBLEMS, Place, ReadReport

MAX_CHARS: Final = 10_000
"""The longest side of a pair, and the longest single line, in characters."""

MAX_NESTING: Final = 100
"""Objects and lists inside each other, in a line of JSON."""

_JSON_TEXTS: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"?')  # one that never ends goes to the end, once
_BRACKETS: Final = re.compile(r"[\[\]{}]")
_LINE_SLACK: Final = 6  # bytes: byte order mark, carriage return and line feed, and one more that tells "too long"
_RECORD_SLACK: Final = 1 << 16  # bytes: keys and other columns of a record
_BYTES_PER_CHAR: Final = 4  # UTF-8
_COUNTED_BYTES: Final = 1 << 16  # a longer line is read in parts when lines are only counted
_RECORD_BYTES_PER_CHAR: Final = 2 * 12  # two sides; JSON may write a character as \uXXXX\uXXXX


class Pair(NamedTuple):
    """A sentence and its translation, with the number of their line, counted from 1."""

    line: int
    source: str
    target: str


class Line(NamedTuple):
    """A single line; ``problem`` says whether its text is not what the file holds (see `read_lines`)."""

    line: int
    text: str
    problem: str | None


@dataclass(frozen=True, kw_only=True)
class PairSource:
    """Where pairs are read from. Made by `files`, `tsv`, `jsonl` or `parquet`; ``-`` is standard input.

    Reports call the files by their paths, or by ``names`` if these are given.
    """

    kind: Literal["files", "tsv", "jsonl", "parquet"]
    path: str
    target_path: str | None = None
    columns: tuple[int, int] = (1, 2)
    keys: tuple[str, str] = ("source", "target")
    names: tuple[str, ...] | None = None

    @classmethod
    def files(cls, source: str | Path, target: str | Path) -> PairSource:
        """Two files; line n of one is the translation of line n of the other."""
        if str(source) == str(target) == STDIN:
            raise ValueError(
                "expected standard input (-) for one side at most, got it for both; give a file, or use TSV or JSONL"
            )
        return cls(kind="files", path=str(source), target_path=str(target))

    @classmethod
    def tsv(cls, path: str | Path, *, columns: tuple[int, int] = (1, 2)) -> PairSource:
        """Columns between tabs, without quotes or escapes; ``columns`` count from 1, as in ``cut -f``."""
        if min(columns) < 1:
            raise ValueError(f"expected columns counted from 1, got {columns}; the first column is 1")
        return cls(kind="tsv", path=str(path), columns=columns)

    @classmethod
    def jsonl(cls, path: str | Path, *, keys: tuple[str, str]) -> PairSource:
        """One JSON object a line. A point in a key goes down a level: ``translation.en``."""
        return cls(kind="jsonl", path=str(path), keys=keys)

    @classmethod
    def parquet(cls, path: str | Path, *, keys: tuple[str, str]) -> PairSource:
        """A table with a column of each side. Read by `rela.text.rows` alone, which keeps the other columns too."""
        return cls(kind="parquet", path=str(path), keys=keys)

    def with_path(self, old: str, new: str) -> PairSource:
        """The same pairs from a copy of one of the files; reports still call it by the old path."""
        names = self.names or self.paths
        if self.path == old:
            return replace(self, path=new, names=names)
        assert self.target_path == old, (self.target_path, old)
        return replace(self, target_path=new, names=names)

    @property
    def paths(self) -> tuple[str, ...]:
        """The files of the two sides; one, when both are in the same."""
        return (self.path,) if self.target_path is None else (self.path, self.target_path)


def read_pairs(
    source: PairSource, *, report: ReadReport, strict: bool = False, max_chars: int = MAX_CHARS
) -> Iterator[Pair]:
    """The pairs without a problem, in order. Files are opened when the first pair is asked for.

    Raises ValueError for the first problem when ``strict``, and in any case for a damaged or cut packed file, and for
    one in UTF-16.
    """
    names = source.names or source.paths
    for line, (raw_source, raw_target) in enumerate(_raw_pairs(source, max_chars), start=1):
        report.num_lines += 1
        texts = good_texts(raw_source, raw_target, max_chars)
        if texts is not None:
            report.num_kept += 1
            yield Pair(line, *texts)
        else:
            problem, side = find_problem(source, raw_source, raw_target, max_chars)
            place = Place(names[min(side, len(names) - 1)], line)
            report.add(problem, place)
            if strict:
                raise ValueError(
                    f"{place.file}, line {place.line}: {problem}: got {PROBLEMS[problem]}; "
                    "repair it, or read without strict, which counts and reports such lines"
                )


def read_lines(path: str | Path, *, report: ReadReport, max_chars: int = MAX_CHARS) -> Iterator[Line]:
    """Exactly one item for every line, so that line n of an output belongs to line n of the input.

    Bytes that are not UTF-8 and NUL characters become U+FFFD and over-long lines are cut: all are counted. Empty lines
    are no problem.
    """
    max_bytes = max_chars * _BYTES_PER_CHAR
    with open_text(path) as stream:
        for line, raw in enumerate(raw_lines(stream, max_bytes + _LINE_SLACK, path), start=1):
            report.num_lines += 1
            report.num_kept += 1
            problem = _side_problem(raw, max_bytes, max_chars)
            if problem is not None:
                report.add(problem, Place(str(path), line))
            text = raw.decode(errors="replace")[:max_chars]
            yield Line(line, text if problem is None else text.replace("\0", "\ufffd"), problem)


def count_lines(path: str | Path) -> int:
    """The lines of a file, whatever is in them."""
    with open_text(path) as stream:
        return sum(1 for _ in raw_lines(stream, _COUNTED_BYTES, path))


def _raw_pairs(source: PairSource, max_chars: int) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Both sides of each record. None: there is no such side."""
    names = source.names or source.paths
    with open_text(source.path) as stream:
        if source.target_path is not None:
            limit = max_chars * _BYTES_PER_CHAR + _LINE_SLACK
            with open_text(source.target_path) as target_stream:
                yield from zip_longest(raw_lines(stream, limit, names[0]), raw_lines(target_stream, limit, names[1]))
            return
        max_bytes = max_chars * _RECORD_BYTES_PER_CHAR + _RECORD_SLACK
        for raw in raw_lines(stream, max_bytes + _LINE_SLACK, names[0]):
            if len(raw) > max_bytes:
                yield raw, raw  # perhaps cut by `raw_lines`: no use to take it apart, and too long on any side
            elif source.kind == "tsv":
                yield split_tsv(raw, source.columns)
            else:
                yield split_json(raw, source.keys)


def raw_lines(stream: IO[bytes], limit: int, path: str | Path) -> Iterator[bytes]:
    """Lines without their ends. Of a line of ``limit`` bytes or more, only so many; the rest is read past."""
    readline = stream.readline
    raw = without_mark(readline(limit), path) or readline(limit)
    while raw:
        if raw.endswith(b"\n"):
            yield raw[:-2] if raw.endswith(b"\r\n") else raw[:-1]
        else:
            yield raw
            while raw and not raw.endswith(b"\n"):
                raw = readline(limit)
        raw = readline(limit)


def split_tsv(raw: bytes, columns: tuple[int, int]) -> tuple[bytes | None, bytes | None]:
    fields = raw.split(b"\t", max(columns))
    if len(fields) < max(columns):
        return None, None
    return fields[columns[0] - 1], fields[columns[1] - 1]


def split_json(raw: bytes, keys: tuple[str, str]) -> tuple[bytes | None, bytes | None]:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return raw, raw  # named as what it is
    try:
        record = parse_json(text)
    except ValueError:
        return None, None
    return _look_up(record, keys[0]), _look_up(record, keys[1])


def parse_json(text: str) -> Any:
    """A line of JSON, or what Python takes for it: NaN and infinity are numbers to it.

    One that is nested too deeply is a ValueError whoever reads it: Python's own limit depends on the functions that
    called.
    """
    if text.count("[") + text.count("{") > MAX_NESTING and _nesting(text) > MAX_NESTING:
        raise ValueError(f"expected at most {MAX_NESTING} objects and lists inside each other, got more")
    return json.loads(text)


def _nesting(text: str) -> int:
    """How many objects and lists are open at once, at most; brackets in texts do not count."""
    depth = deepest = 0
    for sign in _BRACKETS.findall(_JSON_TEXTS.sub("", text)):
        depth += 1 if sign in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _look_up(record: object, key: str) -> bytes | None:
    """A side, as bytes like those of the other formats; a lone surrogate becomes bytes that `_is_half` knows."""
    value = record
    for name in [key] if isinstance(record, dict) and key in record else key.split("."):
        value = cast("dict[str, object]", value).get(name) if isinstance(value, dict) else None
    if not isinstance(value, str) or "\n" in value:
        return None
    return value.encode(errors="surrogatepass")


def good_texts(raw_source: bytes | None, raw_target: bytes | None, max_chars: int) -> tuple[str, str] | None:
    """The texts of a pair without a problem. Fast: nearly all pairs are such."""
    if raw_source is None or raw_target is None or b"\0" in raw_source or b"\0" in raw_target:
        return None
    try:
        source, target = raw_source.decode(), raw_target.decode()
    except UnicodeDecodeError:
        return None
    if 0 < len(source) <= max_chars and 0 < len(target) <= max_chars and not (source.isspace() or target.isspace()):
        return source, target
    return None


def find_problem(
    source: PairSource, raw_source: bytes | None, raw_target: bytes | None, max_chars: int
) -> tuple[str, int]:
    """The first problem of a pair that has one, and its side: 0 or 1."""
    if raw_source is None or raw_target is None:
        missing = "bad-record" if source.target_path is None else "unequal-lines"
        return missing, 1 if raw_source is None else 0  # the surplus line stands in the longer file
    max_bytes = max_chars * _BYTES_PER_CHAR
    problems = [_side_problem(raw, max_bytes, max_chars) for raw in (raw_source, raw_target)]
    for wanted in ("invalid-utf8", "too-long", "nul-character"):
        if wanted in problems:
            side = problems.index(wanted)
            if wanted == "invalid-utf8" and source.kind == "jsonl" and _is_half((raw_source, raw_target)[side]):
                return "half-character", side
            return wanted, side
    if not raw_source.decode().strip():
        return "empty-source", 0
    return "empty-target", 1


def _is_half(raw: bytes) -> bool:
    """Whether bytes are UTF-8 but for lone surrogates, which JSON can write as escapes."""
    try:
        raw.decode(errors="surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


def _side_problem(raw: bytes, max_bytes: int, max_chars: int) -> str | None:
    if len(raw) > max_bytes:
        return "too-long"  # whatever its bytes are: it may have been cut inside a character
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return "invalid-utf8"
    if len(text) > max_chars:
        return "too-long"
    return "nul-character" if "\0" in text else None
