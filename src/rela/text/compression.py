"""Binary streams of plain, gzip, xz and zstd files. Damaged or cut files are told apart from short ones."""

from __future__ import annotations

import gzip
import io
import lzma
import sys
import zlib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, cast

from rela._files import PACKINGS
from rela._streams import standard_input

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

STDIN: Final = "-"
"""The path that means standard input, always plain."""

_STARTS: Final = {b"\x1f\x8b\x08": ".gz", b"\xfd7zXZ\0": ".xz", b"\x28\xb5\x2f\xfd": ".zst"}
"""How packed files begin; none of it is UTF-8."""
_UNKNOWN_STARTS: Final = {
    **{b"BZh%d1AY&SY" % level: ".bz2" for level in range(1, 10)},
    b"PK\x03\x04": ".zip",
}
"""The same of packings that we do not unpack; no text begins with any of them."""
_BUFFER: Final = 1 << 18
_ZSTD_CHUNK: Final = 1 << 10
"""Packed bytes taken at once: zstd may turn 4 of them into 128 KiB, so this bounds the memory to 32 MiB."""


@contextmanager
def open_text(path: str | Path, *, packing: str | None = None) -> Generator[IO[bytes]]:
    """The unpacked bytes of a file, or of standard input for ``-``, to be read line by line.

    The last suffix, or ``packing`` in its place, says how the file is packed: ``.gz``, ``.xz``, ``.zst``; any other
    is plain. Raises FileNotFoundError or IsADirectoryError when the path is no file, and ValueError, while reading,
    when a packed file is damaged or ends too early.
    """
    if str(path) == STDIN:
        stream = standard_input()
        _check_plain(stream, "standard input")
        yield stream
        return
    with Path(path).open("rb") as file, unpacked(file, str(path), packing=packing) as lines:
        yield lines


@contextmanager
def unpacked(file: IO[bytes], name: str, *, packing: str | None = None) -> Generator[IO[bytes]]:
    """The unpacked bytes of an open file of any kind, to be read line by line; its name says how it is packed."""
    if not isinstance(file, io.BufferedReader):
        buffered = io.BufferedReader(cast("io.RawIOBase", file), _BUFFER)
        try:
            with unpacked(buffered, name, packing=packing) as lines:
                yield lines
        finally:
            buffered.detach()  # whoever opened the file closes it
        return
    packing = (packing or Path(name).suffix).lower()
    unpack = _UNPACKERS.get(packing)
    if unpack is None:
        _check_plain(file, name)
        yield file
        return
    if not file.peek(1):
        raise ValueError(f"{name}: expected a packed file, got one of 0 bytes; download or pack it again")
    with unpack(file) as bare, io.BufferedReader(_Guarded(bare, name, packing), _BUFFER) as lines:
        yield lines


def is_packed(path: str | Path) -> bool:
    """Whether `open_text` unpacks this file."""
    return Path(path).suffix.lower() in _UNPACKERS


def _check_plain(stream: IO[bytes], name: str) -> None:
    """Refuse packed bytes where text is expected; thousands of lines that are not UTF-8 would say less."""
    if not isinstance(stream, io.BufferedReader) or stream.isatty():
        return
    start = stream.peek(max(map(len, _STARTS | _UNKNOWN_STARTS)))
    for first, packing in _STARTS.items():
        if start.startswith(first):
            raise ValueError(
                f"{name}: expected text, got what looks like a {packing} file; unpack it first, or give a file whose "
                f"name ends in {packing}"
            )
    for first, packing in _UNKNOWN_STARTS.items():
        if start.startswith(first):
            raise ValueError(
                f"{name}: expected text, or a file packed as {', '.join(_UNPACKERS)}, got what looks like a {packing} "
                "file; unpack it first"
            )


class _Guarded(io.RawIOBase):
    """Another stream, whose errors become one ValueError that names the file."""

    def __init__(self, stream: IO[bytes], name: str, packing: str) -> None:
        self._stream = stream
        self._name = name
        self._packing = packing
        self._damage = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError, *_zstd_errors())

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer)
        try:
            data = self._stream.read(len(view))
        except self._damage as error:
            raise ValueError(
                f"{self._name}: expected a whole {self._packing} file, got a damaged or cut one ({error}); "
                "download or pack it again"
            ) from error
        view[: len(data)] = data
        return len(data)


class _ZstdFile(io.RawIOBase):
    """Zstd frames, one after the other. The package's own reader takes a cut file for a short one."""

    def __init__(self, file: IO[bytes]) -> None:
        try:
            import zstandard
        except ImportError as error:
            raise ModuleNotFoundError(
                "expected the package zstandard to read a .zst file, got none; "
                "install it with: pip install 'rela-attention[translate]'",
                name="zstandard",
            ) from error
        self._file = file
        self._make_frame = zstandard.ZstdDecompressor().decompressobj
        self._frame = self._make_frame()
        self._inside = False  # a frame
        self._pending = memoryview(b"")

    def read(self, size: int = -1, /) -> bytes:
        assert size > 0, "the buffer asks for a number of bytes"
        while not self._pending:
            packed = self._frame.unused_data if self._frame.eof else b""
            if self._frame.eof:
                self._frame, self._inside = self._make_frame(), False
            packed = packed or self._file.read(_ZSTD_CHUNK)
            if not packed:
                if self._inside:
                    raise EOFError("the file ends inside a zstd frame")
                return b""
            self._inside = True
            self._pending = memoryview(self._frame.decompress(packed))
        data, self._pending = self._pending[:size], self._pending[size:]
        return bytes(data)


def _zstd_errors() -> tuple[type[Exception], ...]:
    zstandard = sys.modules.get("zstandard")  # an error of a package that was not loaded cannot come
    return (zstandard.ZstdError,) if zstandard else ()


def _open_gzip(file: IO[bytes]) -> IO[bytes]:
    return cast("IO[bytes]", gzip.GzipFile(fileobj=file))


def _open_xz(file: IO[bytes]) -> IO[bytes]:
    return lzma.LZMAFile(file)


def _open_zstd(file: IO[bytes]) -> IO[bytes]:
    return cast("IO[bytes]", _ZstdFile(file))


_UNPACKERS: Final[dict[str, Callable[[IO[bytes]], IO[bytes]]]] = dict(
    zip(PACKINGS, (_open_gzip, _open_xz, _open_zstd), strict=True)
)
