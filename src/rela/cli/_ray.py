"""What `rela score --engine ray` does: shards into a folder of parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from rela.cli._pairs_input import shard_sources
from rela.cli._scoring import (
    ScoringJob,
    check_calibration_file,
    files_read,
    progress_console,
    row_progress,
    with_calibration,
)
from rela.cli._usage import told_when_stopped

if TYPE_CHECKING:
    from rela.filtering.calibration import Calibration
    from rela.filtering.shards import PartForm, Shard


@dataclass(frozen=True, kw_only=True)
class RayJob(ScoringJob):
    """The options of one call with --engine ray."""

    inputs: Sequence[str]
    out: str
    parts: str | None
    address: str | None


def run_on_ray(job: RayJob) -> None:
    """Score shards into a folder of parts."""
    from rela.filtering.ray_engine import RayOptions, import_ray, score_with_ray

    import_ray()  # before anything is read
    form = part_form(job.parts)
    shards = _shards(job)
    read = files_read([shard.source.path for shard in shards], job.calibrate_on, job.model)
    check_calibration_file(job.save_calibration, read)
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
        console.print(f"{result.new_rows:,} rows done in {result.seconds:,.1f} s: {result.per_second:,.0f} rows/s")


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
    options = with_calibration(options, job, (languages.source, languages.target))
    scorer = replace(Scorer.load(job.model), max_pieces=job.max_pieces)
    sample = sample_shards(shards, header=job.header, seed=options.seed).sample
    with row_progress(progress_console()) as progress:
        return calibration_for(scorer, options, sample, progress)


def part_form(text: str | None) -> PartForm | None:
    """Of the option --parts."""
    from rela.filtering.shards import FORMATS

    for form in FORMATS:
        if text == form:
            return form
    if text is not None:
        raise typer.BadParameter(f"--parts: expected {', '.join(FORMATS)}, got {text!r}")
    return None
