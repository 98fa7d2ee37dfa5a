"""Rows of parallel text as they are, good or not: what scores are written beside.

Where `rela.text.readers.read_pairs` leaves out a pair with a problem, here every row stays, byte for byte, with the
name of its problem. Rows come in windows of neighbours, which are the same however they are read: so many of them, or
fewer where they have many bytes, so that memory has a limit whatever the rows hold.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import IO, TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from rela.text.compression import STDIN, open_text, unpacked
from rela.text.readers import MAX_CHARS, PairSource, find_problem, good_texts, raw_lines, split_json, split_tsv

if TYPE_CHECKING:
    import pyarrow as pa

WINDOW: Final = 2048
"""Rows that are read, sorted by length and scored together."""

WINDOW_BYTES: Final = 1 << 23
"""A window ends with the row that reaches so many bytes."""

MAX_LINE_BYTES: Final = 1 << 24
"""Of a line that has as many or more, only so many bytes are kept, and it has a problem: it is too long."""

Record = tuple[bytes | None, ...]
"""The lines of a row: one, or one of each of two files, where one may be missing."""


@dataclass
class RowWindow:
    """Some neighbouring rows.

    Attributes:
        first: the number of the first row, from 0.
        pairs: source and target of the rows that have both.
        places: where those stand in the window.
        problems: the problems of all others, by place (see `rela.text.problems`).
        records: the rows' own bytes, without line ends; of a table none.
        table: the rows of a table, with all its columns.
        number: that of the window, from 0.
        skipped: lines before the first row of all, such as a header.
    """

    first: int
    pairs: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    places: list[int] = field(default_factory=list[int])
    problems: dict[int, str] = field(default_factory=dict[int, str])
    records: list[Record] = field(default_factory=list[Record])
    table: pa.Table | None = None
    number: int = 0
    skipped: int = 0

    def line(self, place: int) -> int:
        """The line of the file, from 1, that a row stands in; of a table its row."""
        return self.first + self.skipped + place + 1

    def __len__(self) -> int:
        return len(self.places) + len(self.problems)

    def digest(self) -> bytes:
        """What tells its pairs, and the places that they stand in, from others: what its scores depend on."""
        found = hashlib.blake2b(repr((len(self), self.places)).encode(), digest_size=16)
        for pair in self.pairs:
            found.update("\0".join((*pair, "")).encode())  # no good text has a NUL
        return found.digest()

    def good(self) -> NDArray[np.int64]:
        """The places as an array."""
        return np.array(self.places, np.int64)


def read_windows(
    source: PairSource,
    *,
    header: bool = False,
    max_chars: int = MAX_CHARS,
    size: int = WINDOW,
    stream: IO[bytes] | None = None,
) -> Iterator[RowWindow]:
    """All rows, window by window, in constant memory. With ``header``, the first line of a TSV is not among them.

    ``stream`` is read in place of the file that the source names, which says how it is packed all the same.
    """
    if source.kind == "parquet":
        yield from _table_windows(source, max_chars, size, stream)
        return
    with ExitStack() as stack:
        records = _records(source, stack, stream)
        if header:
            next(records, None)
        first = 0
        for number, chunk in enumerate(_chunks(records, size)):
            window = RowWindow(first, records=chunk, number=number, skipped=int(header))
            for place, record in enumerate(chunk):
                if any(len(line or b"") >= MAX_LINE_BYTES for line in record):
                    window.problems[place] = "too-long"
                else:
                    _add(window, place, source, _sides(source, record), max_chars)
            yield window
            first += len(chunk)


def _chunks(records: Iterator[Record], size: int) -> Iterator[list[Record]]:
    """So many rows each, or fewer that have WINDOW_BYTES."""
    chunk: list[Record] = []
    num_bytes = 0
    for record in records:
        chunk.append(record)
        num_bytes += sum(len(line or b"") for line in record)
        if len(chunk) == size or num_bytes >= WINDOW_BYTES:
            yield chunk
            chunk, num_bytes = [], 0
    if chunk:
        yield chunk


def read_header(source: PairSource, stream: IO[bytes] | None = None) -> list[bytes]:
    """The first line of a TSV file: one, or none in a file without lines."""
    with ExitStack() as stack:
        first = next(_records(source, stack, stream), None)
        return [] if first is None else [first[0] or b""]


def _records(source: PairSource, stack: ExitStack, stream: IO[bytes] | None) -> Iterator[Record]:
    names = source.names or source.paths
    opened = [open_text(path) for path in source.paths] if stream is None else [unpacked(stream, source.path)]
    streams = [stack.enter_context(found) for found in opened]
    lines = [raw_lines(found, MAX_LINE_BYTES, name) for found, name in zip(streams, names, strict=False)]
    return zip_longest(*lines)


def _sides(source: PairSource, record: Record) -> tuple[bytes | None, bytes | None]:
    if source.kind == "files":
        return record[0], record[1]
    raw = record[0] or b""
    return split_tsv(raw, source.columns) if source.kind == "tsv" else split_json(raw, source.keys)


def _add(
    window: RowWindow, place: int, source: PairSource, sides: tuple[bytes | None, bytes | None], max_chars: int
) -> None:
    texts = good_texts(*sides, max_chars)
    if texts is None:
        window.problems[place] = find_problem(source, *sides, max_chars)[0]
    else:
        window.pairs.append(texts)
        window.places.append(place)


def _table_windows(source: PairSource, max_chars: int, size: int, stream: IO[bytes] | None) -> Iterator[RowWindow]:
    parquet = import_parquet()
    if source.path == STDIN and stream is None:
        raise ValueError("expected a Parquet file, which is read from its end, got standard input; give a file")
    pyarrow = __import__("pyarrow")
    with _opened_table(parquet, source.path, stream) as file:
        if not all(has_column(file.schema_arrow, key) for key in source.keys):
            known = ", ".join(file.schema_arrow.names)
            raise ValueError(
                f"{source.path}: expected the columns {' and '.join(source.keys)}, got {known}; name those of your "
                "table with --keys"
            )
        for key in source.keys:
            if (count := file.schema_arrow.names.count(key.split(".")[0])) > 1:
                raise ValueError(f"{source.path}: expected one column {key}, got {count}; rename or drop the others")
        first = 0
        try:
            for number, table in enumerate(_table_chunks(pyarrow, file, size)):
                yield _table_window(source, table, first, number, max_chars)
                first += table.num_rows
        except pyarrow.ArrowNotImplementedError as error:
            raise ValueError(
                f"{source.path}: expected columns that pyarrow can read, got some that it cannot ({error}); write the "
                "table without them"
            ) from None


def _opened_table(parquet: Any, path: str, stream: IO[bytes] | None) -> Any:
    try:
        return parquet.ParquetFile(stream if stream is not None else path)
    except ValueError as error:  # pyarrow's own do not say which file it is
        raise ValueError(f"{path}: expected a Parquet file, got something else: {error}") from None


def _table_chunks(pyarrow: Any, file: Any, size: int) -> Iterator[Any]:
    """So many rows each, or fewer: as often halved as it takes to have less than WINDOW_BYTES."""
    groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    of_a_row = max((group.total_byte_size / group.num_rows for group in groups if group.num_rows), default=0.0)
    at_once = max(1, min(size, int(WINDOW_BYTES / max(1.0, of_a_row))))
    waiting = file.schema_arrow.empty_table()
    for batch in file.iter_batches(batch_size=at_once):
        waiting = pyarrow.concat_tables([waiting, pyarrow.Table.from_batches([batch])])
        while waiting.num_rows and (waiting.num_rows >= size or table_bytes(waiting) >= WINDOW_BYTES):
            taken = _first_rows(waiting, size)
            yield waiting.slice(0, taken)
            waiting = waiting.slice(taken)
    if waiting.num_rows:
        yield waiting


def _first_rows(table: Any, size: int) -> int:
    rows = min(size, table.num_rows)
    while rows > 1 and table_bytes(table.slice(0, rows)) >= WINDOW_BYTES:
        rows //= 2
    return rows


def table_bytes(table: Any) -> int:
    """What the rows of a table have. A dictionary of values, which all rows of a group share, is not theirs."""
    chunks = (chunk for column in table.columns for chunk in column.chunks)
    return sum((chunk.indices if hasattr(chunk, "indices") else chunk).nbytes for chunk in chunks)


def _table_window(source: PairSource, table: Any, first: int, number: int, max_chars: int) -> RowWindow:
    window = RowWindow(first, table=table, number=number)
    columns: Sequence[list[object]] = [_column_values(table, key) for key in source.keys]
    for place, values in enumerate(zip(*columns, strict=True)):
        left, right = (_text_bytes(value) for value in values)
        _add(window, place, source, (left, right), max_chars)
    return window


def has_column(schema: Any, key: str) -> bool:
    """Whether a table has such a column; ``a.b`` is the field b of the column a, unless a column has that name."""
    if key in schema.names:
        return True
    name, *fields = key.split(".")
    if name not in schema.names:
        return False
    kind: Any = schema.field(name).type
    for field_name in fields:
        if not hasattr(kind, "get_field_index") or kind.get_field_index(field_name) < 0:
            return False
        kind = kind.field(field_name).type
    return True


def _column_values(table: Any, key: str) -> list[object]:
    """A column's values; of text its bytes, which may be none of UTF-8."""
    pyarrow, compute = __import__("pyarrow"), __import__("pyarrow.compute").compute
    name, *fields = [key] if key in table.column_names else key.split(".")
    column = table.column(name)
    for field_name in fields:
        column = compute.struct_field(column, field_name)
    if pyarrow.types.is_dictionary(column.type):
        column = column.combine_chunks().dictionary_decode()
    if pyarrow.types.is_string(column.type) or pyarrow.types.is_large_string(column.type):
        column = column.cast(pyarrow.large_binary())
    return column.to_pylist()


def _text_bytes(value: object) -> bytes | None:
    if isinstance(value, bytes):
        return None if b"\n" in value else value
    return value.encode() if isinstance(value, str) and "\n" not in value else None


def import_parquet() -> Any:
    """The package that reads and writes tables, if it is there."""
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise ModuleNotFoundError(
            "expected the package pyarrow to read or write Parquet, got none; install it with: pip install "
            "'rela-attention[filter]'",
            name="pyarrow",
        ) from error
    return pyarrow.parquet
