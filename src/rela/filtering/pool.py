"""Windows of rows through one or more processes, in order. Each computes with one thread, so all give the same bits."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch

from rela._parent import end_with_parent
from rela.filtering.calibration import Calibration
from rela.filtering.scorer import Scorer, WindowScores
from rela.text.rows import RowWindow

_AHEAD: Final = 2
"""Windows that wait for each process: enough to keep it busy, few enough to keep memory small."""

ScoreWindows = Callable[[Iterable[RowWindow]], Iterator[tuple[RowWindow, WindowScores]]]


@dataclass(frozen=True, kw_only=True)
class PoolOptions:
    """How windows are scored: the model, its calibration, and how many processes share the work."""

    model: Path
    calibration: Calibration
    max_pieces: int
    spans: bool = False
    workers: int = 1
    device: str = "cpu"


@contextlib.contextmanager
def one_thread() -> Generator[None]:
    """With one thread the sums of a matrix product have one order, whatever the machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def scoring(options: PoolOptions) -> Generator[ScoreWindows]:
    """Inside, windows can be scored; results come in the order of the windows."""
    if options.workers == 1:
        scorer = _load(options)
        with one_thread():
            yield lambda windows: ((w, scorer.score_window(w.pairs, spans=options.spans)) for w in windows)
        return
    pool = ProcessPoolExecutor(
        options.workers, multiprocessing.get_context("spawn"), initializer=_start, initargs=(options,)
    )
    try:
        yield lambda windows: _shared_out(pool, windows, options.workers * _AHEAD)
    except BaseException:  # do not wait for windows that nobody wants now
        processes = list((pool._processes or {}).values())  # pyright: ignore[reportPrivateUsage] (no other way)
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
        raise
    pool.shutdown()


def _shared_out(
    pool: ProcessPoolExecutor, windows: Iterable[RowWindow], ahead: int
) -> Iterator[tuple[RowWindow, WindowScores]]:
    waiting: deque[tuple[RowWindow, Future[WindowScores]]] = deque()
    try:
        for window in windows:
            waiting.append((window, pool.submit(_score, window.pairs)))
            if len(waiting) > ahead:
                first, future = waiting.popleft()
                yield first, future.result()
        while waiting:
            first, future = waiting.popleft()
            yield first, future.result()
    except BrokenProcessPool:
        raise ChildProcessError(
            "a process that scores has ended by itself, perhaps for lack of memory; the same command goes on from the "
            "last window that was kept, and --workers 1 needs least memory"
        ) from None


_scorer: tuple[Scorer, bool] | None = None  # of a process of the pool


def _start(options: PoolOptions) -> None:
    global _scorer
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process is told, and ends this one
    end_with_parent()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    torch.set_num_threads(1)
    _scorer = _load(options), options.spans


def _load(options: PoolOptions) -> Scorer:
    scorer = Scorer.load(options.model, options.device)
    fields: dict[str, Any] = {name: getattr(scorer, name) for name in scorer.__dataclass_fields__}
    fields |= {"calibration": options.calibration, "max_pieces": options.max_pieces}
    return Scorer(**fields)


def _score(pairs: Sequence[tuple[str, str]]) -> WindowScores:
    assert _scorer is not None
    scorer, spans = _scorer
    return scorer.score_window(pairs, spans=spans)
