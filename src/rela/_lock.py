"""Locks between processes, which end with the process that holds them, however it ends.

Where a system or a file system has no such locks, nothing is held, and nobody is kept out.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
import weakref
from collections.abc import Generator
from pathlib import Path
from typing import Final

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

_UNSUPPORTED: Final = (errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF, errno.EIO)
"""What file systems answer that have no locks, or none for folders."""

_TRIES: Final = 5
_PAUSE: Final = 0.1  # seconds between them: somebody may only be asking whether a folder is free


def take(descriptor: int, refusal: str) -> bool:
    """Lock an open file or folder until it is closed, or raise a BlockingIOError with this text.

    Returns False where there are no locks.
    """
    for _ in range(_TRIES):
        try:
            return _lock(descriptor)
        except BlockingIOError:
            time.sleep(_PAUSE)
    raise BlockingIOError(refusal)


def _lock(descriptor: int, *, wait: bool = False, shared: bool = False) -> bool:
    """Returns False where there are no locks."""
    if fcntl is None:
        return False
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(descriptor, kind if wait else kind | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _UNSUPPORTED:
            return False
        raise
    return True


@contextlib.contextmanager
def waiting(path: Path) -> Generator[None]:
    """Hold a lock file; waits while another process holds it."""
    with path.open("ab") as file:
        _lock(file.fileno(), wait=True)
        yield


class FolderLock:
    """A hold on a folder, without a file in it. Whoever comes second gets a BlockingIOError that says ``refusal``."""

    def __init__(self, folder: Path, refusal: str) -> None:
        self._release = None
        if fcntl is None:  # such systems do not open folders either
            return
        self._descriptor = descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        release = weakref.finalize(self, os.close, descriptor)
        try:
            held = take(descriptor, refusal)
        except OSError:
            release()
            raise
        if held:
            self._release = release
        else:
            release()

    @property
    def is_held(self) -> bool:
        """False on systems without such locks, and after the release."""
        return self._release is not None and self._release.alive

    def is_at(self, folder: Path) -> bool:
        """Whether the folder still has this name; it may have lost it before it was locked. True without locks."""
        if not self.is_held:
            return True
        try:
            return os.path.samestat(os.fstat(self._descriptor), folder.stat())
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Let the next one in."""
        if self._release is not None:
            self._release()


def is_free(folder: Path) -> bool:
    """Whether nobody holds a folder; False where that cannot be told. Several may ask at the same time."""
    if fcntl is None:
        return False
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return False
    try:
        return _lock(descriptor, shared=True)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
