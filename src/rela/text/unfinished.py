"""The folder of a preparation that is not finished: what was done before a cut, and the recipe that it was done by.

It stays after a cut if the same preparation can go on with it. If nothing was finished, if the text is at fault (with
other text, nothing in it holds) or came from a stream (which cannot be read again), it goes. What another preparation
finished is set aside once, as ``.NAME.partial.old``.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, Final

from rela._files import is_in_place, naming, remove, write_text
from rela._lock import FolderLock
from rela._streams import standard_input
from rela._warn import warn
from rela.text.compression import STDIN
from rela.text.readers import PairSource

Splits = Mapping[str, Sequence[PairSource]]

LEARNED_FILE: Final = "learned.json"
"""Written when the subwords are learned and lie beside it."""

DONE: Final = ".done"
"""The ending of a file that is written when a split is encoded."""

_RECIPE_FILE: Final = "recipe.json"


def unfinished_folder(out: Path) -> Path:
    """Where a store is prepared before it gets its name."""
    resolved = out.resolve()  # a link stays a link
    return resolved.with_name(f".{resolved.name}.partial")


@contextmanager
def take_up(folder: Path, recipe: Mapping[str, Any], splits: Splits, *, check: Callable[[], None]) -> Generator[Splits]:
    """Go on with a folder that the same recipe began, or begin anew. Only one process may do so at a time.

    The folder stays locked to the end, when it may have another name. ``check`` is called when it is locked: what was
    looked at before may have been changed by a process that had the lock until then.

    What can be read once only, such as standard input, is needed twice, for the subwords and for the store: it is
    written to files first. Gives the splits with these files in its place.
    """
    text = json.dumps({**recipe, "splits": {name: _fingerprints(sources) for name, sources in splits.items()}})
    has_streams = any(_is_stream(path) for sources in splits.values() for item in sources for path in item.paths)
    lock = _lock(folder, text, check)
    try:
        if has_streams or not _is_begun_by(folder, text):
            clear(folder, keep=())
            write_text(folder / _RECIPE_FILE, text)
        yield {name: _spooled(folder, name, sources) for name, sources in splits.items()}
    except BaseException as error:
        if not lock.is_at(folder):
            pass  # it has the name of the store: another one may have this name now
        elif has_streams or isinstance(error, ValueError) or not _has_results(folder):
            shutil.rmtree(folder, ignore_errors=True)
        elif isinstance(error, OSError) and error.strerror is not None:  # of the system: a full disk, for one
            kept = f"{error.strerror}; {folder} has what was done, and the same command goes on from there"
            raise OSError(error.errno, kept, error.filename) from None
        raise
    finally:
        lock.release()


def _lock(folder: Path, text: str, check: Callable[[], None]) -> FolderLock:
    """Lock a folder of this name in which no other recipe has finished anything."""
    refusal = f"{folder}: expected no other process to write here, got one; wait for it, or name another folder"
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            lock = FolderLock(folder, refusal)
        except FileNotFoundError:
            continue  # just finished, and renamed
        try:
            if lock.is_at(folder):
                check()
                if _is_begun_by(folder, text) or not _has_results(folder):
                    return lock
                _set_aside(folder)
        except BaseException:
            with suppress(OSError):
                folder.rmdir()  # if nothing is in it
            lock.release()
            raise
        lock.release()


def _is_begun_by(folder: Path, text: str) -> bool:
    begun = folder / _RECIPE_FILE
    return begun.is_file() and begun.read_text(encoding="utf-8") == text


def _set_aside(folder: Path) -> None:
    """Keep what another recipe made, until the next time; nobody should lose hours by a slip."""
    old = folder.with_name(f"{folder.name}.old")
    remove(old)
    folder.replace(old)
    warn(
        f"{folder} has what was finished of a preparation of other text, by other options or by another version; it is "
        f"kept as {old.name}: rename it to go on with it, or remove it"
    )


def _has_results(folder: Path) -> bool:
    return (folder / LEARNED_FILE).exists() or any(folder.glob(f"*{DONE}"))


def clear(folder: Path, *, keep: Sequence[str]) -> None:
    """Remove all but these files."""
    for file in folder.iterdir():
        if file.name not in keep:
            file.unlink()


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
    return path == STDIN or is_in_place(Path(path))


def _spooled(folder: Path, split: str, sources: Sequence[PairSource]) -> list[PairSource]:
    spooled: list[PairSource] = []
    for number, source in enumerate(sources):
        for side, path in enumerate(source.paths):
            if _is_stream(path):
                file = folder / f"{split}.{number}.{side}.stream{Path(path).suffix}"
                with _open_stream(path) as stream, naming(file), file.open("wb") as spool:
                    shutil.copyfileobj(stream, spool)
                source = source.with_path(path, str(file))
        spooled.append(source)
    return spooled


def _open_stream(path: str) -> AbstractContextManager[IO[bytes]]:
    return nullcontext(standard_input()) if path == STDIN else Path(path).open("rb")
