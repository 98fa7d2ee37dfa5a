"""Work of many clients done together, in the order in which it came, with a limit on what may wait.

While one batch is computed, others' work piles up and makes the next one: nobody waits for a batch to fill up, and a
busy service computes large ones.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

Compute = Callable[[Hashable, list[Any]], Sequence[Any]]
"""The results of some items, in order. The key is what they have in common: only items of one key are computed
together."""

_MEMORY: Final = 0.8  # of what is known about the speed, when a new batch tells
_LONGEST_RETRY: Final = 60


class QueueFullError(RuntimeError):
    """Too much waits already; ``retry_after`` seconds later there may be room."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"too many requests wait; try again in {retry_after} s")
        self.retry_after = retry_after


class TooLateError(TimeoutError):
    """The work was not done in time."""


@dataclass(eq=False)
class _Job:
    key: Hashable
    items: list[Any]
    done: asyncio.Future[list[Any]]


class Batcher:
    """Takes work, computes it in batches of at most ``batch_items`` items (or one piece of work, if it has more), and
    refuses what would make more than ``queue_items`` wait."""

    def __init__(self, compute: Compute, *, queue_items: int, batch_items: int) -> None:
        self._compute = compute
        self._queue_items, self._batch_items = queue_items, batch_items
        self._waiting: deque[_Job] = deque()
        self._num_waiting = 0
        self._arrived = asyncio.Event()
        self._closing = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="batches")
        self._runner: asyncio.Task[None] | None = None
        self.items_per_second = 0.0
        self.num_batches = 0
        self.num_items = 0

    @property
    def num_waiting(self) -> int:
        """Items that nobody computes yet."""
        return self._num_waiting

    def start(self) -> None:
        """Begin to compute. Needs a running event loop."""
        self._runner = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Finish what was taken, then end."""
        self._closing = True
        self._arrived.set()
        if self._runner is not None:
            await self._runner
        self._thread.shutdown()

    async def submit(self, key: Hashable, items: list[Any], *, timeout: float) -> list[Any]:
        """The results of the items, when they are computed."""
        if self._closing or (self._num_waiting and self._num_waiting + len(items) > self._queue_items):
            raise QueueFullError(self._retry_after())
        job = _Job(key, items, asyncio.get_running_loop().create_future())
        self._waiting.append(job)
        self._num_waiting += len(items)
        self._arrived.set()
        try:
            return await asyncio.wait_for(job.done, timeout)
        except TimeoutError:
            raise TooLateError(f"not done within {timeout:g} s") from None
        finally:
            if job in self._waiting:  # nobody waits for it any more
                self._waiting.remove(job)
                self._num_waiting -= len(items)

    def _retry_after(self) -> int:
        seconds = self._num_waiting / self.items_per_second if self.items_per_second else 1.0
        return max(1, min(_LONGEST_RETRY, math.ceil(seconds)))

    async def _run(self) -> None:
        while True:
            while not self._waiting:
                if self._closing:
                    return
                self._arrived.clear()
                await self._arrived.wait()
            await self._batch(self._next())

    def _next(self) -> list[_Job]:
        """The oldest work, and what goes with it."""
        chosen = [self._waiting[0]]
        count = len(chosen[0].items)
        for job in list(self._waiting)[1:]:
            if job.key == chosen[0].key and count + len(job.items) <= self._batch_items:
                chosen.append(job)
                count += len(job.items)
        for job in chosen:
            self._waiting.remove(job)
        self._num_waiting -= count
        return chosen

    async def _batch(self, jobs: list[_Job]) -> None:
        items = [item for job in jobs for item in job.items]
        began = time.monotonic()
        try:
            loop = asyncio.get_running_loop()
            results = list(await loop.run_in_executor(self._thread, self._compute, jobs[0].key, items))
        except Exception as error:  # each client gets its answer
            for job in jobs:
                if not job.done.done():
                    job.done.set_exception(error)
            return
        self._learn(len(items), time.monotonic() - began)
        start = 0
        for job in jobs:
            if not job.done.done():
                job.done.set_result(results[start : start + len(job.items)])
            start += len(job.items)

    def _learn(self, count: int, seconds: float) -> None:
        self.num_batches += 1
        self.num_items += count
        speed = count / max(seconds, 1e-6)
        known = self.items_per_second
        self.items_per_second = speed if not known else _MEMORY * known + (1 - _MEMORY) * speed
