"""How much memory processes have while something is measured."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rela.bench.others import descendants

_PROC: Final = Path("/proc")
_PAUSE: Final = 0.5  # seconds between two looks


@dataclass
class Memory:
    """Bytes of some processes; shared pages count once. 0 where the system does not tell."""

    peak: int = 0
    seen: list[int] = field(default_factory=list[int])

    def at(self, share: float) -> int:
        """When such a share of the time had passed."""
        return self.seen[min(len(self.seen) - 1, int(share * len(self.seen)))] if self.seen else 0


@contextlib.contextmanager
def watching_memory(process: int | None = None) -> Generator[Memory]:
    """Looks at the memory of a process, by default this one, and its descendants every so often, until it is left."""
    memory, over = Memory(), threading.Event()

    def watch() -> None:
        while True:
            memory.seen.append(sum(_bytes(number) for number in descendants(process)))
            memory.peak = max(memory.peak, memory.seen[-1])
            if over.wait(_PAUSE):
                return

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield memory
    finally:
        over.set()
        thread.join()


def _bytes(process: int) -> int:
    """Proportional set size: a page that n processes share counts 1/n for each."""
    with contextlib.suppress(OSError, ValueError, IndexError):  # it may have ended, or the system has no such file
        for line in (_PROC / str(process) / "smaps_rollup").read_text(encoding="ascii").split("\n"):
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0
