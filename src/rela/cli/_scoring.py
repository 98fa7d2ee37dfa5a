"""What the commands that score pairs share: their options, their calibration, their progress."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from rela.cli._output import STDOUT, check_destination, check_not_input
from rela.cli._pairs_input import as_file, format_of, pair_source
from rela.cli._usage import wrong_use

if TYPE_CHECKING:
    from rich.console import Console

    from rela.filtering.corpus import Progress, ScoreOptions
    from rela.text.readers import PairSource


@dataclass(frozen=True, kw_only=True)
class ScoringJob:
    """The options that all engines have."""

    model: Path
    form: str | None
    columns: str | None
    keys: str | None
    header: bool
    spans: bool
    calibrate_on: str | None
    save_calibration: Path | None
    workers: int | None
    max_pieces: int


def check_calibration_file(path: Path | None, others: Mapping[str, Sequence[str | Path]]) -> None:
    """What --save-calibration names must be a new file, or an old calibration, in a folder that is there."""
    if path is not None:
        check_destination(str(path))
        check_not_input(path, "--save-calibration", others)


def files_read(
    inputs: Sequence[str | None], calibrate_on: str | None, model: Path | None
) -> dict[str, list[str | Path]]:
    """All that a command reads, by what it is to people; none of it may be written over."""
    from rela.model.directory import find_model_folder

    return {
        "the input": [as_file(path) for path in inputs if path is not None],
        "the pairs or the calibration of --calibrate-on": []
        if calibrate_on in (None, "input", "model")
        else [str(calibrate_on)],
        "a file of the model": [] if model is None else [*find_model_folder(model).iterdir()],
    }


def score_options(job: Any) -> ScoreOptions:
    """For the library, from the options of a command."""
    from rela._device import checked_device
    from rela.filtering.corpus import ScoreOptions
    from rela.model.directory import find_model_folder, read_languages

    with wrong_use():
        checked_device(job.device)
    languages = read_languages(find_model_folder(job.model))
    source = pair_source(
        job.pairs, job.src, job.tgt, job.form, job.columns, job.keys, (languages.source, languages.target)
    )
    check_reading(job, source)
    workers = job.workers or (1 if job.device != "cpu" else os.cpu_count() or 1)
    options = ScoreOptions(
        model=job.model,
        source=source,
        header=job.header,
        spans=job.spans,
        max_pieces=job.max_pieces,
        workers=workers,
        device=job.device,
    )
    return with_calibration(options, job, (languages.source, languages.target))


def check_reading(job: Any, source: PairSource) -> None:
    """Whether what is to be read is there, and can be read as it is asked for; said before anything is done."""
    if job.header and source.kind != "tsv":
        raise typer.BadParameter("--header: expected TSV; other formats have none")
    for path in source.paths:
        if path != STDOUT and not Path(path).is_file() and not Path(path).is_fifo():
            raise FileNotFoundError(f"{path}: expected a file of pairs, there is none")
    if job.calibrate_on not in (None, "input", "model") and not Path(job.calibrate_on).is_file():
        got = (
            f"got the folder {job.calibrate_on}"
            if Path(job.calibrate_on).is_dir()
            else f"there is no {job.calibrate_on}"
        )
        raise FileNotFoundError(f"--calibrate-on: expected input, model, a file of pairs or a calibration, {got}")


def with_calibration(options: ScoreOptions, job: Any, languages: tuple[str, str]) -> ScoreOptions:
    """A file of pairs is read as the input is, if it has the same format."""
    from dataclasses import replace

    from rela.filtering.calibration import Calibration
    from rela.filtering.corpus import counted
    from rela.filtering.pool import one_thread
    from rela.filtering.scorer import LOOKS, Scorer
    from rela.filtering.survey import look_through
    from rela.text.rows import read_windows

    wanted = job.calibrate_on
    if wanted in (None, "input", "model"):
        return replace(options, calibrate_on=wanted)
    if wanted.endswith(".json"):
        return replace(options, calibrate_on=Calibration.load(Path(wanted)))
    form = format_of(wanted)
    same = form == options.source.kind
    columns, keys = (job.columns, job.keys) if same else (None, None)
    source = pair_source(wanted, None, None, form, columns, keys, languages)
    sample = look_through(read_windows(source, header=same and job.header)).sample
    with one_thread(), wrong_use("--calibrate-on"), row_progress(progress_console()) as progress:
        scorer = replace(Scorer.load(options.model, options.device), max_pieces=options.max_pieces)
        tell = counted(progress, "learning quality", LOOKS * len(sample))
        return replace(options, calibrate_on=scorer.calibrated(sample, tell=tell).calibration)


def progress_console() -> Console:
    """Progress goes to standard error: standard output may have the rows."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)


@contextmanager
def row_progress(console: Console) -> Generator[Progress]:
    """Shows what is done, how fast, and when it will be over."""
    from rela.cli._progress import CountProgress

    with CountProgress(console, "pairs", speed=True) as progress:
        yield progress.reach


def tell_speed(console: Console, scored: Any) -> None:
    """What was done, and how fast."""
    from rela.filtering.corpus import say_problems

    say_problems(scored.problems(), scored.survey.num_rows)
    speed = scored.speed
    workers = f"{scored.options.workers} worker{'s' if scored.options.workers > 1 else ''}"
    rate = "" if speed.per_second is None else f": {speed.per_second:,.0f} pairs/s with {workers}"
    share = "" if speed.share is None else f", {speed.share:.0%} of the speed of bare forced decoding"
    if speed.pairs:
        pairs = "1 pair" if speed.pairs == 1 else f"{speed.pairs:,} pairs"
        console.print(f"{pairs} scored in {speed.seconds:,.1f} s{rate}{share}")
