"""Fetching files of the web: progress, resumed when broken off, checked, and in place only when whole."""

from __future__ import annotations

import errno
import hashlib
import http.client
import json
import re
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Final, Protocol

from rela._files import sync, write_text
from rela._lock import waiting
from rela._version import __version__

Progress = Callable[[int, int | None], None]
"""Called with the bytes that are here and the bytes of the whole file; None when the server does not say."""

_CHUNK: Final = 1 << 18
_AGAIN: Final = frozenset({408, 429, 500, 502, 503, 504})
"""Answers of a server that may be better next time."""


class DownloadError(OSError):
    """A file could not be fetched. What has come so far is kept, and the next try goes on from there."""


@dataclass(frozen=True, kw_only=True)
class Remote:
    """A file of the web, and what is known of it. The checksum is written ``sha256:...`` or ``md5:...``."""

    url: str
    size: int | None = None
    checksum: str | None = None

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise ValueError(f"expected an address that starts with http:// or https://, got {self.url!r}")


@dataclass(frozen=True, kw_only=True)
class _Partial:
    """What a partial file is part of. Bytes of another version of the file must not be added to it."""

    url: str
    validator: str | None
    total: int | None


class _BrokenError(Exception):
    """The connection broke off, or the server asked to come again."""


class _Headers(Protocol):
    def get(self, name: str, /) -> str | None: ...


def download(
    remote: Remote,
    path: Path,
    *,
    progress: Progress | None = None,
    num_retries: int = 5,
    timeout: float = 30.0,
    wait: float = 1.0,
) -> Path:
    """Fetches a file to ``path``, unless it is there. Until it is whole and checked it is called ``path.partial``.

    A file whose size is not known beforehand gets a note beside it, ``path.whole``, with its size: one that is cut
    later is fetched anew. What ``progress`` raises comes out as it is.

    A connection that breaks is tried again, at most ``num_retries`` times in a row without new bytes, after ``wait``
    seconds, twice as long each time. Two processes may ask for the same file: one fetches, the other waits for it.
    Raises DownloadError when the file cannot be had, and ValueError when it is not the file that was expected.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with waiting(path.with_name(path.name + ".lock")):
        if path.exists() and _expected_size(remote, path) in (None, path.stat().st_size):
            return path
        partial = path.with_name(path.name + ".partial")
        best, failures = _size(partial), 0
        while True:
            try:
                _fetch(remote, partial, progress, timeout)
                break
            except _BrokenError as error:
                failures = 0 if _size(partial) > best else failures + 1
                best = max(best, _size(partial))
                if failures > num_retries:
                    raise DownloadError(
                        f"{remote.url}: expected the whole file, got {best:,} bytes in {failures} tries ({error}); "
                        "what has come is kept: run the same again to go on"
                    ) from error
                time.sleep(wait * 2 ** max(failures - 1, 0))
        _check(remote, partial)
        sync(partial)
        if remote.size is None:
            write_text(_whole_path(path), json.dumps({"size": _size(partial)}))
        partial.replace(path)
        sync(path.parent)
        _state_path(partial).unlink(missing_ok=True)
    return path


def _whole_path(path: Path) -> Path:
    return path.with_name(path.name + ".whole")


def _expected_size(remote: Remote, path: Path) -> int | None:
    """The size of the whole file: that of the registry, or else what it had when it came; None if neither is known."""
    if remote.size is not None:
        return remote.size
    with suppress(OSError, ValueError, TypeError, KeyError):
        return int(json.loads(_whole_path(path).read_text(encoding="utf-8"))["size"])
    return None


def _fetch(remote: Remote, partial: Path, progress: Progress | None, timeout: float) -> None:
    """One connection: appends to the partial file what the server gives."""
    state = _read_state(partial)
    start = _size(partial) if _may_resume(state, remote) else 0
    if start and state and start == state.total:
        return
    response = _connect(remote, partial, _request(remote, start, state), timeout)
    if response is None:
        return
    with response:
        start, total = _start_and_total(response.status, response.headers, start)
        _check_size(remote, total)
        with partial.open("r+b" if start else "wb", buffering=0) as file:  # what is of another version goes first
            write_text(
                _state_path(partial),
                json.dumps(asdict(_Partial(url=remote.url, validator=_validator(response.headers), total=total))),
            )
            done = file.seek(start)
            if progress:
                progress(done, total)
            while chunk := _copy_chunk(remote, partial, response, file):
                done += chunk
                if progress:
                    progress(done, total)
    if total is not None and done < total:
        raise _BrokenError(f"the connection ended after {done:,} of {total:,} bytes")


def _connect(
    remote: Remote, partial: Path, request: urllib.request.Request, timeout: float
) -> http.client.HTTPResponse | None:
    """The answer of the server; None if it says that the partial file is whole."""
    with _judging(remote, partial):
        try:
            return urllib.request.urlopen(request, timeout=timeout)
        except urllib.error.HTTPError as error:
            with error:
                _judge(error, partial, remote)
    return None


def _copy_chunk(remote: Remote, partial: Path, response: http.client.HTTPResponse, file: IO[bytes]) -> int:
    with _judging(remote, partial):
        chunk = response.read(_CHUNK)
        rest = memoryview(chunk)
        while rest:  # a raw file may take less than it is given
            rest = rest[file.write(rest) :]
        return len(chunk)


@contextmanager
def _judging(remote: Remote, partial: Path) -> Generator[None]:
    """What errors of the connection and of the disk mean. Nothing but these happens inside."""
    try:
        yield
    except DownloadError:
        raise
    except (OSError, http.client.HTTPException) as error:  # URLError and timeouts are OSErrors
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DownloadError(
                f"{partial}: expected space for the rest of {remote.url}, got a full disk; make room and run the "
                "same again: what has come is kept"
            ) from error
        if isinstance(getattr(error, "reason", None), socket.gaierror):
            raise DownloadError(
                f"{remote.url}: expected to find the server, got {error}; run the same again with a network"
            ) from error
        raise _BrokenError(str(error) or type(error).__name__) from error


def _may_resume(state: _Partial | None, remote: Remote) -> bool:
    """Only when the server, or else a checksum at the end, can tell that the rest is of the same file."""
    return state is not None and state.url == remote.url and bool(state.validator or remote.checksum)


def _request(remote: Remote, start: int, state: _Partial | None) -> urllib.request.Request:
    headers = {"User-Agent": f"rela/{__version__}"}
    if start:
        headers["Range"] = f"bytes={start}-"
        if state and state.validator:
            headers["If-Range"] = state.validator
    return urllib.request.Request(remote.url, headers=headers)


def _validator(headers: _Headers) -> str | None:
    tag = headers.get("ETag")
    return tag if tag and not tag.startswith("W/") else headers.get("Last-Modified")  # If-Range takes no weak tags


def _start_and_total(status: int, headers: _Headers, start: int) -> tuple[int, int | None]:
    """Where the bytes of this answer begin, and the size of the whole file."""
    length = headers.get("Content-Length")
    if status != 206:
        return 0, int(length) if length else None  # the whole file: it has changed, or the server knows no ranges
    found = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", headers.get("Content-Range") or "")
    if not found or int(found[1]) != start:
        raise _BrokenError(f"asked for bytes from {start} on, got {headers.get('Content-Range')!r}")
    return start, None if found[2] == "*" else int(found[2])


def _judge(error: urllib.error.HTTPError, partial: Path, remote: Remote) -> None:
    """What an answer that is no file means: done, try again, or give up."""
    if error.code == 416:  # nothing at this place: the file is whole already, or another one
        if error.headers.get("Content-Range") == f"bytes */{_size(partial)}":
            return
        _discard(partial)
        raise _BrokenError("the partial file does not fit the file of the server: begun anew") from error
    if error.code in _AGAIN:
        raise _BrokenError(f"HTTP {error.code} {error.reason}") from error
    raise DownloadError(
        f"{remote.url}: expected a file, got HTTP {error.code} {error.reason}; look whether the address has moved"
    ) from error


def _check_size(remote: Remote, total: int | None) -> None:
    if remote.size is not None and total is not None and total != remote.size:
        raise ValueError(
            f"{remote.url}: expected {remote.size:,} bytes, got a file of {total:,}; it has changed on the server: "
            "look there for the version that the registry names"
        )


def _check(remote: Remote, partial: Path) -> None:
    """Removes a file that is whole but not what was expected: going on from it would be of no use."""
    try:
        _check_size(remote, _size(partial))
        if remote.checksum is not None:
            method, _, expected = remote.checksum.partition(":")
            with partial.open("rb") as file:
                found = hashlib.file_digest(file, method).hexdigest()
            if found != expected:
                raise ValueError(
                    f"{remote.url}: expected {method} {expected}, got {found}; the file has changed or was damaged "
                    "on its way: it is removed, run the same again"
                )
    except ValueError:
        _discard(partial)
        raise


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _state_path(partial: Path) -> Path:
    return partial.with_name(partial.name + ".json")


def _read_state(partial: Path) -> _Partial | None:
    with suppress(OSError, ValueError, TypeError):
        return _Partial(**json.loads(_state_path(partial).read_text(encoding="utf-8")))
    return None  # none, or half written: begin anew


def _discard(partial: Path) -> None:
    partial.unlink(missing_ok=True)
    _state_path(partial).unlink(missing_ok=True)
