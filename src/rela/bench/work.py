"""Processes that do the same work in turn, ours and the peers': requests and answers are lines of JSON."""

from __future__ import annotations

import contextlib
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

from rela.bench.peers import clean_environment
from rela.bench.timing import Speed, summary

_FOLDER: Final = Path(__file__).with_name("workers")
_LEAST: Final = 0.3  # seconds of a turn
_PAUSE: Final = 0.3  # seconds that the threads of the one before may still spin, waiting for more work


class Worker:
    """A process that works when it is asked to."""

    def __init__(
        self, name: str, script: str | Path, setting: Mapping[str, Any], *, python: Path | None = None
    ) -> None:
        """``script`` is a name in the folder of workers, or a path; ``python`` that of a peer, by default our own."""
        self.name = name
        threads = {variable: str(setting["threads"]) for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
        environment = clean_environment(**threads) if python else os.environ | threads
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        self._process = subprocess.Popen(
            [python or sys.executable, str(_FOLDER / script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=environment,
        )
        self._send({"do": "prepare", "setting": dict(setting)})

    def ready(self) -> Self:
        """Wait until it is prepared: several may prepare at the same time."""
        self._answer("prepare")
        return self

    def run(self, calls: int = 1) -> dict[str, Any]:
        """The work, so many times in a row: ``seconds`` that it took each time, and what it ``found``."""
        return self._ask({"do": "run", "calls": calls})

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        self._send(request)
        return self._answer(request["do"])

    def _send(self, request: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended: there will be no answer
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()

    def _answer(self, what: str) -> dict[str, Any]:
        assert self._process.stdout is not None
        answer = self._process.stdout.readline()
        found = json.loads(answer) if answer else {"error": self._last_words()}
        if "error" in found:
            self.close()
            raise ValueError(f"{self.name}: expected an answer to {what!r}, got an error: {found['error']}")
        return found

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it ended without a word"

    def close(self) -> None:
        """Let it end; a second time this does nothing."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        self._process.wait()
        self._errors.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextlib.contextmanager
def all_workers(makers: Sequence[Callable[[], Worker]]) -> Generator[list[Worker]]:
    """Workers that are all ready, and end together."""
    with contextlib.ExitStack() as stack:
        workers = [stack.enter_context(make()) for make in makers]
        yield [worker.ready() for worker in workers]


def take_turns(
    workers: Sequence[Worker],
    *,
    rounds: int,
    pause: float = _PAUSE,
    least: float = _LEAST,
    check: Callable[[Worker, dict[str, Any]], object] = lambda _worker, _found: None,
    on_run: Callable[[Worker, float], object] = lambda _worker, _seconds: None,
) -> dict[str, list[float]]:
    """The seconds of each worker in each round; every other round goes the other way round.

    Each runs before, and ``check`` may look at what it found then. One that is over in less than ``least`` seconds
    works several times when it is its turn: the clock of a short time tells little.
    """
    seconds: dict[str, list[float]] = {worker.name: [] for worker in workers}
    calls: dict[str, int] = {}
    for worker in workers:
        first = worker.run()
        check(worker, first["found"])
        again = first if first["seconds"] > least else worker.run()  # the first of short ones is still slow
        calls[worker.name] = max(1, math.ceil(least / again["seconds"]))
    for number in range(rounds):
        for worker in workers if number % 2 == 0 else reversed(workers):
            time.sleep(pause)
            took = worker.run(calls[worker.name])["seconds"]
            seconds[worker.name].append(took)
            on_run(worker, took)
    return seconds


def speed_over(seconds: Mapping[str, Sequence[float]], ours: str, other: str) -> Speed:
    """How many times faster one was than the other, round by round."""
    ratios = [theirs / mine for mine, theirs in zip(seconds[ours], seconds[other], strict=True)]
    return summary(ratios, statistics.median(seconds[ours]))
