"""Scoring a corpus from end to end: how fast, in how much memory, and what rounding does when batches are others."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rela.alignment.pairs import BATCH_PLACES
from rela.bench.resident import Memory, watching_memory
from rela.filtering.corpus import Progress, ScoreOptions, score_corpus
from rela.filtering.encoding import EncodedWindow
from rela.filtering.features import force
from rela.filtering.scorer import Scorer
from rela.filtering.splitting import Rule, split_corpus
from rela.filtering.writing import as_tsv

_KEPT: Final = 0.8
_OTHER_SIZES: Final = (256, 1024)  # of batches, in places; scoring itself has BATCH_PLACES


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
