"""How much of the processors others took while something was measured: a benchmark on a busy machine says little.

Two threads that wait for each other, one of which waits for a processor, are slower by any factor; medians do not help
when the disturbance lasts longer than the rounds.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

TOLERATED: Final = 0.05
"""Of the time of all processors; more is said to the user."""
_PROC: Final = Path("/proc")


@dataclass
class Share:
    """Seconds of processors that others took, of all that there were; both 0 where the system does not tell."""

    others: float = 0.0
    capacity: float = 0.0


@contextlib.contextmanager
def watching() -> Generator[Share]:
    """The share of the time inside, when it is over."""
    share = Share()
    before, began = _seconds(), time.monotonic()
    yield share
    after = _seconds()
    if before is not None and after is not None:
        busy, ours = after[0] - before[0], after[1] - before[1]
        share.others = max(0.0, busy - ours)
        share.capacity = (time.monotonic() - began) * (os.cpu_count() or 1)


def _seconds() -> tuple[float, float] | None:
    """Seconds that all processors have worked, and those that they worked for us and the processes we started."""
    try:
        ticks = os.sysconf("SC_CLK_TCK")
        fields = [int(part) for part in (_PROC / "stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]]
        busy = sum(fields) - fields[3] - fields[4]  # without idle, and waiting for a disk
        return busy / ticks, _own_ticks() / ticks
    except (OSError, ValueError, IndexError):
        return None


def _own_ticks() -> int:
    """Of this process and all that descend from it; what has ended counts for whoever waited for it."""
    return sum(sum(int(field) for field in fields[11:15]) for fields in _family().values())


def descendants(process: int | None = None) -> list[int]:
    """The numbers of a process, by default this one, and of all that descend from it; none where nobody tells."""
    return list(_family(process))


def _family(process: int | None = None) -> dict[int, list[str]]:
    """Of a process and all that descend from it: what the system writes about each, by its number."""
    root = os.getpid() if process is None else process
    found: dict[int, list[str]] = {}
    for path in _PROC.glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):  # it may end while we look
            fields = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            if len(fields) > 14:
                found[int(path.parent.name)] = fields

    def is_ours(number: int) -> bool:
        while number > 1 and number != root:
            number = int(found[number][1]) if number in found else 0
        return number == root

    return {number: fields for number, fields in found.items() if is_ours(number)}
