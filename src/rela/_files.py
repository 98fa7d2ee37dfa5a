"""Files that are whole or not there: written beside their place, flushed to disk, renamed."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
import shutil
from collections.abc import Callable, Generator
from pathlib import Path
from typing import BinaryIO, Final, TextIO, TypeVar

File = TypeVar("File", TextIO, BinaryIO)

PACKINGS: Final = (".gz", ".xz", ".zst")
"""The endings of packed text that can be read, in small letters: compare them so."""


def write_text(path: Path, text: str) -> None:
    """Write a file, whole or not at all."""
    with new_file(path) as file, naming(path):
        file.write(text)


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file that is no text, whole or not at all."""
    with new_binary(path) as file, naming(path):
        file.write(data)


@contextlib.contextmanager
def new_file(path: Path) -> Generator[TextIO]:
    """A text file to write, which gets its name when all of it is on disk. One that is there is replaced,
    but for devices and pipes, which are written to.

    Errors name the user's file, not ours; those of writing do so under `naming`.
    """
    with _anew(path, lambda partial: partial.open("w", encoding="utf-8", newline="\n")) as file:
        yield file


@contextlib.contextmanager
def new_binary(path: Path) -> Generator[BinaryIO]:
    """The same for a file that is no text."""
    with _anew(path, lambda partial: partial.open("wb")) as file:
        yield file


@contextlib.contextmanager
def _anew(path: Path, open_file: Callable[[Path], File]) -> Generator[File]:
    if is_in_place(path):
        with naming(path):
            file = open_file(path)
        with contextlib.closing(file):
            yield file
        return
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    with naming(path):
        file = open_file(partial)
    try:
        yield file
        with naming(path):
            file.flush()
            os.fsync(file.fileno())
            file.close()
            partial.replace(path)
    finally:
        with contextlib.suppress(OSError):
            file.close()
        with contextlib.suppress(OSError):
            partial.unlink()


def is_in_place(path: Path) -> bool:
    """A device or a pipe: it is written to, where a file is replaced by a new one."""
    return path.exists() and not path.is_file() and not path.is_dir()


def behind_link(path: str | Path) -> Path:
    """What to write to, so that a link stays a link; one to a pipe leads to nothing that has a path."""
    found = Path(path)
    return found if is_in_place(found) else found.resolve()


def remove_leftovers(path: Path) -> None:
    """Files that were to get this name, of processes that were killed. Nobody else may be writing it now."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.partial"):
        if left.name.removeprefix(f".{path.name}.").removesuffix(".partial").isdigit():
            left.unlink(missing_ok=True)


@contextlib.contextmanager
def naming(name: str | Path) -> Generator[None]:
    """Errors of the system name this file or stream: those of a full disk name none. A reader who left is no error."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(name)) from None


def digest(path: Path) -> str:
    """The SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def new_folder(path: Path) -> Generator[Path]:
    """A folder to fill, which gets its name when everything in it is on disk. One that is there is replaced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    remove(partial)
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
        sync(file)
    sync(folder)


def replace_folder(folder: Path, path: Path) -> None:
    """Give a folder its name, in place of whatever has it. At any moment there is a whole one, or none."""
    old = path.with_name(f".{path.name}.old")
    remove(old)
    if not os.path.lexists(path):
        folder.replace(path)
    else:
        path.replace(old)
        try:
            folder.replace(path)
        except OSError:
            old.replace(path)  # what was there stays there
            raise
    sync(path.parent)
    remove(old)


def remove(path: Path) -> None:
    """Remove a folder, or a file or link; a rest that cannot be removed is no reason to fail."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()


def sync(path: Path) -> None:
    """Wait until a file is on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def ending_of(path: str | Path) -> str:
    """The ending of a file's name without its point, that of a packing not counted: en for train.en.gz."""
    return _unpacked(path).suffix[1:]


def stem_of(path: str | Path) -> str:
    """A file's name without that ending and its folder: train for corpus/train.en.gz."""
    return _unpacked(path).stem


def _unpacked(path: str | Path) -> Path:
    name = Path(path).name
    return Path(Path(name).stem if name.lower().endswith(PACKINGS) else name)
