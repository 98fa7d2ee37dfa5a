"""Work of many clients done together, in the order in which it came, with a limit on what may wait.

While one batch is computed, others' work piles up and makes the next one, and a busy service computes large ones.
Nobody waits long for a batch to fill up: only for those who were just answered and may ask again, and for a small part
of the time that a batch takes.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

Compute = Callable[[Hashable, list[Any], Callable[[], None]], Sequence[Any]]
"""The results of some items, in order. The key is what they have in common: only items of one key are computed
together. The third is to be called between steps of the work: it raises when nobody waits for it any more."""

_MEMORY: Final = 0.8  # of the speed, from one batch to the next
_HOPE: Final = 0.8  # of its time may go by before a job's turn comes
_LONGEST_RETRY: Final = 60
_PATIENCE: Final = 0.1  # of the time of a batch: so long the next one may wait for more work


class QueueFullError(RuntimeError):
    """Too much waits already; ``retry_after`` seconds later there may be room."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"too many requests wait; try again in {retry_after} s")
        self.retry_after = retry_after


class TooLateError(TimeoutError):
    """The work was not done in time."""


class _UnwantedError(Exception):
    """Nobody waits for a batch any more: all its clients have gone, or have been told that it is too late."""


@dataclass(eq=False)
class _Job:
    key: Hashable
    items: list[Any]
    work: int
    done: asyncio.Future[list[Any]]


class Batcher:
    """Takes jobs, each some items and an estimate of the work they are, and computes them in batches.

    A batch has at most ``batch_items`` items and ``batch_work`` of work, or is one job. Jobs are refused that would
    make more than ``queue_items`` wait, and, where a batch waits already, those whose time would most likely be over
    before it is their turn. Where nothing waits, one of any size is taken.
    """

    def __init__(self, compute: Compute, *, queue_items: int, batch_items: int, batch_work: int) -> None:
        self._compute = compute
        self._queue_items, self._batch_items, self._batch_work = queue_items, batch_items, batch_work
        self._waiting: deque[_Job] = deque()
        self._num_waiting = self._work_waiting = 0
        self._arrived = asyncio.Event()
        self._closing = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="batches")
        self._runner: asyncio.Task[None] | None = None
        self._together, self._patient_until = 0, 0.0  # jobs at the end of the last batch; until when as many may come
        self._work_done = self._seconds_taken = 0.0  # of late
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

    async def submit(self, key: Hashable, items: list[Any], *, work: int, timeout: float) -> list[Any]:
        """The results of the items, when they are computed. Cancelling it drops them, if nobody computes them yet."""
        if self._closing or (self._num_waiting and self._is_full(len(items), timeout)):
            raise QueueFullError(self.retry_after())
        job = _Job(key, items, work, asyncio.get_running_loop().create_future())
        self._waiting.append(job)
        self._num_waiting += len(items)
        self._work_waiting += work
        self._arrived.set()
        try:
            return await asyncio.wait_for(job.done, timeout)
        except TimeoutError:
            raise TooLateError("not done in time") from None
        finally:
            if job in self._waiting:  # nobody waits for it any more
                self._waiting.remove(job)
                self._num_waiting -= len(items)
                self._work_waiting -= work

    def _is_full(self, more: int, timeout: float) -> bool:
        if self._num_waiting + more > self._queue_items:
            return True
        # Less than a batch is done at once, at a speed that smaller ones do not tell; nor does the very first one.
        is_a_batch = self._num_waiting >= self._batch_items or self._work_waiting >= self._batch_work
        return is_a_batch and self.num_batches > 1 and self._seconds_waiting() > _HOPE * timeout

    def retry_after(self) -> int:
        """Whole seconds until what waits is done, about."""
        return max(1, min(_LONGEST_RETRY, math.ceil(self._seconds_waiting())))

    def _seconds_waiting(self) -> float:
        return self._work_waiting * self._seconds_taken / self._work_done if self._work_done else 0.0

    async def _run(self) -> None:
        while True:
            while not self._waiting:
                if self._closing:
                    return
                self._arrived.clear()
                await self._arrived.wait()
            await self._gather()
            if not self._waiting:  # who waited has gone
                continue
            jobs = self._next()
            loop = asyncio.get_running_loop()
            began = loop.time()
            await self._batch(jobs)
            self._patient_until = loop.time() + _PATIENCE * (loop.time() - began)
            self._together = len(jobs) + len(self._waiting)

    async def _gather(self) -> None:
        """Wait a moment for clients of the last batch: without it, half of them would wait for the other half's batch,
        and so on for ever."""
        if self._together <= 1:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(self._patient_until):
                while len(self._waiting) < self._together and not self._closing:
                    self._arrived.clear()
                    await self._arrived.wait()

    def _next(self) -> list[_Job]:
        """The oldest job, and what goes with it."""
        chosen = [self._waiting[0]]
        count, work = len(chosen[0].items), chosen[0].work
        for job in list(self._waiting)[1:]:
            fits = count + len(job.items) <= self._batch_items and work + job.work <= self._batch_work
            if job.key == chosen[0].key and fits:
                chosen.append(job)
                count, work = count + len(job.items), work + job.work
        for job in chosen:
            self._waiting.remove(job)
        self._num_waiting -= count
        self._work_waiting -= work
        return chosen

    async def _batch(self, jobs: list[_Job]) -> None:
        def go_on() -> None:
            if all(job.done.done() for job in jobs):
                raise _UnwantedError

        items = [item for job in jobs for item in job.items]
        began = time.monotonic()
        try:
            loop = asyncio.get_running_loop()
            results = list(await loop.run_in_executor(self._thread, self._compute, jobs[0].key, items, go_on))
        except Exception as error:
            await self._failed(jobs, error)
            return
        self._learn(jobs, time.monotonic() - began)
        start = 0
        for job in jobs:
            if not job.done.done():
                job.done.set_result(results[start : start + len(job.items)])
            start += len(job.items)

    async def _failed(self, jobs: list[_Job], error: Exception) -> None:
        """Each job alone, since one bad item is no reason why others' should fail."""
        for job in jobs:
            if job.done.done():
                continue
            if len(jobs) == 1:
                job.done.set_exception(error)
            else:
                await self._batch([job])

    def _learn(self, jobs: list[_Job], seconds: float) -> None:
        """The speed, of late. A large batch says more than a small one."""
        self.num_batches += 1
        self.num_items += sum(len(job.items) for job in jobs)
        self._work_done = _MEMORY * self._work_done + sum(job.work for job in jobs)
        self._seconds_taken = _MEMORY * self._seconds_taken + max(seconds, 1e-6)
