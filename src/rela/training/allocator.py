"""The C library's allocator, told to keep the memory it has.

Every step frees and asks for the same large tensors. By default glibc gives each back to the system at once, and the
system has to clear its pages again when they are asked for: a fifth of the time of a step on a CPU.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Final, NamedTuple

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_LARGEST: Final = (2**30, 2**25)  # bytes, the first that is taken; an older glibc takes no more than the second
_MOST: Final = 2**31 - 1  # bytes of free memory that are kept


class Kept(NamedTuple):
    """What the allocator agreed to: requests up to so many bytes come from memory that is kept, and so much is."""

    largest: int | None
    free: int | None

    def __str__(self) -> str:
        return f"keep-{self.largest},{self.free}"


def keep_memory() -> Kept:
    """Ask glibc not to return freed memory to the system. None: it refused, or there is no such allocator here."""
    if not sys.platform.startswith("linux"):
        return Kept(None, None)
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library
        return Kept(None, None)
    largest = next((size for size in _LARGEST if mallopt(_M_MMAP_THRESHOLD, size)), None)
    return Kept(largest, _MOST if mallopt(_M_TRIM_THRESHOLD, _MOST) else None)
