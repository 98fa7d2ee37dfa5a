"""Rows with their scores, as bytes of TSV, lines of JSON, or tables; and files that are whole or not there."""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import lzma
from collections.abc import Callable, Container, Generator, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import IO, Any, Final, cast

import numpy as np

from rela._files import PACKINGS, behind_link, naming, new_binary
from rela.filtering.scorer import WindowScores
from rela.filtering.scores import COLUMNS
from rela.text.readers import PairSource, parse_json
from rela.text.rows import Record, RowWindow, import_parquet
from rela.text.words import split_words

Table = Any
"""A table of pyarrow, which is not loaded before it is needed, and has no types of its own."""

TOO_MANY_PIECES: Final = "too-many-pieces"
PROBLEM_COLUMN: Final = "problem"
SPANS_COLUMN: Final = "suspicious"

_DECODER: Final = json.JSONDecoder()
_BLANKS: Final = " \t\n\r"


def columns_of(*, spans: bool) -> list[str]:
    """The names of the columns that are added to a row."""
    return [*COLUMNS, PROBLEM_COLUMN, *([SPANS_COLUMN] if spans else [])]


def problems_of(window: RowWindow, scores: WindowScores) -> list[str | None]:
    """The problem of each row of a window."""
    found: list[str | None] = [window.problems.get(place) for place in range(len(window))]
    for place, kept in zip(window.places, scores.kept.tolist(), strict=True):
        if not kept:
            found[place] = TOO_MANY_PIECES
    return found


def as_tsv(window: RowWindow, scores: WindowScores) -> bytes:
    """The rows, with their scores behind them; those of a row with a problem are empty."""
    problems = problems_of(window, scores)
    added = [b"\t" * len(COLUMNS) + (problem or "").encode() for problem in problems]
    texts = scores.values.astype(str).tolist()  # as few digits as tell the number: limits can be copied
    for place, values, kept in zip(window.places, texts, scores.kept.tolist(), strict=True):
        if kept:
            added[place] = ("\t".join(values) + "\t").encode()
    if scores.suspicious is not None:
        marks = dict(zip(window.places, scores.suspicious, strict=True))
        added = [row + b"\t" + ranges(marks.get(place, ())).encode() for place, row in enumerate(added)]
    return b"".join(b"%b\t%b\n" % both for both in zip(map(_tsv_row, window.records), added, strict=True))


def _tsv_row(record: Record) -> bytes:
    """A row's lines in columns; of two files, a tab within a text is written as a blank."""
    if len(record) == 1:
        return record[0] or b""
    return b"\t".join((line or b"").replace(b"\t", b" ") for line in record)


def has_inner_tab(record: Record) -> bool:
    """Whether TSV cannot have the row as it is."""
    return len(record) > 1 and any(b"\t" in (line or b"") for line in record)


def as_jsonl(window: RowWindow, scores: WindowScores, source: PairSource) -> bytes:
    """An object a row: what the row has, if it is JSON or of a table, else its texts; then its line (unless the row
    has a ``line`` of its own), scores and problem. ``raw`` is a line that its texts do not tell whole; ``raw_base64``
    is one whose bytes are no text."""
    problems = problems_of(window, scores)
    good = {place: number for number, place in enumerate(window.places)}
    lines: list[str] = []
    for place in range(len(window)):
        found: dict[str, Any] = {}
        number = good.get(place)
        row: str | None = None  # the text of a JSON object
        if window.table is not None:
            found = _table_object(window.table.slice(place, 1))
        elif source.kind == "jsonl" and (parsed := _object(window.records[place][0] or b"")) is not None:
            row, found = parsed
        else:
            if number is not None and source.kind != "jsonl":
                found = dict(zip(("source", "target"), window.pairs[number], strict=True))
            if number is None or _has_more(window.records[place], source):
                found |= _raw(window.records[place])
        added: dict[str, Any] = {} if "line" in found else {"line": window.line(place)}
        scored = number is not None and bool(scores.kept[number])
        values = scores.values[number] if scored else [None] * len(COLUMNS)
        added |= dict(zip(COLUMNS, map(_shortest, values), strict=True))
        added[PROBLEM_COLUMN] = problems[place]
        if scores.suspicious is not None and number is not None:
            added[SPANS_COLUMN] = marked(window.pairs[number][1], scores.suspicious[number])
        if row is None:
            lines.append(json.dumps(found | added, ensure_ascii=False))
        else:
            lines.append(_with_more(_without(row, added) if added.keys() & found.keys() else row, added))
    return "".join(f"{line}\n" for line in lines).encode(errors="replace")


def _with_more(row: str, added: dict[str, Any]) -> str:
    """An object's own text, not a letter changed, with more keys at its end."""
    inside = row.strip(_BLANKS)[:-1].rstrip(_BLANKS)
    return f"{inside}{'' if inside == '{' else ', '}{json.dumps(added, ensure_ascii=False)[1:]}"


def _object(line: bytes) -> tuple[str, dict[str, Any]] | None:
    """A line of JSON that is an object, as text and as data; None for any other."""
    try:
        text = line.decode()
        found = parse_json(text)
    except ValueError:
        return None
    return (text, found) if isinstance(found, dict) else None


def _without(row: str, names: Container[str]) -> str:
    """An object's text without the members of these names; all others as they are written."""
    text = row.strip(_BLANKS)
    kept: list[str] = []
    begin = _after_blanks(text, 1)
    while text[begin] == '"':
        name, end = _DECODER.raw_decode(text, begin)
        value = _after_blanks(text, _after_blanks(text, end) + 1)  # after the colon
        _, end = _DECODER.raw_decode(text, value)
        if name not in names:
            kept.append(text[begin:end])
        end = _after_blanks(text, end)
        begin = _after_blanks(text, end + 1) if text[end] == "," else end
    return f"{{{', '.join(kept)}}}"


def _after_blanks(text: str, place: int) -> int:
    while text[place] in _BLANKS:
        place += 1
    return place


def as_table(window: RowWindow, scores: WindowScores, source: PairSource) -> Table:
    """The table's rows with columns of scores, in the place of any that have their names; of text, its two sides, and
    the line itself where they do not tell it whole."""
    import pyarrow as pa

    table = window.table if window.table is not None else _text_table(window, source)
    table = without_columns(table, columns_of(spans=True))
    values = np.full((len(window), len(COLUMNS)), np.nan, np.float32)
    values[window.good()] = scores.values
    problems = problems_of(window, scores)
    empty = np.array([problem is not None for problem in problems], np.bool_)
    for number, name in enumerate(COLUMNS):
        table = table.append_column(name, pa.array(values[:, number], mask=empty))
    table = table.append_column(PROBLEM_COLUMN, pa.array(problems, pa.string()))
    if scores.suspicious is not None:
        marks = dict(zip(window.places, scores.suspicious, strict=True))
        column = pa.array([list(marks.get(place, ())) for place in range(len(window))], pa.list_(pa.int32()))
        table = table.append_column(SPANS_COLUMN, column)
    return table


def without_columns(table: Table, names: Container[str]) -> Table:
    """Without all columns of these names: there may be several of one."""
    return table.select([place for place, name in enumerate(table.column_names) if name not in names])


def empty_table(source: PairSource, *, spans: bool) -> Table:
    """What `as_table` gives for no rows."""
    schema = import_parquet().read_schema(source.path) if source.kind == "parquet" else None
    window = RowWindow(0, table=None if schema is None else schema.empty_table())
    nothing = np.zeros((0, len(COLUMNS)), np.float32)
    return as_table(window, WindowScores(nothing, np.zeros(0, np.bool_), [] if spans else None), source)


def _text_table(window: RowWindow, source: PairSource) -> Table:
    import pyarrow as pa

    good = {place: number for number, place in enumerate(window.places)}
    pairs = [window.pairs[good[place]] if place in good else None for place in range(len(window))]
    raw = [
        {} if place in good and not _has_more(record, source) else _raw(record)
        for place, record in enumerate(window.records)
    ]
    sides = [pa.array([None if pair is None else pair[side] for pair in pairs], pa.string()) for side in (0, 1)]
    lines = {name: pa.array([found.get(name) for found in raw], pa.string()) for name in ("raw", "raw_base64")}
    return pa.table({"source": sides[0], "target": sides[1], **lines})


def ranges(words: Sequence[int]) -> str:
    """Numbers of words for people: 3-5,9."""
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in _runs(words))


def marked(target: str, words: Sequence[int]) -> list[dict[str, Any]]:
    """Suspicious words of a target, neighbours together: which, where they stand in the text, and the text."""
    spans = split_words(target) if words else []
    return [
        {
            "words": [first, last + 1],
            "characters": [spans[first].start, spans[last].end],
            "text": target[spans[first].start : spans[last].end],
        }
        for first, last in _runs(words)
    ]


def _runs(words: Sequence[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for word in words:
        if found and found[-1][1] == word - 1:
            found[-1] = (found[-1][0], word)
        else:
            found.append((word, word))
    return found


def _table_object(row: Table) -> dict[str, Any]:
    """A table's row as plain data; what JSON has no words for, as text."""
    found: dict[str, Any] = {}
    for column, written in zip(row.columns, row.column_names, strict=True):
        name = next(one for one in _names_like(written) if one not in found)
        found[name] = _value(column[0])
    return json.loads(json.dumps(found, default=_plain), parse_constant=lambda _: None)


def _value(cell: Any) -> Any:
    """A cell as Python has it. Bytes that should be text and are not have marks in them; dates that Python has none for
    are the numbers that stand in the table."""
    import pyarrow as pa

    try:
        return cell.as_py()
    except (ValueError, OverflowError):
        if isinstance(cell, pa.StructScalar):
            return {name: _value(inside) for name, inside in cell.items()}
        if isinstance(cell, pa.ListScalar):  # a map is a list, too
            return [_value(inside) for inside in cell.values]
        if isinstance(cell, pa.DictionaryScalar):
            return _value(cell.value)
        return cell.as_buffer().to_pybytes() if hasattr(cell, "as_buffer") else cell.value


def _names_like(name: str) -> Iterator[str]:
    """For columns of one name: x, x_2, x_3 and so on."""
    yield name
    yield from (f"{name}_{number}" for number in count(2))


def _plain(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _has_more(record: Record, source: PairSource) -> bool:
    """Whether a line has more than its two texts: other columns, or JSON, where a tab is a blank."""
    return source.kind == "jsonl" or (source.kind == "tsv" and (record[0] or b"").count(b"\t") != 1)


def _raw(record: Record) -> dict[str, str]:
    """A row's own line, by ``raw``; or by ``raw_base64``, if its bytes are no text."""
    line = b"\t".join(part or b"" for part in record)
    try:
        return {"raw": line.decode()}
    except UnicodeDecodeError:
        return {"raw_base64": base64.b64encode(line).decode()}


def _shortest(value: Any) -> float | None:
    """A number of 32 bits with as few digits as tell it; nothing for NaN."""
    return None if value is None or value != value else float(str(np.float32(value)))


# ---------------------------------------------------------------------- rows that were rejected


def rejected_tsv(record: Record, reason: str, quality: float | None) -> bytes:
    """The reason and the quality before the row, so that `cut -f3-` gives the row back."""
    return b"%b\t%b\t%b\n" % (reason.encode(), shown(quality).encode(), b"\t".join(line or b"" for line in record))


def rejected_jsonl(record: Record, reason: str, quality: float | None) -> bytes:
    """The row inside an object, as it is if it is JSON, else as text; bytes that are no text in base 64."""
    raw = record[0] or b""
    found: dict[str, Any] = {"reason": reason, "quality": _shortest(quality)}
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        found["raw_base64"] = base64.b64encode(raw).decode()
        return (json.dumps(found) + "\n").encode()
    try:
        parse_json(text)
    except ValueError:
        found["raw"] = text
        return (json.dumps(found) + "\n").encode()
    return f'{json.dumps(found)[:-1]}, "row": {text.strip()}}}\n'.encode()


def shown(quality: float | None) -> str:
    """A quality for people; nothing if there is none."""
    return "" if quality is None else str(np.float32(quality))


# ---------------------------------------------------------------------- files


@contextlib.contextmanager
def new_packed(path: Path) -> Generator[Callable[[bytes], object]]:
    """A file to write, packed as its ending says, which gets its name when all of it is on disk.

    The same bytes give the same file: no names or times are packed with them.
    """
    with new_binary(behind_link(path)) as file, contextlib.ExitStack() as stack:
        packed = _packer(path.suffix.lower(), file, stack)

        def write(data: bytes) -> object:
            with naming(path):
                return packed.write(data)

        yield write


def _packer(ending: str, file: IO[bytes], stack: contextlib.ExitStack) -> IO[bytes]:
    if ending not in PACKINGS:
        return file
    if ending == ".gz":
        return cast("IO[bytes]", stack.enter_context(gzip.GzipFile("", "wb", 6, file, mtime=0)))
    if ending == ".xz":
        return stack.enter_context(lzma.LZMAFile(file, "wb"))
    import zstandard

    return stack.enter_context(zstandard.ZstdCompressor().stream_writer(file, closefd=False))


@contextlib.contextmanager
def new_table(path: Path, empty: Callable[[], Table]) -> Generator[Callable[[Table], object]]:
    """A Parquet file to write, which gets its name when all of it is on disk.

    The first part says its columns; if there is no part, ``empty`` does, a table without rows.
    """
    parquet = import_parquet()
    with new_binary(behind_link(path)) as file:
        writer: list[Any] = []

        def write(table: Table) -> object:
            with naming(path):
                if not writer:
                    writer.append(parquet.ParquetWriter(file, table.schema))
                return writer[0].write_table(table)

        try:
            yield write
            if not writer:
                write(empty())
        finally:
            for opened in writer:
                with naming(path):
                    opened.close()
