"""Shards of a corpus, and parts of what is made of them: on this machine, or wherever fsspec reaches (s3://, gs://)."""

from __future__ import annotations

import io
import json
import os
import posixpath
import uuid
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, Final, Literal, NamedTuple

from rela._files import ending_of
from rela._lock import FolderLock
from rela.filtering.scorer import WindowScores
from rela.filtering.survey import Survey, look_through
from rela.filtering.writing import PROBLEM_COLUMN, as_jsonl, as_table, as_tsv
from rela.text.readers import MAX_CHARS, PairSource
from rela.text.rows import WINDOW, RowWindow, import_parquet, read_header, read_windows

PartForm = Literal["tsv", "jsonl", "parquet"]

FORMATS: Final[tuple[PartForm, ...]] = ("tsv", "jsonl", "parquet")
SAMPLED_WINDOWS: Final = 64
"""So many windows of all shards together are looked through for a sample; of each shard the first ones."""

RECIPE_FILE: Final = "recipe.json"
_PARTIAL: Final = "_partial"  # a folder for files that have not got their names yet
_LOCAL: Final = "file"


# ---------------------------------------------------------------------- shards


class ShardFile(NamedTuple):
    """A file of pairs: its name among the others, where it lies, its bytes, and what changes when it does."""

    name: str
    url: str
    size: int
    version: str


@dataclass(frozen=True)
class Shard:
    """A file of pairs and how it is read; the path of ``source`` is where it lies."""

    name: str
    size: int
    source: PairSource
    version: str = ""

    def windows(self, *, header: bool = False, max_chars: int = MAX_CHARS, size: int = WINDOW) -> Iterator[RowWindow]:
        """The same windows that `read_windows` makes of a file on this machine. Only TSV can have a header."""
        header = header and self.source.kind == "tsv"
        with open_url(self.source.path) as stream:
            yield from read_windows(self.source, header=header, max_chars=max_chars, size=size, stream=stream)

    def check(self) -> None:
        """A ValueError if the file is not the one that was found any more."""
        system, path = _system(self.source.path)
        if self.version and (int(system.size(path) or 0), _version(system, path)) != (self.size, self.version):
            raise ValueError(
                "expected a shard that stays as it is, got one that was changed meanwhile; run the command again, into "
                "a new folder, on files that nobody writes to"
            )

    def header(self) -> list[bytes]:
        """The first line of a TSV file, if it has one."""
        with open_url(self.source.path) as stream:
            return read_header(self.source, stream)


@contextmanager
def open_url(url: str) -> Generator[IO[bytes]]:
    """A file to read, as it is: packed, if it is packed."""
    system, path = _system(url)
    with system.open(path, "rb") as file:
        yield file


def find_files(inputs: Sequence[str], output: str) -> list[ShardFile]:
    """All files that these paths, addresses, patterns and folders mean, in the order of their names.

    A folder means all files in it and in its folders, but those whose names begin with ``.`` or ``_``, which are for
    programs. A file's name is its path from the folder that all of them lie in.
    """
    found: dict[str, tuple[str, int, str]] = {}  # by path: address, bytes and version
    systems: set[str] = set()
    for text in inputs:
        system, folder = _system(text)
        systems.add(_protocol(system))
        for path, size in _expand(system, folder, text, output):
            if path in found:
                raise ValueError(f"{text}: expected each shard once, got {path} again; leave it out once")
            url = path if _is_local(system) else system.unstrip_protocol(path)
            found[path] = url, size, _version(system, path)
    if len(systems) > 1:
        raise ValueError(
            f"expected shards of one file system, got {' and '.join(sorted(systems))}; score one after the other"
        )
    above = posixpath.commonpath([posixpath.dirname(path) for path in found])
    return [ShardFile(posixpath.relpath(path, above or "."), *found[path]) for path in sorted(found)]


def _expand(system: Any, path: str, text: str, output: str) -> list[tuple[str, int]]:
    if system.isdir(path):
        _check_outside(system, path, output)
        found = [file for file in _files(system.find(path, detail=True)) if _is_for_readers(file[0], path)]
        for name, _ in found:
            if ending_of(name) not in FORMATS:
                raise ValueError(
                    f"{text}: expected a folder of {', '.join(FORMATS)} files, packed or not, got {name} as well; "
                    f"give a pattern, such as '{text.rstrip('/')}/*.tsv.gz'"
                )
    elif system.exists(path):
        found = _files({path: system.info(path)})
    else:
        found = _files(system.glob(path, detail=True)) if any(sign in path for sign in "*?[") else []
    if not found:
        raise FileNotFoundError(f"{text}: expected a file of pairs, or a folder or pattern of such, there is none")
    return found


def _version(system: Any, path: str) -> str:
    """What a file system knows of when a file was changed; its text is not read for that."""
    return str(Path(path).stat().st_mtime_ns) if _is_local(system) else str(system.ukey(path))


def _check_outside(system: Any, folder: str, output: str) -> None:
    """The next run would take results for shards."""
    other, path = _system(output)
    if _protocol(other) == _protocol(system) and f"{path}/".startswith(f"{folder.rstrip('/')}/"):
        raise ValueError(
            f"{output}: expected an output outside of the folder of the input, got one in it; name another"
        )


def _files(listed: dict[str, dict[str, Any]]) -> list[tuple[str, int]]:
    return [(path, int(info.get("size") or 0)) for path, info in listed.items() if info["type"] == "file"]


def _is_for_readers(path: str, folder: str) -> bool:
    return not any(part.startswith((".", "_")) for part in posixpath.relpath(path, folder).split("/"))


def sample_shards(shards: Sequence[Shard], *, header: bool, max_chars: int = MAX_CHARS, seed: int = 1) -> Survey:
    """A first look at the first windows of all shards; of some, evenly spread, if there are many."""
    chosen = shards[:: -(-len(shards) // SAMPLED_WINDOWS)]
    each = SAMPLED_WINDOWS // len(chosen)
    firsts: Iterable[Iterable[RowWindow]] = (
        islice(shard.windows(header=header, max_chars=max_chars), each) for shard in chosen
    )
    return look_through(chain.from_iterable(firsts), seed=seed)


# ---------------------------------------------------------------------- parts


def render_part(
    rows: Iterable[tuple[RowWindow, WindowScores]], form: PartForm, source: PairSource, header: bytes
) -> bytes:
    """A whole file of some windows of a shard; ``header`` is its first line, if it has one."""
    if form == "tsv":
        return header + b"".join(as_tsv(window, scores) for window, scores in rows)
    if form == "jsonl":
        return b"".join(as_jsonl(window, scores, source) for window, scores in rows)
    tables = [as_table(window, scores, source) for window, scores in rows]
    stream = io.BytesIO()
    with import_parquet().ParquetWriter(stream, tables[0].schema) as writer:
        for table in tables:
            writer.write_table(table)
    return stream.getvalue()


def problems_in_part(data: bytes, form: PartForm, *, header: bool, spans: bool) -> list[str | None]:
    """The problem of each row of a part, as it stands in the file."""
    if form == "parquet":
        table = import_parquet().ParquetFile(io.BytesIO(data)).read()
        return table.column(table.num_columns - (2 if spans else 1)).to_pylist()
    lines = data.split(b"\n")[1 if header and form == "tsv" else 0 : -1]
    if form == "jsonl":
        return [json.loads(line)[PROBLEM_COLUMN] for line in lines]
    place = -2 if spans else -1
    return [line.rsplit(b"\t", 2)[place].decode() or None for line in lines]


@dataclass
class Counts:
    """What parts hold: each was read back from where it was written."""

    parts: int = 0
    rows: int = 0
    problems: Counter[str] = field(default_factory=Counter[str])

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.parts + other.parts, self.rows + other.rows, self.problems + other.problems)

    def to_json(self, rows_in: int) -> dict[str, Any]:
        """For a file, beside the rows that were read from shards."""
        problems = dict(sorted(self.problems.items()))
        return {"parts": self.parts, "rows_in": rows_in, "rows_out": self.rows, "problems": problems}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Counts:
        """From plain data."""
        return cls(data["parts"], data["rows_out"], Counter(data["problems"]))


def as_file(data: Mapping[str, Any]) -> bytes:
    """Plain data for people to read."""
    return (json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


class ResultFolder:
    """A folder of files that are whole or not there, all made by one recipe."""

    def __init__(self, url: str) -> None:
        self._system, path = _system(url)
        self._root = path.rstrip("/")
        self.url = url

    @property
    def local(self) -> Path | None:
        """Where it is on this machine, if it is there."""
        return Path(self._root) if _is_local(self._system) else None

    @contextmanager
    def held(self) -> Generator[None]:
        """Nobody else on this machine writes into the folder meanwhile. Object stores have no locks."""
        if self.local is None:
            yield
            return
        self.local.mkdir(parents=True, exist_ok=True)
        refusal = f"{self.url}: expected a folder that nobody else writes into, got another process at it; wait for it"
        lock = FolderLock(self.local, refusal)
        try:
            yield
        finally:
            lock.release()

    def claim(self, recipe: Mapping[str, Any]) -> set[str]:
        """Make this the folder of a recipe, or see that it is. Returns the names of its files."""
        found = self.list()
        if RECIPE_FILE not in found:
            if found:
                raise ValueError(
                    f"{self.url}: expected a new folder or one of the same command, got one with other files, such as "
                    f"{min(found)}; name another"
                )
            self.write(RECIPE_FILE, as_file(recipe))
            return found
        kept, wanted = json.loads(self.read(RECIPE_FILE)), json.loads(as_file(recipe))
        other = [name for name in wanted if kept.get(name) != wanted[name]]
        if other:
            raise ValueError(
                f"{self.url}: expected parts of the same command, got those of one with other {' and '.join(other)}, "
                f"as its {RECIPE_FILE} says; name another folder, or delete this one"
            )
        return found

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def list(self) -> set[str]:
        """The names of all files, but of those that have not got theirs yet."""
        self._system.invalidate_cache()
        if not self._system.exists(self._root):
            return set()
        names = (posixpath.relpath(path, self._root) for path in self._system.find(self._root))
        return {name for name in names if not name.startswith(f"{_PARTIAL}/")}

    def has(self, name: str) -> bool:
        """Whether there is such a file."""
        return bool(self._system.exists(self._path(name)))

    def read(self, name: str) -> bytes:
        """All of a file."""
        return self._system.cat_file(self._path(name))

    def read_all(self, names: Sequence[str]) -> list[bytes]:
        """All of some files, at the same time where they are far away."""
        return self._system.cat_ranges([self._path(name) for name in names], None, None)

    def write(self, name: str, data: bytes) -> None:
        """Write a file, which gets its name when all of it is there. One that has the name is replaced."""
        place, partial = self._path(name), self._path(f"{_PARTIAL}/{uuid.uuid4().hex}")
        try:
            self._write(place, partial, data)
        except FileNotFoundError:  # object stores have no folders, and may not let us look for them
            for path in (place, partial):
                self._system.makedirs(posixpath.dirname(path), exist_ok=True)
            self._write(place, partial, data)

    def _write(self, place: str, partial: str, data: bytes) -> None:
        with self._system.open(partial, "wb") as file:
            file.write(data)
            if self.local is not None:
                file.flush()
                os.fsync(file.fileno())
        self._system.mv(partial, place)

    def clean(self) -> None:
        """Remove what never got its name: that of processes that were killed."""
        self._system.invalidate_cache()
        if self._system.exists(self._path(_PARTIAL)):
            self._system.rm(self._path(_PARTIAL), recursive=True)


def _system(url: str) -> tuple[Any, str]:
    from fsspec.core import url_to_fs

    try:
        return url_to_fs(url)
    except ImportError as error:  # fsspec says which package it needs
        raise ModuleNotFoundError(f"{url}: {error}", name=error.name) from error


def _protocol(system: Any) -> str:
    return system.protocol if isinstance(system.protocol, str) else system.protocol[0]


def _is_local(system: Any) -> bool:
    return _protocol(system) == _LOCAL
