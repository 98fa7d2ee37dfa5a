"""What `rela score` does: read, calibrate, score, write; and what it shares with `rela filter`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from rela._files import PACKINGS, ending_of, naming, remove_leftovers
from rela._streams import STANDARD_OUTPUT
from rela.cli._output import STDOUT, check_destination, check_not_input
from rela.cli._pairs_input import format_of, is_stream, pair_source, shard_sources
from rela.cli._usage import told_when_stopped, wrong_use

if TYPE_CHECKING:
    from rich.console import Console

    from rela.filtering.calibration import Calibration
    from rela.filtering.corpus import Progress, ScoreOptions
    from rela.filtering.scorer import WindowScores
    from rela.filtering.shards import PartForm, Shard
    from rela.filtering.survey import Survey
    from rela.text.readers import PairSource
    from rela.text.rows import RowWindow

_TABLE = "parquet"


@dataclass(frozen=True, kw_only=True)
class _Job:
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


@dataclass(frozen=True, kw_only=True)
class ScoreJob(_Job):
    """The options of one call."""

    pairs: str | None
    src: str | None
    tgt: str | None
    output: Path | None
    device: str
    as_json: bool


def run_score(job: ScoreJob) -> None:
    """Score, and write."""
    from rela.filtering.corpus import say_problems, score_corpus, score_stream
    from rela.filtering.survey import Survey

    _check_calibration_file(job)
    options = score_options(job)
    table = _writes_table(job)
    if not table:
        _writes_json(job, options.source)  # wrong use is said before anything is scored
    console = progress_console()
    with row_progress(console) as progress:
        if any(map(is_stream, options.source.paths)):
            if job.save_calibration is not None:
                raise typer.BadParameter(
                    "--save-calibration: expected a file of pairs, got a pipe; write it to one first"
                )
            seen = Survey()
            _write(job, options, _counted(score_stream(options, progress), seen), table=table)
            say_problems(seen.problems, seen.num_rows)
            return
        if job.output is not None and (not job.output.exists() or job.output.is_file()):
            folder = job.output.with_name(f"{job.output.name}.partial")
        else:
            folder = None
        with scratch(folder) as place:
            scored = score_corpus(options, place, progress)
            try:
                if folder is not None and job.output is not None:
                    remove_leftovers(job.output.resolve())  # the scores' lock is ours
                if job.save_calibration is not None:
                    scored.calibration.save(job.save_calibration)
                _write(job, options, scored.windows(), table=table)
                tell_speed(console, scored)
                if folder is not None:
                    scored.kept.delete()
            finally:
                scored.kept.close()


def _writes_table(job: ScoreJob) -> bool:
    if job.output is None or ending_of(job.output).lower() != _TABLE:
        return False
    if job.output.suffix.lower() in PACKINGS:
        raise typer.BadParameter(
            f"--output: expected a table that ends in .{_TABLE}, which is packed inside, got {job.output}"
        )
    return True


def _check_calibration_file(job: _Job) -> None:
    """What --save-calibration names must be a new file, or an old calibration, in a folder that is there."""
    path = job.save_calibration
    if path is None:
        return
    check_destination(str(path))
    if isinstance(job, ScoreJob):
        inputs = [name for name in (job.pairs, job.src, job.tgt, job.calibrate_on) if name is not None]
        outputs = [] if job.output is None else [job.output]
        check_not_input(path, "--save-calibration", {"the input": inputs, "the output": outputs})


def _counted(rows: Iterable[tuple[RowWindow, WindowScores]], seen: Survey) -> Iterator[tuple[RowWindow, WindowScores]]:
    """The same rows; what is wrong with them is counted as they pass."""
    from rela.filtering.writing import problems_of

    for window, scores in rows:
        seen.num_rows += len(window)
        seen.problems.update(problem for problem in problems_of(window, scores) if problem is not None)
        yield window, scores


@dataclass(frozen=True, kw_only=True)
class RayJob(_Job):
    """The options of one call with --engine ray."""

    inputs: Sequence[str]
    out: str
    parts: str | None
    address: str | None


def run_on_ray(job: RayJob) -> None:
    """Score shards into a folder of parts."""
    from rela.filtering.ray_engine import RayOptions, import_ray, score_with_ray

    import_ray()  # before anything is read
    _check_calibration_file(job)
    form = part_form(job.parts)
    shards = _shards(job)
    calibration = _calibration_of_shards(job, shards)
    if job.save_calibration is not None:
        calibration.save(job.save_calibration)
    options = RayOptions(
        model=job.model,
        shards=shards,
        output=job.out,
        calibration=calibration,
        form=form,
        header=job.header,
        spans=job.spans,
        max_pieces=job.max_pieces,
        workers=job.workers,
        address=job.address,
    )
    console = progress_console()
    with (
        told_when_stopped(lambda: f"{job.out} has the parts that were made, and the same command goes on from there"),
        row_progress(console) as progress,
    ):
        result = score_with_ray(options, progress)
    malformed = ", ".join(f"{name} {count:,}" for name, count in sorted(result.counts.problems.items()))
    console.print(
        f"{job.out}: shards {result.num_shards:,}, parts {result.counts.parts:,}, rows {result.counts.rows:,}, all "
        "read back and counted" + (f"; malformed: {malformed}" if malformed else "")
    )
    if result.new_rows:
        console.print(f"{result.new_rows:,} pairs scored in {result.seconds:,.1f} s: {result.per_second:,.0f} pairs/s")


def _shards(job: RayJob) -> list[Shard]:
    from rela.filtering.shards import Shard, find_files
    from rela.model.directory import find_model_folder, read_languages

    languages = read_languages(find_model_folder(job.model))
    files = find_files(job.inputs, job.out)
    sources = shard_sources(
        [file.url for file in files], job.form, job.columns, job.keys, (languages.source, languages.target)
    )
    if job.header and not any(source.kind == "tsv" for source in sources):
        raise typer.BadParameter("--header: expected TSV; other formats have none")
    return [Shard(file.name, file.size, source, file.version) for file, source in zip(files, sources, strict=True)]


def _calibration_of_shards(job: RayJob, shards: list[Shard]) -> Calibration:
    """As for one file, but the input is looked at in the first windows of its shards alone."""
    from dataclasses import replace

    from rela.filtering.corpus import ScoreOptions, calibration_for
    from rela.filtering.scorer import Scorer
    from rela.filtering.shards import sample_shards
    from rela.model.directory import find_model_folder, read_languages

    options = ScoreOptions(model=job.model, source=shards[0].source, max_pieces=job.max_pieces)
    languages = read_languages(find_model_folder(job.model))
    options = _with_calibration(options, job, (languages.source, languages.target))
    scorer = replace(Scorer.load(job.model), max_pieces=job.max_pieces)
    return calibration_for(scorer, options, sample_shards(shards, header=job.header, seed=options.seed).sample)


def part_form(text: str | None) -> PartForm | None:
    """Of the option --parts."""
    from rela.filtering.shards import FORMATS

    for form in FORMATS:
        if text == form:
            return form
    if text is not None:
        raise typer.BadParameter(f"--parts: expected {', '.join(FORMATS)}, got {text!r}")
    return None


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
    return _with_calibration(options, job, (languages.source, languages.target))


def check_reading(job: Any, source: PairSource) -> None:
    """Whether what is to be read is there, and can be read as it is asked for; said before anything is done."""
    if job.header and source.kind != "tsv":
        raise typer.BadParameter("--header: expected TSV; other formats have none")
    for path in source.paths:
        if path != STDOUT and not Path(path).is_file() and not Path(path).is_fifo():
            raise FileNotFoundError(f"{path}: expected a file of pairs, there is none")
    if job.calibrate_on not in (None, "input", "model") and not Path(job.calibrate_on).exists():
        raise FileNotFoundError(
            f"--calibrate-on: expected input, model, a file of pairs or a calibration, there is no {job.calibrate_on}"
        )


def _with_calibration(options: ScoreOptions, job: Any, languages: tuple[str, str]) -> ScoreOptions:
    """A file of pairs is read as the input is, if it has the same format."""
    from dataclasses import replace

    from rela.filtering.calibration import Calibration
    from rela.filtering.pool import one_thread
    from rela.filtering.scorer import Scorer
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
    with one_thread(), wrong_use("--calibrate-on"):
        scorer = replace(Scorer.load(options.model, options.device), max_pieces=options.max_pieces)
        return replace(options, calibrate_on=scorer.calibrated(sample).calibration)


@contextmanager
def scratch(folder: Path | None) -> Generator[Path]:
    """Where scores are kept until the output is whole: beside it, or for standard output in a folder that goes away."""
    import tempfile

    if folder is None:
        with tempfile.TemporaryDirectory(prefix="rela-score-") as temporary:
            yield Path(temporary)
        return

    def how() -> str:
        return f"{folder} has what was scored, and the same command goes on from there"

    with told_when_stopped(how):
        yield folder


def _write(
    job: ScoreJob, options: ScoreOptions, rows: Iterable[tuple[RowWindow, WindowScores]], *, table: bool
) -> None:
    from rela.filtering.writing import as_table, empty_table, new_packed, new_table

    if table:
        assert job.output is not None
        with new_table(job.output, lambda: empty_table(options.source, spans=job.spans)) as write:
            for window, scores in rows:
                write(as_table(window, scores))
        return
    render = _renderer(job, options.source)
    if options.source.kind == "files" and not _writes_json(job, options.source):
        rows = _noticing_tabs(rows)
    if job.output is not None and not (job.output.exists() and not job.output.is_file()):
        with new_packed(job.output) as write:
            _write_lines(write, rows, render, _header(job, options.source))
        return
    if job.output is not None:  # a device or a pipe
        with naming(job.output), job.output.open("wb") as file:
            _write_lines(file.write, rows, render, _header(job, options.source))
        return
    stream = sys.stdout.buffer
    with naming(STANDARD_OUTPUT):
        _write_lines(stream.write, rows, render, _header(job, options.source), flush=stream.flush)


def _noticing_tabs(rows: Iterable[tuple[RowWindow, WindowScores]]) -> Iterator[tuple[RowWindow, WindowScores]]:
    """The same rows; those that TSV cannot have as they are, are told of."""
    from rela._warn import warn
    from rela.filtering.writing import has_inner_tab

    count = 0
    for window, scores in rows:
        count += sum(map(has_inner_tab, window.records))
        yield window, scores
    if count:
        warn(f"{count:,} rows have a tab within a text, which TSV cannot have: it is written as a blank")


def _write_lines(
    write: Callable[[bytes], object],
    rows: Iterable[tuple[RowWindow, WindowScores]],
    render: Callable[[RowWindow, WindowScores], bytes],
    header: bytes,
    flush: Callable[[], object] = lambda: None,
) -> None:
    write(header)
    for window, scores in rows:
        write(render(window, scores))
        flush()


def _renderer(job: ScoreJob, source: PairSource) -> Callable[[RowWindow, WindowScores], bytes]:
    from rela.filtering.writing import as_jsonl, as_tsv

    return (lambda window, scores: as_jsonl(window, scores, source)) if _writes_json(job, source) else as_tsv


def _writes_json(job: ScoreJob, source: PairSource) -> bool:
    """Whether lines are JSON; else they are TSV, which only text can be."""
    rich = source.kind in ("jsonl", "parquet")
    jsonl = job.as_json or (ending_of(job.output).lower() == "jsonl" if job.output is not None else rich)
    if rich and not jsonl:
        raise typer.BadParameter(
            f"--output: expected a name that ends in .jsonl or .parquet for {source.kind} input, got {job.output}"
        )
    return jsonl


def _header(job: ScoreJob, source: PairSource) -> bytes:
    from rela.filtering.writing import columns_of
    from rela.text.rows import read_header

    if not job.header or _writes_json(job, source):
        return b""
    if is_stream(source.path):
        raise typer.BadParameter("--header: expected a file, got a pipe; write it to a file first")
    return b"\t".join([read_header(source), *(name.encode() for name in columns_of(spans=job.spans))]) + b"\n"


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
