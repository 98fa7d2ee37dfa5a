"""Scoring a corpus from end to end: how fast, in how much memory, and what rounding does when batches are others."""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rela.alignment.pairs import BATCH_PLACES
from rela.bench.others import descendants
from rela.filtering.corpus import Progress, ScoreOptions, score_corpus
from rela.filtering.encoding import EncodedWindow
from rela.filtering.features import force
from rela.filtering.scorer import Scorer
from rela.filtering.splitting import Rule, split_corpus
from rela.filtering.writing import as_tsv

_PROC: Final = Path("/proc")
_KEPT: Final = 0.8
_PAUSE: Final = 0.5  # seconds between two looks at memory
_OTHER_SIZES: Final = (256, 1024)  # of batches, in places; scoring itself has BATCH_PLACES


@dataclass
class Memory:
    """Bytes of this process and of those it started; shared pages count once. 0 where the system does not tell."""

    peak: int = 0
    seen: list[int] = field(default_factory=list[int])

    def at(self, share: float) -> int:
        """When such a share of the time had passed."""
        return self.seen[min(len(self.seen) - 1, int(share * len(self.seen)))] if self.seen else 0


class Scoring(NamedTuple):
    """What it took to score a corpus.

    ``seconds`` are those of everything, from the first row read to the last one written; ``per_second`` is the speed of
    scoring alone, of all workers together; ``share`` that of bare forced decoding's speed; ``memory`` knows the split
    into kept and rejected rows too.
    """

    rows: int
    malformed: int
    workers: int
    seconds: float
    per_second: float
    share: float | None
    memory: Memory


class Flips(NamedTuple):
    """Rows of attention that were looked at over batches of other sizes, and those that were null in one alone."""

    rows: int
    flipped: int


def measure_scoring(options: ScoreOptions, progress: Progress) -> Scoring:
    """Score a corpus that lies in files and write it as TSV, then split it, into a folder that goes away."""
    with tempfile.TemporaryDirectory(prefix="rela-bench-") as folder, watching_memory() as memory:
        began = time.monotonic()
        scored = score_corpus(options, Path(folder, "scores"), progress)
        with Path(folder, "scored.tsv").open("wb") as file:
            for window, scores in scored.windows():
                file.write(as_tsv(window, scores))
        seconds = time.monotonic() - began
        split_corpus(scored, Rule(keep=_KEPT), Path(folder))  # takes most memory: all scores at once
        scored.kept.close()
    speed = scored.speed
    malformed = scored.survey.problems.total()
    rate = speed.per_second or speed.pairs / max(1e-9, speed.seconds)
    return Scoring(speed.pairs, malformed, options.workers, seconds, rate, speed.share, memory)


def count_flips(scorer: Scorer, pairs: Sequence[tuple[str, str]]) -> Flips:
    """How often rounding brings a row's last weight across zero, when pairs stand in batches of other sizes."""
    window = EncodedWindow.encode(scorer.tokenizers, pairs)
    places = np.flatnonzero(window.longest <= scorer.max_pieces)

    def nulls(size: int) -> dict[int, NDArray[np.bool_]]:
        found: dict[int, NDArray[np.bool_]] = {}
        for batch in window.batches(places, size):
            forced = force(scorer.model, batch)
            null = forced.null.cpu().numpy()  # [B, L, H, T]
            for row, place in enumerate(batch.places.tolist()):
                found[place] = null[row, ..., : int(forced.target_lengths[row])]
        return found

    usual = nulls(BATCH_PLACES)
    rows = flipped = 0
    for size in _OTHER_SIZES:
        for place, null in nulls(size).items():
            rows += null.size
            flipped += int((null != usual[place]).sum())
    return Flips(rows, flipped)


@contextlib.contextmanager
def watching_memory() -> Generator[Memory]:
    """Looks at the memory of this process and its descendants every so often, until it is left."""
    memory, over = Memory(), threading.Event()

    def watch() -> None:
        while True:
            memory.seen.append(sum(_bytes(number) for number in descendants()))
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
