"""The machine that numbers come from: what it is, and the limits that it sets."""

from __future__ import annotations

import contextlib
import os
import platform
import statistics
import time
from collections.abc import Callable, Generator
from typing import Any, Final

import torch

from rela._machine import read_cpu
from rela.attention import kernels

_BUFFER_BYTES: Final = 2**30  # many times a last-level cache


def describe() -> dict[str, Any]:
    """Processor, memory, torch and threads; nothing that would name the machine itself."""
    cpu = read_cpu()
    return {
        "processor": cpu.model,
        "cores": cpu.num_cores,
        "hardware_threads": cpu.num_threads,
        "flags": list(cpu.simd),
        "memory_gib": _memory_gib(),
        "system": platform.system(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "kernel": kernel_name(),
    }


def kernel_name() -> str:
    """The kernel that ReLU attention uses in this process."""
    return next(choice.name for choice in kernels.describe() if choice.chosen)


def _memory_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (ValueError, OSError, AttributeError):  # a system that does not tell
        return None


@contextlib.contextmanager
def using_threads(count: int | None) -> Generator[None]:
    """torch with so many threads; None: as many as it has."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def matmul_peak(rows: int, inner: int, columns: int, *, threads: int | None = None, seconds: float = 1.0) -> float:
    """Operations a second of a matrix product of these sizes, alone: what the machine gives right now."""
    with using_threads(threads):
        x, weight = torch.randn(rows, inner), torch.randn(inner, columns)
        out = x @ weight
        once = _median_seconds(lambda: torch.mm(x, weight, out=out), seconds)
    return 2 * rows * inner * columns / once


def read_bandwidth(*, threads: int | None = None, seconds: float = 2.0, size: int = _BUFFER_BYTES) -> float:
    """Bytes a second that all threads together read from memory: a buffer far larger than the caches is summed.

    The best of two ways to sum, since one of them may be held up by its arithmetic.
    """
    with using_threads(threads):
        buffer = torch.ones(size // 4)
        ways: list[Callable[[], object]] = [buffer.sum, buffer.amax]
        return size / min(_median_seconds(way, seconds / len(ways)) for way in ways)


def _median_seconds(run: Callable[[], object], seconds: float) -> float:
    run()
    times: list[float] = []
    began = time.perf_counter()
    while len(times) < 3 or time.perf_counter() - began < seconds:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)
