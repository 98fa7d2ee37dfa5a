"""What `rela score` does on this machine: read, calibrate, score, write."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from rela._files import PACKINGS, ending_of, is_in_place, naming, remove_leftovers
from rela._streams import STANDARD_OUTPUT
from rela.cli._output import STDOUT
from rela.cli._pairs_input import is_stream
from rela.cli._scoring import (
    ScoringJob,
    check_calibration_file,
    files_read,
    progress_console,
    row_progress,
    score_options,
    tell_speed,
)
from rela.cli._usage import told_when_stopped

if TYPE_CHECKING:
    from rela.filtering.corpus import ScoreOptions
    from rela.filtering.scorer import WindowScores
    from rela.filtering.survey import Survey
    from rela.text.readers import PairSource
    from rela.text.rows import RowWindow

_TABLE = "parquet"


@dataclass(frozen=True, kw_only=True)
class ScoreJob(ScoringJob):
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

    read = files_read(
        (STDOUT if job.pairs is None and job.src is None else job.pairs, job.src, job.tgt), job.calibrate_on, job.model
    )
    outputs = [] if job.output is None else [job.output]
    check_calibration_file(job.save_calibration, {**read, "the output": outputs})
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
        if job.output is not None and not is_in_place(job.output):
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


@contextmanager
def scratch(folder: Path | None) -> Generator[Path]:
    """Where scores are kept until the output is whole: beside it, or for standard output in a folder that goes away."""
    import tempfile

    if folder is None:
        with (
            told_when_stopped(lambda: "nothing is kept without --output FILE, so the same command begins anew"),
            tempfile.TemporaryDirectory(prefix="rela-score-") as temporary,
        ):
            yield Path(temporary)
        return

    def how() -> str:
        return f"{folder} has what was scored, and the same command goes on from there"

    with told_when_stopped(how):
        yield folder


def _writes_table(job: ScoreJob) -> bool:
    if job.output is None or ending_of(job.output).lower() != _TABLE:
        return False
    if job.output.suffix.lower() in PACKINGS:
        raise typer.BadParameter(
            f"--output: expected a table that ends in .{_TABLE}, which is packed inside, got {job.output}"
        )
    return True


def _counted(rows: Iterable[tuple[RowWindow, WindowScores]], seen: Survey) -> Iterator[tuple[RowWindow, WindowScores]]:
    """The same rows; what is wrong with them is counted as they pass."""
    from rela.filtering.writing import problems_of

    for window, scores in rows:
        seen.num_rows += len(window)
        seen.problems.update(problem for problem in problems_of(window, scores) if problem is not None)
        yield window, scores


def _write(
    job: ScoreJob, options: ScoreOptions, rows: Iterable[tuple[RowWindow, WindowScores]], *, table: bool
) -> None:
    from rela.filtering.writing import as_table, empty_table, new_packed, new_table

    if table:
        assert job.output is not None
        with new_table(job.output, lambda: empty_table(options.source, spans=job.spans)) as write:
            for window, scores in rows:
                write(as_table(window, scores, options.source))
        return
    render = _renderer(job, options.source)
    if options.source.kind == "files" and not _writes_json(job, options.source):
        rows = _noticing_tabs(rows)
    if job.output is not None:
        with new_packed(job.output) as write:
            _write_lines(write, rows, render, _header(job, options.source))
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
    return b"\t".join([*read_header(source), *(name.encode() for name in columns_of(spans=job.spans))]) + b"\n"
