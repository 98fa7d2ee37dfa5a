"""`rela filter`: a corpus in, its good pairs out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rela.cli._options import MOST_THREADS, DeviceOption
from rela.cli._output import JsonOption
from rela.cli._pairs_input import (
    MAX_PIECES,
    CalibrateOption,
    ColumnsOption,
    FormatOption,
    HeaderOption,
    KeysOption,
    MaxPiecesOption,
    SourceOption,
    TargetOption,
    WorkersOption,
)

BUDGET = 30.0  # minutes
ATTENTION = "rela-g"
SEED = 1


def filter_corpus(
    context: typer.Context,
    pairs: Annotated[
        str | None, typer.Argument(metavar="[FILE]", help="Pairs as TSV, JSONL or Parquet; packed or not.")
    ] = None,
    src: SourceOption = None,
    tgt: TargetOption = None,
    model: Annotated[
        Path | None, typer.Option(metavar="MODEL", help="A model directory, or the folder of a finished run.")
    ] = None,
    train: Annotated[bool, typer.Option("--train", help="Train a small scorer on the pairs themselves first.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where kept and rejected rows and the report go. Default: FILE.sieve."),
    ] = None,
    keep: Annotated[float | None, typer.Option(min=0, max=1, help="Keep this share of the scored rows.")] = None,
    threshold: Annotated[
        float | None, typer.Option(help="Keep rows whose score is at least (or, where low is good, at most) this.")
    ] = None,
    top: Annotated[int | None, typer.Option(min=0, help="Keep so many rows, the best.")] = None,
    by: Annotated[
        str, typer.Option(metavar="SCORE", help="By which score of `rela score`; not by length_ratio.")
    ] = "quality",
    budget: Annotated[float, typer.Option(min=0.1, help="With --train: minutes of training.")] = BUDGET,
    tokens: Annotated[
        int | None,
        typer.Option(min=20_000, help="With --train: target tokens of training, in place of --budget."),
    ] = None,
    attention: Annotated[str, typer.Option(help="With --train: the attention of the scorer.")] = ATTENTION,
    languages: Annotated[
        str | None, typer.Option(metavar="A,B", help="With --train: the languages of source and target, such as en,de.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="With --train: of the training.")] = SEED,
    threads: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MOST_THREADS,
            help="With --train: CPU threads of the training; 1 where others use the machine. Default: torch's.",
        ),
    ] = None,
    form: FormatOption = None,
    columns: ColumnsOption = None,
    keys: KeysOption = None,
    header: HeaderOption = False,
    calibrate_on: CalibrateOption = None,
    workers: WorkersOption = None,
    max_pieces: MaxPiecesOption = MAX_PIECES,
    device: DeviceOption = "cpu",
    json_to: JsonOption = None,
) -> None:
    """Keep the good pairs of a corpus.

    Rows that are kept go to DIR/kept.*, as they were. All others go to DIR/rejected.* with a reason, malformed ones
    too: kept, rejected and malformed rows are as many as came in, which is checked. DIR/summary.json has the counts,
    DIR/report.html the distribution of scores and examples, to choose a threshold by. Without --keep, --threshold or
    --top, rows of quality 0.5 and more are kept: those that are more likely good than bad. Cut off at any moment, the
    same command goes on; with another threshold nothing is scored again.
    """
    from rela.cli._filtering import FilterJob, run_filter

    run_filter(
        context,
        FilterJob(
            pairs=pairs,
            src=src,
            tgt=tgt,
            model=model,
            train=train,
            out=out,
            keep=keep,
            threshold=threshold,
            top=top,
            by=by,
            budget=budget,
            tokens=tokens,
            attention=attention,
            languages=languages,
            seed=seed,
            threads=threads,
            form=form,
            columns=columns,
            keys=keys,
            header=header,
            calibrate_on=calibrate_on,
            workers=workers,
            max_pieces=max_pieces,
            device=device,
            json_to=json_to,
        ),
    )
