"""`RelaFilter`: the scores of `rela score` as a filter of OpusFilter.

In a configuration of OpusFilter, name this module and the class::

    - RelaFilter:
        model: /models/en-de
        threshold: 0.5
      module: rela.integrations.opusfilter
"""

# OpusFilter has no types, and a type checker takes its abstract methods for ones that return None.
# pyright: reportIncompatibleMethodOverride=false

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np

try:
    from opusfilter import CLEAN_HIGH, CLEAN_LOW, ConfigurationError, FilterABC
except ModuleNotFoundError as error:
    if error.name != "opusfilter":
        raise
    raise ModuleNotFoundError(
        "expected the package opusfilter, got none; install it with: pip install opusfilter", name=error.name
    ) from None

from rela.filtering.pool import one_thread
from rela.filtering.scorer import MAX_PIECES, Scorer
from rela.filtering.scores import COLUMNS, SCORES
from rela.filtering.writing import problems_of
from rela.model.directory import QUALITY_FILE, find_model_folder
from rela.text.readers import MAX_CHARS, PairSource, find_problem, good_texts
from rela.text.rows import WINDOW, RowWindow

Segments = Sequence[str]
"""What OpusFilter calls a pair: a line of each of its files."""

PairResult = float | dict[str, float]
"""What is said about a pair: the score to accept by, or all scores."""

_THRESHOLDS: Final = {"quality": 0.5}
_WORST: Final = np.array([0.0 if score.good == "high" else math.inf for score in SCORES.values()])
_SIDES: Final = PairSource.files("source", "target")

_logger = logging.getLogger(__name__)


class RelaFilter(FilterABC):
    """Accepts pairs by one score of a model under forced decoding.

    Pairs are scored in windows of ``batch``, so memory does not grow with the corpus. OpusFilter decides where windows
    begin: a filter step hands over all pairs, a score step ``chunksize`` of them at a time, and with ``n_jobs`` each
    process has its own part. The same pair may then have other neighbours, and its scores other last digits. A process
    computes with one thread, so ``n_jobs`` says how many cores work; each process loads the model.

    A pair that cannot be scored (an empty side, too many pieces and what else `rela score` calls a problem) has the
    worst score: 0 where high is good, infinity elsewhere. The worst score is never accepted, whatever the threshold.
    How many pairs had which problem is logged.

    Args:
        model: a model directory, or a run's folder. Paths are relative to OpusFilter's output directory.
        score: the score to accept by: any of `rela score`'s but ``length_ratio``, which is good in the middle.
        threshold: the least good score that is accepted; 0.5 for quality, to be given for others.
        calibrate_on: a calibration that ``rela score --save-calibration`` wrote; without it, the model's own.
        all_scores: whether a score step writes all scores (``RelaFilter.quality`` and so on) or only the one.
        max_pieces: pairs with a side of more pieces are not scored.
        batch: pairs that are scored together.
        device: what to compute on, such as ``cpu`` or ``cuda``.
        name: what OpusFilter calls this filter in its score files, if there are several.
        workdir: OpusFilter's output directory, which it passes by itself.
    """

    def __init__(
        self,
        model: str,
        *,
        score: str = "quality",
        threshold: float | None = None,
        calibrate_on: str | None = None,
        all_scores: bool = False,
        max_pieces: int = MAX_PIECES,
        batch: int = WINDOW,
        device: str = "cpu",
        name: str | None = None,
        workdir: str = "",
    ) -> None:
        super().__init__(name=name, workdir=workdir)
        _check_count("max_pieces", max_pieces)
        _check_count("batch", batch)
        self._by = _checked_score(score)
        self._limit = float(np.float32(_checked_threshold(score, threshold)))  # scores have no more digits
        self._all_scores = all_scores
        self._batch = batch
        scorer = _load(Path(workdir, model), None if calibrate_on is None else Path(workdir, calibrate_on), device)
        self._scorer = replace(scorer, max_pieces=max_pieces)

    @property
    def score_direction(self) -> str:
        """Where good pairs are."""
        return CLEAN_HIGH if SCORES[self._by].good == "high" else CLEAN_LOW

    @property
    def reject_threshold(self) -> float:
        """With this threshold nothing would be accepted. There is none with which everything would."""
        return math.inf if SCORES[self._by].good == "high" else -math.inf

    def score(self, pairs: Iterable[Segments]) -> Iterator[PairResult]:
        """The score of each pair, in order, or all of its scores."""
        return (result for _, result in self._scored(pairs))

    def accept(self, score: PairResult) -> bool:
        """Whether this score, or the one that counts among these, is good enough."""
        value = score[self._by] if isinstance(score, Mapping) else score
        if value == _WORST[COLUMNS.index(self._by)]:
            return False
        return value >= self._limit if SCORES[self._by].good == "high" else value <= self._limit

    def filter(self, pairs: Iterable[Segments]) -> Iterator[Segments]:
        """The accepted pairs. OpusFilter's own way would score them one by one."""
        return (pair for pair, result in self._scored(pairs) if self.accept(result))

    def filterfalse(self, pairs: Iterable[Segments]) -> Iterator[Segments]:
        """The other pairs."""
        return (pair for pair, result in self._scored(pairs) if not self.accept(result))

    def _scored(self, pairs: Iterable[Segments]) -> Iterator[tuple[Segments, PairResult]]:
        waiting = iter(pairs)
        count, problems = 0, Counter[str]()
        try:
            while some := list(islice(waiting, self._batch)):
                results = self._results(some, problems)
                count += len(some)
                yield from zip(some, results, strict=True)
        finally:  # whoever reads may stop early
            if problems:
                kinds = ", ".join(f"{problem} {number:,}" for problem, number in sorted(problems.items()))
                _logger.warning("%d of %d pairs could not be scored: %s", problems.total(), count, kinds)

    def _results(self, pairs: Sequence[Segments], problems: Counter[str]) -> Iterator[PairResult]:
        """Of a window; its problems are counted."""
        window = _as_window(pairs)
        with one_thread():
            scores = self._scorer.score_window(window.pairs)
        problems.update(problem for problem in problems_of(window, scores) if problem is not None)
        values = np.tile(_WORST, (len(pairs), 1))  # [n, columns]
        values[window.good()] = np.where(np.isnan(scores.values), _WORST, scores.values)
        if self._all_scores:
            return (dict(zip(COLUMNS, row, strict=True)) for row in values.tolist())
        return iter(values[:, COLUMNS.index(self._by)].tolist())


def _as_window(pairs: Sequence[Segments]) -> RowWindow:
    """As `rela score` would read these pairs."""
    window = RowWindow(0)
    for place, pair in enumerate(pairs):
        if len(pair) != 2:
            raise ConfigurationError(f"RelaFilter: expected two inputs, source and target, got {len(pair)}")
        raw = [text.encode(errors="surrogatepass") for text in pair]
        texts = good_texts(raw[0], raw[1], MAX_CHARS)
        if texts is None:
            window.problems[place] = find_problem(_SIDES, raw[0], raw[1], MAX_CHARS)[0]
        else:
            window.pairs.append(texts)
            window.places.append(place)
    return window


def _load(model: Path, calibration: Path | None, device: str) -> Scorer:
    path = calibration or find_model_folder(model) / QUALITY_FILE
    if not path.is_file():
        raise ConfigurationError(
            f"RelaFilter: calibrate_on: expected a calibration in {path}, there is none; run `rela score {model} "
            "pairs.tsv --calibrate-on input --save-calibration FILE` with pairs of the corpus, and pass FILE"
        )
    return Scorer.load(model, device, calibration=path)


def _checked_score(name: str) -> str:
    known = [name for name, score in SCORES.items() if score.good != "middle"]
    if name not in known:
        raise ConfigurationError(f"RelaFilter: score: expected one of {', '.join(known)}, got {name!r}")
    return name


def _checked_threshold(score: str, threshold: object) -> float:
    threshold = _THRESHOLDS.get(score) if threshold is None else threshold
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or math.isnan(threshold):
        raise ConfigurationError(f"RelaFilter: threshold: expected a number for the score {score}, got {threshold!r}")
    return threshold


def _check_count(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigurationError(f"RelaFilter: {name}: expected a whole number from 1 on, got {value!r}")
