"""From scores to a kept and a rejected corpus. Nothing vanishes: every row is in one of the two."""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rela._files import PACKINGS, ending_of, remove_leftovers
from rela.filtering.corpus import ScoredCorpus
from rela.filtering.scores import COLUMNS, SCORES
from rela.filtering.writing import (
    new_packed,
    new_table,
    problems_of,
    rejected_jsonl,
    rejected_tsv,
    shown,
    without_columns,
)
from rela.text.readers import PairSource
from rela.text.rows import WINDOW_BYTES, RowWindow, import_parquet, read_header, table_bytes

LOW_SCORE: Final = "low-score"
_QUALITY: Final = COLUMNS.index("quality")
_REASON, _TABLE_QUALITY = "rela_reason", "rela_quality"  # columns that rejected rows of a table get


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Which rows are kept, by one score: a share of the good ones, those from a threshold on, or so many."""

    by: str = "quality"
    keep: float | None = None
    threshold: float | None = None
    top: int | None = None

    def __post_init__(self) -> None:
        if self.by not in SCORES or SCORES[self.by].good == "middle":
            known = ", ".join(name for name, score in SCORES.items() if score.good != "middle")
            raise ValueError(f"by: expected one of {known}, got {self.by!r}")
        given = [value for value in (self.keep, self.threshold, self.top) if value is not None]
        if len(given) != 1:
            raise ValueError(f"expected one of keep, threshold and top, got {len(given)}")
        if self.keep is not None and not 0 <= self.keep <= 1:
            raise ValueError(f"keep: expected a share from 0 to 1, got {self.keep}")
        if self.threshold is not None and math.isnan(self.threshold):
            raise ValueError(f"threshold: expected a number, got {self.threshold}")
        if self.top is not None and self.top < 0:
            raise ValueError(f"top: expected 0 or more rows, got {self.top}")

    def chosen(self, values: NDArray[np.float32]) -> NDArray[np.bool_]:
        """Which of these values are kept. NaN never is; of equal ones, the first are."""
        goodness = -values if SCORES[self.by].good == "low" else values
        scored = ~np.isnan(goodness)
        if self.threshold is not None:
            limit = -self.threshold if SCORES[self.by].good == "low" else self.threshold
            most = float(np.finfo(np.float32).max)
            return scored & (goodness >= np.float32(min(max(limit, -most), most)))
        count = self.top if self.top is not None else round((self.keep or 0.0) * int(scored.sum()))
        order = np.argsort(np.where(scored, -goodness, np.inf), kind="stable")
        found = np.zeros(len(values), np.bool_)
        found[order[: min(count, int(scored.sum()))]] = True
        return found

    def to_json(self) -> dict[str, Any]:
        """For the summary."""
        how = {"keep": self.keep, "threshold": self.threshold, "top": self.top}
        return {"by": self.by, **{name: value for name, value in how.items() if value is not None}}


@dataclass
class Split:
    """What became of the rows."""

    num_rows: int = 0
    num_kept: int = 0
    num_rejected: int = 0
    reasons: Counter[str] = field(default_factory=Counter[str])
    files: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    limit: float | None = None

    @property
    def num_malformed(self) -> int:
        """Rows that could not be scored; they are in the rejected file with their reason."""
        return self.reasons.total() - self.num_rejected

    def check(self, expected: int) -> None:
        """Kept, rejected and malformed rows must be all rows that there are."""
        total = self.num_kept + self.num_rejected + self.num_malformed
        if not total == self.num_rows == expected:
            raise RuntimeError(
                f"expected {expected:,} rows in all, got {self.num_kept:,} kept, {self.num_rejected:,} rejected and "
                f"{self.num_malformed:,} malformed: the input was changed meanwhile; run the command again"
            )


def split_corpus(scored: ScoredCorpus, rule: Rule, folder: Path) -> Split:
    """Write the kept and the rejected rows; returns what became of all."""
    values = np.concatenate([np.zeros(0, np.float32), *scored.kept.column(rule.by, scored.survey.num_windows)])
    kept_flags = np.concatenate(
        [np.zeros(0, np.bool_), *(scored.kept.load(n).kept for n in range(scored.survey.num_windows))]
    )
    chosen = rule.chosen(np.where(kept_flags, values, np.nan))
    found = Split()
    if chosen.any():
        limits = values[chosen]
        found.limit = float(limits.max() if SCORES[rule.by].good == "low" else limits.min())
    writer = _Writers(scored, folder)
    for paths in writer.files.values():
        for path in paths:
            remove_leftovers(Path(path))  # the scores' lock is ours
    with writer.open() as (keep, reject):
        place = 0
        for window, scores in scored.windows():
            flags = dict(zip(window.places, chosen[place : place + len(window.places)].tolist(), strict=True))
            qualities = dict(zip(window.places, scores.values[:, _QUALITY].tolist(), strict=True))
            place += len(window.places)
            for row, problem in enumerate(problems_of(window, scores)):
                found.num_rows += 1
                if flags.get(row) and problem is None:
                    found.num_kept += 1
                    keep(window, row)
                    continue
                found.reasons[problem or LOW_SCORE] += 1
                found.num_rejected += problem is None
                reject(window, row, problem or LOW_SCORE, None if problem is not None else qualities[row])
    found.files = writer.files
    found.check(scored.survey.num_rows)
    return found


def files_of(source: PairSource, folder: Path) -> dict[str, list[str]]:
    """The files that kept and rejected rows go to: named and packed as the input is."""
    endings = [_endings(path) for path in source.paths]
    if source.kind == "files":
        named = [packing if not name else f".{name}{packing}" for name, packing in endings]
        if named[0] == named[1]:
            named = [f".source{named[0]}", f".target{named[1]}"]
    else:
        named = [f".{source.kind}{endings[0][1]}"]
    found = {kind: [str(folder / f"{kind}{end}") for end in named] for kind in ("kept", "rejected")}
    if source.kind == "files":
        found["rejected"].append(str(folder / "rejected.reasons.tsv"))
    return found


Keep = Callable[[RowWindow, int], object]
Reject = Callable[[RowWindow, int, str, float | None], object]


class _Writers:
    """The files of a format: kept rows as they were, rejected ones with a reason."""

    def __init__(self, scored: ScoredCorpus, folder: Path) -> None:
        self._source, self._header = scored.options.source, scored.options.header
        self.files = files_of(self._source, folder)

    @contextlib.contextmanager
    def open(self) -> Any:
        """Functions that keep and reject a row. The files get their names at the end."""
        with contextlib.ExitStack() as stack:
            if self._source.kind == "parquet":
                yield self._tables(stack)
            else:
                outs = {
                    kind: [stack.enter_context(new_packed(Path(path))) for path in paths]
                    for kind, paths in self.files.items()
                }
                yield self._lines(outs["kept"], outs["rejected"])

    def _lines(self, kept: list[Any], rejected: list[Any]) -> tuple[Keep, Reject]:
        kind = self._source.kind
        if self._header:
            header = read_header(self._source)
            kept[0](b"".join(b"%b\n" % line for line in header))
            rejected[0](b"\t".join([b"reason", b"quality", *header]) + b"\n")
        if kind == "files":
            rejected[2](b"line\treason\tquality\n")

        def keep(window: RowWindow, row: int) -> None:
            for write, line in zip(kept, window.records[row], strict=True):
                write((line or b"") + b"\n")

        def reject(window: RowWindow, row: int, reason: str, quality: float | None) -> None:
            record = window.records[row]
            if kind == "files":
                for write, line in zip(rejected[:2], record, strict=True):
                    write((line or b"") + b"\n")
                rejected[2](f"{window.line(row)}\t{reason}\t{shown(quality)}\n".encode())
            else:
                rejected[0]((rejected_tsv if kind == "tsv" else rejected_jsonl)(record, reason, quality))

        return keep, reject

    def _tables(self, stack: contextlib.ExitStack) -> tuple[Keep, Reject]:
        import pyarrow as pa

        schema = import_parquet().read_schema(self._source.path)
        added = [pa.field(_REASON, pa.string()), pa.field(_TABLE_QUALITY, pa.float32())]
        others = [column for column in schema if column.name not in (_REASON, _TABLE_QUALITY)]
        schemas = {"kept": schema, "rejected": pa.schema([*others, *added], schema.metadata)}
        writers = [
            RowWriter(stack.enter_context(new_table(Path(self.files[kind][0]), found.empty_table)))
            for kind, found in schemas.items()
        ]
        for writer in writers:
            stack.callback(writer.flush)

        def keep(window: RowWindow, row: int) -> None:
            writers[0].add(window.table, row)

        def reject(window: RowWindow, row: int, reason: str, quality: float | None) -> None:
            writers[1].add(window.table, row, (reason, quality))

        return keep, reject


class RowWriter:
    """Rows of tables, written many at a time. What waits are copies: a slice would keep its whole table in memory."""

    def __init__(self, write: Callable[[Any], object]) -> None:
        self._write = write
        self._table: Any = None
        self._numbers: list[int] = []
        self._reasons: list[tuple[str, float | None]] = []
        self._waiting: list[Any] = []
        self._size = 0

    def add(self, table: Any, row: int, reason: tuple[str, float | None] | None = None) -> None:
        """One more row, with a reason if it is rejected."""
        if table is not self._table:
            self._take()
            self._table = table
        self._numbers.append(row)
        if reason is not None:
            self._reasons.append(reason)

    def flush(self) -> None:
        """Write what waits."""
        self._take()
        self._write_waiting()

    def _take(self) -> None:
        if not self._numbers:
            return
        taken = _rows_of(self._table, self._numbers)
        if self._reasons:
            taken = _with_reasons(taken, self._reasons)
        self._waiting.append(taken)
        self._size += table_bytes(taken)
        self._numbers, self._reasons = [], []
        if self._size >= WINDOW_BYTES or sum(table.num_rows for table in self._waiting) >= 4096:
            self._write_waiting()

    def _write_waiting(self) -> None:
        import pyarrow as pa

        if self._waiting:
            self._write(pa.concat_tables(self._waiting).combine_chunks())
            self._waiting, self._size = [], 0


def _rows_of(table: Any, numbers: list[int]) -> Any:
    """A copy of some rows. pyarrow cannot take rows of columns of every type, but can put slices together."""
    import pyarrow as pa

    try:
        return table.take(numbers)
    except pa.ArrowNotImplementedError:
        return pa.concat_tables([table.slice(number, 1) for number in numbers]).combine_chunks()


def _with_reasons(table: Any, reasons: list[tuple[str, float | None]]) -> Any:
    import pyarrow as pa

    table = without_columns(table, (_REASON, _TABLE_QUALITY))
    table = table.append_column(_REASON, pa.array([reason for reason, _ in reasons]))
    return table.append_column(_TABLE_QUALITY, pa.array([quality for _, quality in reasons], pa.float32()))


def _endings(path: str) -> tuple[str, str]:
    """The ending of a name, and how it is packed: ("en", ".gz")."""
    suffix = Path(path).suffix
    return ending_of(path), suffix if suffix.lower() in PACKINGS else ""
