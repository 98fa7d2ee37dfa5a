"""Unpacking archives from the web without trust: nothing is written outside the folder, and not without end."""

from __future__ import annotations

import lzma
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Collection, Generator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Final

from rela._files import PACKINGS, remove
from rela.text.compression import is_packed, open_text

_CHUNK: Final = 1 << 20
_NUM_ENTRIES: Final = 100_000
_FREE_BYTES: Final = 1 << 26
_RATIO: Final = 50
"""Text packs to a tenth or so; what unpacks to 50 times its size, and 64 MiB, is no text but a trap."""

_DAMAGE: Final = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    NotImplementedError,  # a packing that zipfile does not know
    FileExistsError,  # the same name for a file and a folder
    NotADirectoryError,
)


@dataclass(frozen=True)
class _Entry:
    """A plain file of an archive, or, with a ``kind``, something that is none."""

    name: str
    kind: str | None
    stream: IO[bytes] | None


def unpack(archive: Path, folder: Path, *, members: Collection[str] | None = None) -> list[Path]:
    """Unpacks an archive to a folder that does not exist yet, all or only ``members``; gives the files.

    Takes tar (plain or ``.gz``, ``.tgz``, ``.xz``, ``.zst``), zip, and single packed files, which lose their suffix.
    Raises ValueError, and leaves no folder, when the archive is damaged or lacks a member, or when an entry to be
    written has an absolute path or ``..``, is a link or a device, is there twice, or when all of them have more than
    64 MiB and 50 times the size of the archive.
    """
    if folder.exists():
        raise FileExistsError(f"expected a folder to be made, got {folder}, which exists; remove it first")
    partial = folder.with_name(f".{folder.name}.partial")
    remove(partial)  # the rest of a process that was killed
    partial.mkdir(parents=True)
    try:
        max_bytes = _FREE_BYTES + _RATIO * archive.stat().st_size
        files = _unpack(archive, partial, None if members is None else set(members), max_bytes)
        partial.rename(folder)
    except BaseException as error:
        shutil.rmtree(partial, ignore_errors=True)
        if isinstance(error, _DAMAGE):
            raise ValueError(
                f"{archive}: expected a whole archive, got a damaged one ({error}); remove it and fetch it again"
            ) from error
        raise
    return [folder / file for file in files]


def _unpack(archive: Path, folder: Path, members: set[str] | None, max_bytes: int) -> list[PurePosixPath]:
    files: dict[PurePosixPath, None] = {}  # in order, and quick to look up
    left = max_bytes
    with closing(_entries(archive)) as entries:
        for number, entry in enumerate(entries):
            if number >= _NUM_ENTRIES:
                raise ValueError(
                    f"{archive}: expected at most {_NUM_ENTRIES:,} entries, got more; it is no text corpus"
                )
            path = PurePosixPath(entry.name)
            if members is not None and str(path) not in members:
                continue
            _check_entry(archive, entry, path)
            if path in files:
                raise ValueError(f"{archive}: expected each file once, got {entry.name} twice; get a sound archive")
            assert entry.stream is not None
            left -= _write(entry.stream, folder / path, left, archive, max_bytes)
            files[path] = None
    if missing := sorted((members or set[str]()) - {str(file) for file in files}):
        raise ValueError(f"{archive}: expected {', '.join(missing)} in it, got an archive without; it has changed")
    return list(files)


def _check_entry(archive: Path, entry: _Entry, path: PurePosixPath) -> None:
    unsafe = path.is_absolute() or ".." in path.parts or "\\" in entry.name or ":" in entry.name or not path.parts
    if unsafe or "\x00" in entry.name:
        raise ValueError(f"{archive}: expected paths inside the archive, got {entry.name!r}; do not trust it")
    if entry.kind is not None:
        raise ValueError(f"{archive}: expected plain files, got {entry.kind} {entry.name!r}; do not trust it")


def _write(stream: IO[bytes], path: Path, left: int, archive: Path, max_bytes: int) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    with path.open("xb") as file:
        while chunk := stream.read(_CHUNK):
            written += len(chunk)
            if written > left:
                raise ValueError(
                    f"{archive}: expected at most {max_bytes:,} bytes when unpacked, got more; it is no text corpus: "
                    "do not trust it"
                )
            file.write(chunk)
    return written


def _entries(archive: Path) -> Generator[_Entry]:
    """The entries in their order, folders left out. Each must be read before the next is asked for."""
    name = archive.name.lower()
    if name.endswith(".zip"):
        return _zip_entries(archive)
    if name.endswith((".tar", ".tgz")) or ".tar." in name:
        return _tar_entries(archive)
    if is_packed(archive):
        return _single_entry(archive)
    endings = ", ".join((".tar", ".tgz", ".tar.gz", ".zip", *PACKINGS))
    raise ValueError(f"{archive}: expected a name with one of {endings}, got {archive.name}")


def _tar_entries(archive: Path) -> Generator[_Entry]:
    with open_text(archive, packing=".gz" if archive.suffix.lower() == ".tgz" else None) as stream:
        with tarfile.open(fileobj=stream, mode="r|") as tar:
            for info in tar:
                if not info.isdir():
                    kind = None if info.isreg() else "a link" if info.issym() or info.islnk() else "a device"
                    yield _Entry(info.name, kind, tar.extractfile(info) if kind is None else None)
        while stream.read(_CHUNK):  # to the end, so that an archive cut after its last file is seen
            pass


def _zip_entries(archive: Path) -> Generator[_Entry]:
    with zipfile.ZipFile(archive) as unzip:
        for info in unzip.infolist():
            if info.is_dir():
                continue
            if info.flag_bits & 1:
                yield _Entry(info.filename, "an encrypted file", None)
                continue
            file_type = stat.S_IFMT(info.external_attr >> 16)
            kind = None if file_type in (0, stat.S_IFREG) else "a link or device"
            with unzip.open(info) as stream:
                yield _Entry(info.filename, kind, stream)


def _single_entry(archive: Path) -> Generator[_Entry]:
    with open_text(archive) as stream:
        yield _Entry(archive.stem, None, stream)
