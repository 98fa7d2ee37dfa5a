"""Several processes that serve, and one that looks after them."""

from __future__ import annotations

import multiprocessing
import signal
import socket
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import Final

from rela.serving.settings import Settings

_SPAWN: Final = multiprocessing.get_context("spawn")  # torch's threads do not live through a fork


def run_workers(settings: Settings, listener: socket.socket, count: int, answering: Callable[[], object]) -> None:
    """Serve until a signal raises an exception here; a worker that dies is replaced.

    ``answering`` is called when all of them answer. If one cannot begin, its error is raised here.
    """
    try:
        workers = [_Worker(settings, listener) for _ in range(count)]
        for worker in workers:
            worker.wait_until_it_answers()
        answering()
        while True:
            ended = wait([worker.process.sentinel for worker in workers])
            for place, worker in enumerate(workers):
                if worker.process.sentinel in ended:
                    sys.stderr.write(f"rela: note: a worker ended with code {worker.code()}; another takes its place\n")
                    workers[place] = _Worker(settings, listener)
                    workers[place].wait_until_it_answers()
    finally:
        processes = multiprocessing.active_children()
        for process in processes:
            process.terminate()  # it finishes what it accepted
        for process in processes:
            process.join()


class _Worker:
    def __init__(self, settings: Settings, listener: socket.socket) -> None:
        self._said, says = _SPAWN.Pipe(duplex=False)
        self.process = _SPAWN.Process(target=_work, args=(settings, listener, says))
        self.process.start()
        says.close()  # only the worker has it now: if it dies, reading ends

    def wait_until_it_answers(self) -> None:
        try:
            problem: Exception | None = self._said.recv()
        except EOFError:
            raise ChildProcessError(
                f"expected a worker to answer, got its end with code {self.code()}; its own lines above may say why"
            ) from None
        if problem is not None:
            raise problem

    def code(self) -> int | None:
        self.process.join()
        return self.process.exitcode


def _work(settings: Settings, listener: socket.socket, says: Connection) -> None:
    """What a worker does. Ctrl-C in a terminal reaches it too, but it is for the first process to end it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    from rela.serving.server import serve

    try:
        serve(settings, listener, lambda: says.send(None))
    except (ValueError, OSError, MemoryError) as error:  # what can be mended is said in one line, by the first process
        says.send(error)
