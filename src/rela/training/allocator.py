"""The C library's allocator, told to keep the memory it has.

Every step frees and asks for the same large tensors. By default glibc gives each back to the system at once, and the
system has to clear its pages again when they are asked for: a fifth of the time of a step on a CPU.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Final

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_LARGEST: Final = 2**30  # bytes; requests above this still come from the system each time


def keep_memory() -> bool:
    """Ask glibc not to return freed memory to the system; False if there is no such allocator here."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _LARGEST)) and bool(mallopt(_M_TRIM_THRESHOLD, 2**31 - 1))
