"""Files that are whole or not there: written beside their place, flushed to disk, renamed."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Generator
from pathlib import Path


def write_text(path: Path, text: str) -> None:
    """Write a file, whole or not at all."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None  # the user's file, not ours
    finally:
        with contextlib.suppress(FileNotFoundError):
            partial.unlink()


@contextlib.contextmanager
def new_folder(path: Path) -> Generator[Path]:
    """A folder to fill, which gets its name when everything in it is on disk. One that is there is replaced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    try:
        yield partial
        sync_folder(partial)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    replace_folder(partial, path)


def sync_folder(folder: Path) -> None:
    """Wait until a folder's files are on disk."""
    for file in folder.iterdir():
        _sync(file)
    _sync(folder)


def replace_folder(folder: Path, path: Path) -> None:
    """Give a folder its name, in place of whatever has it. At any moment there is a whole one, or none."""
    old = path.with_name(f".{path.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if path.exists():
        path.replace(old)
    folder.replace(path)
    _sync(path.parent)
    shutil.rmtree(old, ignore_errors=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
