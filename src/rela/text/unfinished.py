"""The folder of a preparation that is not finished: what was done before a cut, and the recipe that it was done by."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, Final

from rela._files import naming, write_text
from rela.text.compression import STDIN
from rela.text.readers import PairSource

Splits = Mapping[str, Sequence[PairSource]]

_RECIPE_FILE: Final = "recipe.json"
_LOCK_FILE: Final = "lock"


@contextmanager
def take_up(folder: Path, recipe: Mapping[str, Any], splits: Splits) -> Generator[Splits]:
    """Go on with a folder that the same recipe began, or begin anew. Only one process may do so at a time.

    What can be read once only, such as standard input, is needed twice, for the subwords and for the store: it is
    written to files first. Gives the splits with these files in its place.
    """
    text = json.dumps({**recipe, "splits": {name: _fingerprints(sources) for name, sources in splits.items()}})
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _LOCK_FILE).open("ab") as file:
        _lock(file, folder)
        begun = folder / _RECIPE_FILE
        has_streams = any(_is_stream(path) for sources in splits.values() for item in sources for path in item.paths)
        if has_streams or not begun.is_file() or begun.read_text(encoding="utf-8") != text:
            clear(folder, keep=())
            write_text(begun, text)
        yield {name: _spooled(folder, name, sources) for name, sources in splits.items()}


def clear(folder: Path, *, keep: Sequence[str]) -> None:
    """Remove all but these files; the lock goes when it is released."""
    for file in folder.iterdir():
        if file.name not in (*keep, _LOCK_FILE):
            file.unlink()


def release(folder: Path) -> None:
    """The folder is finished: take away what only an unfinished one has."""
    (folder / _LOCK_FILE).unlink()


def _lock(file: IO[bytes], folder: Path) -> None:
    try:
        import fcntl
    except ImportError:  # where the system has no such locks
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # ends with the process, also when it is killed
    except BlockingIOError:
        raise BlockingIOError(
            f"{folder}: expected no other process to write here, got one; wait for it, or name another folder"
        ) from None


def _fingerprints(sources: Sequence[PairSource]) -> list[Any]:
    """What tells whether sources are still the same: their paths, and the sizes and times of the files."""
    facts: list[Any] = []
    for source in sources:
        facts.append(asdict(source))
        for path in map(Path, source.paths):
            if not _is_stream(str(path)):
                if path.is_dir():
                    raise IsADirectoryError(f"{path}: expected a text file, got a folder")
                if not path.exists():
                    raise FileNotFoundError(f"{path}: expected a text file, there is none")
                facts.append([path.stat().st_size, path.stat().st_mtime_ns])
    return facts


def _is_stream(path: str) -> bool:
    """True for standard input, pipes and the like."""
    return path == STDIN or (Path(path).exists() and not Path(path).is_file() and not Path(path).is_dir())


def _spooled(folder: Path, split: str, sources: Sequence[PairSource]) -> list[PairSource]:
    spooled: list[PairSource] = []
    for number, source in enumerate(sources):
        for side, path in enumerate(source.paths):
            if _is_stream(path):
                file = folder / f"{split}.{number}.{side}.stream{Path(path).suffix}"
                with naming(file), file.open("wb") as spool:
                    _copy(path, spool)
                source = source.with_path(path, str(file))
        spooled.append(source)
    return spooled


def _copy(path: str, spool: IO[bytes]) -> None:
    if path == STDIN:
        shutil.copyfileobj(sys.stdin.buffer, spool)
    else:
        with Path(path).open("rb") as stream:
            shutil.copyfileobj(stream, spool)
