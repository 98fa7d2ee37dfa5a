"""Several processes that serve, and one that looks after them."""

from __future__ import annotations

import math
import multiprocessing
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Final

from rela._parent import end_with_parent
from rela.serving.settings import Settings

_SPAWN: Final = multiprocessing.get_context("spawn")  # torch's threads do not live through a fork
_LONGEST_PAUSE: Final = 60.0  # seconds between two tries to replace a worker
_PATIENCE: Final = 10.0  # seconds beyond the time limit of requests


def run_workers(settings: Settings, listener: socket.socket, count: int, answering: Callable[[], object]) -> None:
    """Serve until a signal raises an exception here; a worker that dies is replaced.

    ``answering`` is called when all of them answer. If one cannot begin, its error is raised here; later only if there
    is no other one left.
    """
    try:
        places = [_Place(settings, listener) for _ in range(count)]
        while not all(place.answers for place in places):
            _look(places, may_wait=False)
        answering()
        while True:
            _look(places, may_wait=True)
    finally:
        listener.close()  # who comes now is refused, when the workers have closed it too
        _end(multiprocessing.active_children())


def _look(places: Sequence[_Place], *, may_wait: bool) -> None:
    """Wait until something happens to the workers, and see to it."""
    pauses = [pause for place in places if (pause := place.pause()) is not None]
    wait([handle for place in places for handle in place.handles()], min(pauses, default=None))
    for place in places:
        problem = place.look()
        if problem is not None:
            if not (may_wait and any(other.is_taken for other in places)):
                raise problem
            _note(f"a worker could not begin: {problem}; tried again in {math.ceil(place.pause() or 0)} s")


def _end(processes: Sequence[BaseProcess]) -> None:
    for process in processes:
        process.terminate()  # it finishes what it accepted
    try:
        for process in processes:
            process.join()
    except BaseException:  # a second signal does not wait
        for process in processes:
            process.kill()
        raise


class _Place:
    """A worker, and those that take its place when it dies."""

    def __init__(self, settings: Settings, listener: socket.socket) -> None:
        self._settings, self._listener = settings, listener
        self._worker: _Worker | None = _Worker(settings, listener)
        self._failures, self._next_try = 0, 0.0
        self.answers = False

    @property
    def is_taken(self) -> bool:
        """Whether there is a worker, though it may still be loading its models."""
        return self._worker is not None

    def pause(self) -> float | None:
        """Seconds until a worker is to be begun; None: there is one."""
        return None if self._worker else max(0.0, self._next_try - time.monotonic())

    def handles(self) -> list[Any]:
        """What to wait for."""
        if self._worker is None:
            return []
        return [self._worker.process.sentinel if self.answers else self._worker.said]

    def look(self) -> Exception | None:
        """What is new is seen to. The problem, if a worker could not begin."""
        if self._worker is None:
            if time.monotonic() >= self._next_try:
                self._worker = _Worker(self._settings, self._listener)
            return None
        if self.answers:
            if not self._worker.process.is_alive():
                _note(f"a worker ended with code {self._worker.code()}; another takes its place")
                self._worker, self.answers = _Worker(self._settings, self._listener), False
            return None
        if not self._worker.said.poll():
            return None
        problem = self._worker.problem()
        if problem is None:
            self._failures, self.answers = 0, True
            return None
        self._worker = None
        self._next_try = time.monotonic() + min(_LONGEST_PAUSE, 2.0**self._failures)
        self._failures += 1
        return problem


class _Worker:
    def __init__(self, settings: Settings, listener: socket.socket) -> None:
        self.said, says = _SPAWN.Pipe(duplex=False)
        self.process = _SPAWN.Process(target=_work, args=(settings, listener, says))
        self.process.start()
        says.close()  # only the worker has it now: if it dies, reading ends

    def problem(self) -> Exception | None:
        """What it said: nothing if it answers, or why it does not."""
        try:
            said: Exception | None = self.said.recv()
        except EOFError:
            code = self.code()
            return ChildProcessError(
                f"expected a worker to answer, got its end with code {code}; its own lines above may say why"
            )
        if said is not None:
            self.process.join()
        return said

    def code(self) -> int | None:
        self.process.join()
        return self.process.exitcode


def _note(text: str) -> None:
    sys.stderr.write(f"rela: note: {text}\n")


def _work(settings: Settings, listener: socket.socket, says: Connection) -> None:
    """What a worker does. Ctrl-C in a terminal reaches it too, but it is for the first process to end it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent(settings.timeout + _PATIENCE)
    from rela.serving.server import serve

    try:
        serve(settings, listener, lambda: says.send(None))
    except (ValueError, OSError, MemoryError) as error:  # what can be mended is said in one line, by the first process
        says.send(error)
