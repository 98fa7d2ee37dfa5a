"""Jobs side by side, each in a process of its own with its share of the cores.

A process that is told to stop, or whose parent was killed, saves a checkpoint first; the next run goes on from it.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import queue
import signal
import traceback
from collections.abc import Generator, Sequence
from functools import partial
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from rela._parent import end_with_parent
from rela.experiments.reproduce.places import Places
from rela.experiments.reproduce.plan import Job

if TYPE_CHECKING:
    from rela.experiments.reproduce.launching import Launch

_PATIENCE: Final = 120.0  # seconds that a process has to save its checkpoint
_WAIT: Final = 0.5


class JobFailedError(ChildProcessError):
    """A job ended with an error; others went on to their end."""


class Watcher(Protocol):
    """Who is told how jobs go."""

    def began(self, job: str, workers: int) -> None:
        """A job is taken up."""
        ...

    def updated(self, job: str, spent: float, loss: float, tokens_per_second: float) -> None:
        """A training goes on."""
        ...

    def noted(self, job: str, text: str) -> None:
        """Something to read."""
        ...

    def ended(self, job: str) -> None:
        """All of a job is done."""
        ...


class _Message(NamedTuple):
    kind: str
    job: str
    content: tuple[Any, ...] = ()


class _Told:
    """In a process: passes on what a training says, not too often."""

    def __init__(self, job: str, messages: Any) -> None:
        self._job, self._messages, self._last = job, messages, -1.0

    def started(self, facts: dict[str, Any]) -> None:
        """The watcher knows that."""

    def updated(self, step: int, spent: float, loss: float, tokens_per_second: float) -> None:
        """One in a thousand parts of the whole is enough."""
        del step
        if spent - self._last >= 1e-3 or spent >= 1:
            self._last = spent
            self._messages.put(_Message("updated", self._job, (spent, loss, tokens_per_second)))

    def noted(self, text: str) -> None:
        """Validations would be too much to read from many trainings at once."""

    def said(self, text: str) -> None:
        """What the job itself says."""
        self._messages.put(_Message("noted", self._job, (text,)))


def run_jobs(
    places: Places,
    jobs: Sequence[Job],
    workers: int,
    threads: int,
    watcher: Watcher,
    launch: Launch | None = None,
) -> None:
    """Run all jobs, so many at a time, in this order. An error in one does not stop the others; it is raised last.

    ``launch`` trains each on several processes.
    """
    context = multiprocessing.get_context("spawn")
    messages = context.Queue()
    waiting, running = list(jobs), dict[str, BaseProcess]()
    errors: dict[str, str] = {}
    with _stopping(running):
        while waiting or running:
            while waiting and len(running) < workers:
                job = waiting.pop(0)
                process = context.Process(target=_work, args=(places, job, threads, messages, launch), name=job.name)
                process.start()
                running[job.name] = process
                watcher.began(job.name, workers)
            _listen(messages, watcher, errors)
            for name in [name for name, process in running.items() if not process.is_alive()]:
                _listen(messages, watcher, errors, wait=False)
                process = running.pop(name)
                if process.exitcode == 0 and name not in errors:
                    watcher.ended(name)
                else:
                    errors.setdefault(name, f"its process ended with {process.exitcode}, perhaps for lack of memory")
    if errors:
        lines = "; ".join(f"{name}: {text}" for name, text in errors.items())
        raise JobFailedError(f"{lines}; the same command tries again, and keeps what is done")


def _listen(messages: Any, watcher: Watcher, errors: dict[str, str], *, wait: bool = True) -> None:
    """Pass on what processes said."""
    while True:
        try:
            message: _Message = messages.get(timeout=_WAIT if wait else 0.05)
        except queue.Empty:
            return
        wait = False
        match message.kind:
            case "updated":
                watcher.updated(message.job, *message.content)
            case "noted":
                watcher.noted(message.job, *message.content)
            case _:
                errors[message.job] = message.content[0]


@contextlib.contextmanager
def _stopping(running: dict[str, BaseProcess]) -> Generator[None]:
    """Whatever ends the parent's work early ends its processes too, once they have saved what they have."""
    try:
        yield
    except BaseException:
        for process in running.values():
            process.terminate()
        for process in running.values():
            process.join(_PATIENCE)
            if process.is_alive():
                process.kill()
        raise


def _work(places: Places, job: Job, threads: int, messages: Any, launch: Launch | None) -> None:
    """A process: one job from its beginning to its end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is told, and tells this one by SIGTERM
    end_with_parent(_PATIENCE)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    import torch

    from rela.experiments.reproduce.job import run_job
    from rela.experiments.reproduce.launching import train_distributed
    from rela.training.signals import InterruptedRunError

    torch.set_num_threads(threads)
    try:
        train = None if launch is None else partial(train_distributed, places, job, launch)
        told = _Told(job.name, messages)
        run_job(places, job, told, told.said, train=train)
    except InterruptedRunError:
        os._exit(1)
    except (ValueError, OSError, MemoryError, ModuleNotFoundError) as error:
        messages.put(_Message("error", job.name, (" ".join(str(error).split()) or type(error).__name__,)))
    except Exception:
        messages.put(_Message("error", job.name, (traceback.format_exc(),)))
