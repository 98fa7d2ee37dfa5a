"""One process at a time writes to a run."""

from __future__ import annotations

import errno
import os
import sys
import weakref
from pathlib import Path
from typing import Final

_UNSUPPORTED: Final = (errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF, errno.EIO)
"""What file systems answer that have no locks, or none for folders."""


class FolderLock:
    """A hold on a folder that ends with the process, however it ends; no file is left behind.

    On systems and file systems without such locks, nothing is held.
    """

    def __init__(self, folder: Path) -> None:
        self._release = None
        if sys.platform == "win32":
            return
        import fcntl

        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        release = weakref.finalize(self, os.close, descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            release()
            raise BlockingIOError(
                f"{folder}: expected a run that nobody trains, got one that another process is training now; wait for "
                "it, or stop it first"
            ) from None
        except OSError as error:
            release()
            if error.errno not in _UNSUPPORTED:
                raise
        else:
            self._release = release

    @property
    def is_held(self) -> bool:
        """False on systems without such locks, and after the release."""
        return self._release is not None and self._release.alive

    def release(self) -> None:
        """Let the next one in."""
        if self._release is not None:
            self._release()


def is_free(folder: Path) -> bool:
    """Whether nobody trains the run in a folder; False where that cannot be told."""
    try:
        lock = FolderLock(folder)
    except (BlockingIOError, FileNotFoundError):
        return False
    is_sure = lock.is_held
    lock.release()
    return is_sure
