"""Everything that this room takes from inside sacrebleu, in one place: counts, intervals, signatures, notes."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rela.evaluation.counts import Counts, check_num_bootstrap
from rela.evaluation.score import Interval

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

_ORDERS: Final = 4

# The names with an underscore are what sacrebleu's own significance tests are made of, unchanged since 2.0;
# tests compare what comes out here with what its public functions print.
# pyright: reportPrivateUsage=false


def score_with_interval(metric: Metric, hypotheses: Sequence[str], num_bootstrap: int) -> tuple[Any, Interval | None]:
    """The score against the references that `metric` was made with, and sacrebleu's own bootstrap interval."""
    check_num_bootstrap(num_bootstrap)
    score = metric.corpus_score(list(hypotheses), None, n_bootstrap=num_bootstrap)
    if num_bootstrap == 0:
        return score, None
    return score, Interval(mean=float(score._mean), half_width=float(score._ci), num_samples=num_bootstrap)


def counts_of(metric: Metric, hypotheses: Sequence[str]) -> Counts:
    """The counts of each sentence against the references that `metric` was made with."""
    rows = np.array(metric._extract_corpus_statistics(list(hypotheses), None), dtype=np.float64)
    return Counts(rows=rows, score=lambda sums: float(metric._compute_score_from_stats(list(sums)).score))


def packed_bleu_counts(counts: Counts) -> list[list[int]]:
    """What has to be kept of BLEU's counts: words, words of the reference, and the n-grams that are in both."""
    return [[int(value) for value in row] for row in counts.rows[:, : 2 + _ORDERS]]


def bleu_counts(packed: Sequence[Sequence[int]]) -> Counts:
    """Counts of BLEU that were kept, without their text. How many n-grams there are follows from the words."""
    from sacrebleu.metrics.bleu import BLEU

    metric, kept = BLEU(), np.array(packed, dtype=np.float64).reshape(-1, 2 + _ORDERS)
    return Counts(
        rows=np.hstack([kept, np.maximum(0, kept[:, :1] - np.arange(_ORDERS))]),
        score=lambda sums: float(metric._compute_score_from_stats([int(one) for one in sums]).score),
    )


def signature_of(metric: Metric, name: str) -> str:
    """The recipe as sacrebleu prints it in front of a score; complete once a score has been computed."""
    return f"{name}|{metric.get_signature().format()}"


@contextlib.contextmanager
def collect_notes() -> Generator[list[str]]:
    """Keeps what sacrebleu would log, so that it can become a warning: users can see, filter and test those."""
    logger, said = logging.getLogger("sacrebleu"), list[str]()

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(" ".join(record.getMessage().split()))

    collector, propagate = Collector(logging.WARNING), logger.propagate
    logger.addHandler(collector)
    logger.propagate = False
    try:
        yield said
    finally:
        logger.removeHandler(collector)
        logger.propagate = propagate
