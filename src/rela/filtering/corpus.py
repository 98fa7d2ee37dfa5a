"""Scoring a whole corpus, of any size, in constant memory: looked through, calibrated, scored, kept on disk."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from rela._files import digest
from rela._version import __version__
from rela._warn import warn
from rela.filtering.calibration import Calibration
from rela.filtering.encoding import EncodedWindow
from rela.filtering.features import force_bare
from rela.filtering.kept import KeptScores
from rela.filtering.pool import PoolOptions, one_thread, scoring
from rela.filtering.scorer import FEWEST_PAIRS, LOOKS, MAX_PIECES, Scorer, WindowScores
from rela.filtering.survey import SAMPLE, Survey, look_through
from rela.filtering.writing import TOO_MANY_PIECES
from rela.text.readers import MAX_CHARS, PairSource
from rela.text.rows import WINDOW, WINDOW_BYTES, RowWindow, read_windows

Progress = Callable[[str, float, float | None], None]
"""What is done, how many rows of it, and of how many, if that is known."""

_STREAM_WINDOWS: Final = 2  # of a stream, whose first pairs must do for a calibration
_TIMED_PAIRS: Final = 512
_ROUNDS: Final = 3
"""Windows for each process: fewer would tell more about the beginning than about the work."""


class NoCalibrationError(ValueError):
    """There are too few pairs to learn quality from, and none was learned before."""


@dataclass(frozen=True, kw_only=True)
class ScoreOptions:
    """How a corpus is scored.

    ``calibrate_on`` says what quality is learned from: ``input``, the ``model``'s own validation pairs (kept in the
    model directory), a ``Calibration``, or None: the input if it has enough pairs, else the model's.
    """

    model: Path
    source: PairSource
    header: bool = False
    spans: bool = False
    calibrate_on: Calibration | str | None = None
    max_pieces: int = MAX_PIECES
    max_chars: int = MAX_CHARS
    workers: int = 1
    device: str = "cpu"
    seed: int = 1
    window: int = WINDOW

    def windows(self) -> Iterator[RowWindow]:
        """The rows, from the first."""
        return read_windows(self.source, header=self.header, max_chars=self.max_chars, size=self.window)

    def pool(self, calibration: Calibration) -> PoolOptions:
        """For the processes that score."""
        return PoolOptions(
            model=self.model,
            calibration=calibration,
            max_pieces=self.max_pieces,
            spans=self.spans,
            workers=self.workers,
            device=self.device,
        )


FileStates = tuple[tuple[int, int, int], ...]
"""Of each file of an input: its number on the disk, its size, and when it was last written to."""


def state_of(source: PairSource) -> FileStates:
    """What changes when a file is written to, or another takes its place."""
    states = [Path(path).stat() for path in source.paths]
    return tuple((state.st_ino, state.st_size, state.st_mtime_ns) for state in states)


class Speed(NamedTuple):
    """Pairs scored, how many a second, and the share of the speed of bare forced decoding of the same batches.

    ``per_second`` is that of all processes together, after the first window of each: before, models are loaded. None
    if there were too few windows to tell.
    """

    pairs: int
    seconds: float
    per_second: float | None
    share: float | None


class _Meter:
    """Counts pairs as their windows come."""

    def __init__(self, workers: int) -> None:
        self._workers, self._began = workers, time.monotonic()
        self._windows: list[tuple[float, int]] = []

    def count(self, pairs: int) -> None:
        """One more window."""
        self._windows.append((time.monotonic(), pairs))

    def speed(self, share: float | None) -> Speed:
        """So far."""
        pairs, now = sum(count for _, count in self._windows), time.monotonic()
        rate = None
        if len(self._windows) >= _ROUNDS * self._workers:
            start = self._windows[self._workers - 1][0]
            later = sum(count for _, count in self._windows[self._workers :])
            rate = later / max(1e-9, self._windows[-1][0] - start)
        return Speed(pairs, now - self._began, rate, share)


@dataclass
class ScoredCorpus:
    """A corpus whose scores are on disk."""

    options: ScoreOptions
    survey: Survey
    calibration: Calibration
    kept: KeptScores
    speed: Speed
    state: FileStates

    def windows(self) -> Iterator[tuple[RowWindow, WindowScores]]:
        """All rows with their scores, in order. An input that was changed since it was scored is an error."""
        for window in _as_seen(self.options, self.survey):
            yield window, self.kept.load(window.number)
        if state_of(self.options.source) != self.state:
            raise _changed(self.options.source, self.survey, "a file that was written to")

    def problems(self) -> Counter[str]:
        """Of all rows without scores."""
        found = Counter(self.survey.problems)
        found[TOO_MANY_PIECES] = sum(
            int((~self.kept.load(number).kept).sum()) for number in range(self.survey.num_windows)
        )
        return +found


def _as_seen(options: ScoreOptions, survey: Survey) -> Iterator[RowWindow]:
    """The rows once more. Others than were seen at first are an error, before anything is done with them: scores and
    calibrations that are kept are those of the survey's pairs, whatever becomes of the input."""
    rows = 0
    for number, window in enumerate(options.windows()):
        rows += len(window)
        if rows > survey.num_rows or number >= survey.num_windows:
            raise _changed(options.source, survey, f"{rows:,} rows and more")
        if window.digest() != survey.digests[number]:
            raise _changed(options.source, survey, "other rows")
        yield window
    if rows != survey.num_rows:
        raise _changed(options.source, survey, f"{rows:,} rows")


def _changed(source: PairSource, survey: Survey, got: str) -> ValueError:
    return ValueError(
        f"{source.path}: expected the {survey.num_rows:,} rows that were there at first, got {got}: it was changed "
        "meanwhile, or cannot be read twice; run the command again on a file that stays as it is"
    )


def score_corpus(options: ScoreOptions, folder: Path, progress: Progress) -> ScoredCorpus:
    """Score a corpus that lies in files. What was kept in the folder by a run before it is not scored again."""
    state = state_of(options.source)
    survey = look_through(options.windows(), seed=options.seed, seen=counted(progress, "reading", None))
    scorer = replace(Scorer.load(options.model, options.device), max_pieces=options.max_pieces)
    chosen = _chosen_calibration(scorer, options, survey.sample)
    kept = KeptScores(folder, _recipe(options, scorer, chosen, survey))
    try:
        calibration = chosen or kept.calibration(lambda: _learned(scorer, options, survey.sample, progress))
        todo = {number for number in range(survey.num_windows) if not kept.has(number)}
        share = _speed_share(replace(scorer, calibration=calibration), survey.sample) if todo else None
        advance = counted(progress, "scoring", survey.num_rows)

        def unscored() -> Iterator[RowWindow]:
            for window in _as_seen(options, survey) if todo else ():
                if window.number in todo:
                    yield window
                else:
                    advance(len(window))

        meter = _Meter(options.workers)
        with scoring(options.pool(calibration)) as score:
            for window, scores in score(unscored()):
                kept.save(window.number, scores)
                meter.count(int(scores.kept.sum()))
                advance(len(window))
        return ScoredCorpus(options, survey, calibration, kept, meter.speed(share), state)
    except BaseException:
        kept.close()
        raise


def counted(progress: Progress, what: str, total: float | None) -> Callable[[int], None]:
    """Is told how many more, and tells how many in all."""
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        progress(what, done, total)

    return advance


def score_stream(options: ScoreOptions, progress: Progress) -> Iterator[tuple[RowWindow, WindowScores]]:
    """Score rows as they come, from a stream that can be read once. Nothing is kept: it cannot be gone on with."""
    windows = options.windows()
    first = list(islice(windows, _STREAM_WINDOWS))
    scorer = replace(Scorer.load(options.model, options.device), max_pieces=options.max_pieces)
    sample = [pair for window in first for pair in window.pairs][:SAMPLE]
    calibration = calibration_for(scorer, options, sample, progress)
    done = 0
    with scoring(options.pool(calibration)) as score:
        for window, scores in score(chain(first, windows)):
            done += len(window)
            progress("scoring", done, None)
            yield window, scores


def calibration_for(
    scorer: Scorer, options: ScoreOptions, sample: list[tuple[str, str]], progress: Progress
) -> Calibration:
    """By what quality is computed, as the options say."""
    return _chosen_calibration(scorer, options, sample) or _learned(scorer, options, sample, progress)


def _learned(scorer: Scorer, options: ScoreOptions, sample: list[tuple[str, str]], progress: Progress) -> Calibration:
    tell = counted(progress, "learning quality", LOOKS * len(sample))
    with one_thread():
        found = scorer.calibrated(sample, seed=options.seed, tell=tell).calibration
    assert found is not None
    return found


def _chosen_calibration(scorer: Scorer, options: ScoreOptions, sample: list[tuple[str, str]]) -> Calibration | None:
    """The calibration that is there already, if it is to be used; None: one is to be learned from the sample."""
    wanted = options.calibrate_on
    if isinstance(wanted, Calibration):
        return scorer.with_calibration(wanted).calibration
    window = EncodedWindow.encode(scorer.tokenizers, sample)
    usable = int((window.longest <= scorer.max_pieces).sum())
    enough = usable >= (FEWEST_PAIRS if wanted == "input" or scorer.calibration is None else SAMPLE // 2)
    if wanted != "model" and enough:
        return None
    if wanted != "input" and scorer.calibration is not None:
        return scorer.calibration
    if wanted == "model":
        raise NoCalibrationError(
            f"{options.model}: expected a model with a calibration, got none in it; calibrate on the input, or on "
            "another file of pairs of the same kind"
        )
    raise NoCalibrationError(
        f"quality: expected at least {FEWEST_PAIRS} pairs to learn from what a good pair is, got {usable}"
        + ("" if wanted == "input" else f", and {options.model} has no calibration")
        + "; calibrate on more pairs of the same kind with --calibrate-on FILE"
    )


def _speed_share(scorer: Scorer, sample: list[tuple[str, str]]) -> float | None:
    """How fast scoring is beside bare forced decoding of the same batches: medians of turns, one after the other."""
    sample = sample[:_TIMED_PAIRS]
    if not sample:
        return None
    ratios: list[float] = []
    with one_thread():
        window = EncodedWindow.encode(scorer.tokenizers, sample)
        kept = np.flatnonzero(window.longest <= scorer.max_pieces)
        for turn in range(4):
            began = time.perf_counter()
            for batch in window.batches(kept):
                force_bare(scorer.model, batch)
            middle = time.perf_counter()
            scorer.score_window(sample)
            ended = time.perf_counter()
            if turn:  # the first warms up
                ratios.append((middle - began) / (ended - middle))
    return float(np.median(ratios))


def source_recipe(source: PairSource, *, header: bool) -> dict[str, Any]:
    """What is read, and how."""
    return {
        "inputs": [{"bytes": Path(path).stat().st_size, "sha256": digest(Path(path))} for path in source.paths],
        "kind": source.kind,
        "columns_read": list(source.columns),
        "keys": list(source.keys),
        "header": header,
    }


def _recipe(options: ScoreOptions, scorer: Scorer, calibration: Calibration | None, survey: Survey) -> dict[str, Any]:
    """All that decides what the scores are. The number of processes is not among it."""
    return {
        **source_recipe(options.source, header=options.header),
        "pairs": survey.digest,
        "model": scorer.weights_digest,
        "calibration": {"learned_by_seed": options.seed} if calibration is None else calibration.to_json(),
        "version": __version__,
        "spans": options.spans,
        "max_pieces": options.max_pieces,
        "max_chars": options.max_chars,
        "window": options.window,
        "window_bytes": WINDOW_BYTES,
    }


def say_problems(problems: Counter[str], num_rows: int) -> None:
    """One line for people about rows that have no scores."""
    if problems:
        counts = ", ".join(f"{name} {count:,}" for name, count in sorted(problems.items()))
        hint = "; --format, --columns and --keys say how rows are read" if problems["bad-record"] == num_rows else ""
        warn(f"{problems.total():,} of {num_rows:,} rows are malformed and have no scores: {counts}{hint}")
