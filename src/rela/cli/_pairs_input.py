"""Which rows a command reads: one file of pairs, two files, or standard input; how their columns are named."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rela._files import ending_of
from rela.cli._output import STDOUT
from rela.cli._usage import wrong_use

if TYPE_CHECKING:
    from rela.text.readers import PairSource

MAX_PIECES = 1024
_MOST_DIGITS = 9  # of the number of a column
_FORMATS = ("tsv", "jsonl", "parquet")
_TABLE_MARK = b"PAR1"

SourceOption = Annotated[
    str | None, typer.Option("--src", metavar="FILE", help="Source sentences, one a line, with --tgt; packed or not.")
]
TargetOption = Annotated[str | None, typer.Option("--tgt", metavar="FILE", help="Their translations, as many lines.")]
FormatOption = Annotated[
    str | None,
    typer.Option("--format", metavar="NAME", help="tsv, jsonl or parquet. Default: by the name's ending, else tsv."),
]
ColumnsOption = Annotated[
    str | None, typer.Option(metavar="N,N", help="Of TSV: the columns of source and target, from 1. Default: 1,2.")
]
KeysOption = Annotated[
    str | None,
    typer.Option(
        metavar="A,B",
        help="Of JSONL and Parquet: the keys of source and target; a point goes down a level. Default: the model's "
        "languages, or source,target.",
    ),
]
HeaderOption = Annotated[bool, typer.Option("--header", help="The first line of a TSV has the names of its columns.")]
CalibrateOption = Annotated[
    str | None,
    typer.Option(
        metavar="WHAT",
        help="What quality is learned from: input, model (what it was validated on), another file of pairs, or a "
        "calibration that was written (.json). Default: the input, if it has a thousand pairs, else the model.",
    ),
]
WorkersOption = Annotated[
    int | None, typer.Option(min=1, max=1024, help="Processes, of one thread each. Default: one for each CPU core.")
]
MaxPiecesOption = Annotated[
    int, typer.Option(min=1, max=100_000, help="Pairs with a longer side are malformed: too-many-pieces.")
]


def pair_source(
    path: str | None,
    src: str | None,
    tgt: str | None,
    form: str | None,
    columns: str | None,
    keys: str | None,
    languages: tuple[str, str] | None,
) -> PairSource:
    """From the options; wrong ones are wrong use."""
    from rela.text.readers import PairSource

    if (src is None) != (tgt is None):
        raise typer.BadParameter("expected --src FILE and --tgt FILE together, got one of them")
    if src is not None and tgt is not None:
        if path not in (None, STDOUT):
            raise typer.BadParameter(f"expected a file of pairs, or --src and --tgt, got {path!r} and both")
        if form is not None or columns is not None or keys is not None:
            raise typer.BadParameter("--src and --tgt: expected no --format, --columns or --keys: they are plain text")
        if src == tgt:
            raise typer.BadParameter(f"--src and --tgt: expected two files, got {src!r} for both")
        with wrong_use():
            return PairSource.files(src, tgt)
    path = path or STDOUT
    kind = form or format_of(as_file(path))
    if kind not in _FORMATS:
        raise typer.BadParameter(f"--format: expected {', '.join(_FORMATS)}, got {kind!r}")
    if kind == "tsv":
        if keys is not None:
            raise typer.BadParameter("--keys: expected JSONL or Parquet, got TSV; --columns names those of TSV")
        with wrong_use("--columns"):
            return PairSource.tsv(_no_table(as_file(path)), columns=_numbers(columns or "1,2"))
    if columns is not None:
        raise typer.BadParameter(f"--columns: expected TSV, got {kind}; --keys names its columns")
    chosen = two_keys(keys) if keys is not None else _found_keys(kind, as_file(path), languages)
    make: Any = PairSource.jsonl if kind == "jsonl" else PairSource.parquet
    return make(as_file(path), keys=chosen)


def format_of(path: str) -> str:
    """By the name's ending."""
    ending = ending_of(path).lower()
    return ending if ending in _FORMATS else "tsv"


def is_stream(path: str) -> bool:
    """Whether a path can be read only once: standard input, or a pipe that has a name."""
    return path == STDOUT or Path(path).is_fifo()


def shard_sources(
    urls: Sequence[str],
    form: str | None,
    columns: str | None,
    keys: str | None,
    languages: tuple[str, str] | None,
) -> list[PairSource]:
    """How each of many files is read. Unless keys are named, the first file of a format says them for all of them."""
    kinds = [form or format_of(url) for url in urls]
    if columns is not None and "tsv" not in kinds:
        raise typer.BadParameter("--columns: expected TSV, got none; --keys names the columns of other formats")
    if keys is not None and set(kinds) == {"tsv"}:
        raise typer.BadParameter("--keys: expected JSONL or Parquet, got TSV; --columns names those of TSV")
    found = dict.fromkeys(kinds, keys)
    sources: list[PairSource] = []
    for url, kind in zip(urls, kinds, strict=True):
        of_tsv = kind == "tsv"
        named = None if of_tsv else found[kind]
        sources.append(pair_source(url, None, None, kind, columns if of_tsv else None, named, languages))
        found[kind] = ",".join(sources[-1].keys)
    return sources


def _no_table(path: str) -> str:
    """The same path, unless a Parquet file lies there: its bytes are no rows of text."""
    if not is_stream(path) and Path(path).is_file():
        with Path(path).open("rb") as file:
            first = file.read(len(_TABLE_MARK))
            file.seek(-min(len(_TABLE_MARK), Path(path).stat().st_size), os.SEEK_END)
            if first == file.read() == _TABLE_MARK:
                raise ValueError(f"{path}: expected text, got a Parquet file; say --format parquet")
    return path


def as_file(path: str) -> str:
    """Standard input by its file's name, if it is a whole file: then it can be read twice."""
    if path != STDOUT:
        return path
    try:
        real = Path("/dev/stdin").resolve()
        status = os.fstat(0)
        same = stat.S_ISREG(status.st_mode) and os.path.samestat(status, real.stat())
        return str(real) if same and os.lseek(0, 0, os.SEEK_CUR) == 0 else path
    except OSError:
        return path


def _numbers(text: str) -> tuple[int, int]:
    parts = text.split(",")
    if len(parts) != 2 or not all(part.isascii() and part.isdigit() and int(part) for part in parts):
        raise ValueError(f"expected two numbers from 1 on, such as 1,2; got {text!r}")
    if max(map(len, parts)) > _MOST_DIGITS:
        raise ValueError(f"expected numbers of columns of at most {_MOST_DIGITS} digits, got {text!r}")
    if int(parts[0]) == int(parts[1]):
        raise ValueError(f"expected two different columns, such as 1,2; got {text!r}")
    return int(parts[0]), int(parts[1])


def two_keys(text: str) -> tuple[str, str]:
    """Of the option --keys."""
    parts = text.split(",")
    if len(parts) != 2 or not all(parts) or parts[0] == parts[1]:
        raise typer.BadParameter(f"--keys: expected two different keys such as en,de, got {text!r}")
    return parts[0], parts[1]


def _found_keys(kind: str, path: str, languages: tuple[str, str] | None) -> tuple[str, str]:
    """The first names that the input has, of those that people use."""
    named = [] if languages is None else [languages, tuple(f"translation.{name}" for name in languages)]
    known = [*named, ("source", "target"), ("src", "tgt")]
    fallback = known[0]
    if is_stream(path):
        return (fallback[0], fallback[1])
    for first, second in known:
        if _has_keys(kind, path, (first, second)):
            return first, second
    return (fallback[0], fallback[1])


def _has_keys(kind: str, path: str, keys: tuple[str, str]) -> bool:
    from rela.filtering.shards import open_url
    from rela.text.readers import PairSource
    from rela.text.rows import has_column, import_parquet, read_windows

    with open_url(path) as stream:
        if kind == "parquet":
            schema = import_parquet().read_schema(stream)
            return all(has_column(schema, key) for key in keys)
        first = next(read_windows(PairSource.jsonl(path, keys=keys), size=64, stream=stream), None)
    return first is not None and bool(first.pairs)
