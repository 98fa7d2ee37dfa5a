"""`rela score`: how good are sentence pairs?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rela._files import ending_of
from rela._streams import check_standard_output
from rela.cli._options import DeviceOption, ModelArgument
from rela.cli._output import STDOUT, check_destination, check_not_input, check_not_standard_output
from rela.cli._outputs import check_output, check_packing
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
from rela.cli._usage import refuse_unused


def score(
    context: typer.Context,
    model: ModelArgument,
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE]...",
            help="Pairs as TSV, JSONL or Parquet; packed or not; - is standard input. With --engine ray any number of "
            "files, folders, patterns and addresses such as s3://bucket/folder.",
        ),
    ] = None,
    src: SourceOption = None,
    tgt: TargetOption = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            callback=check_output,
            help="Write here, whole or not at all; .jsonl and .parquet say the format, .gz, .xz, .zst the packing.",
        ),
    ] = None,
    form: FormatOption = None,
    columns: ColumnsOption = None,
    keys: KeysOption = None,
    header: HeaderOption = False,
    spans: Annotated[
        bool, typer.Option("--spans", help="One more column: the suspicious words of each target.")
    ] = False,
    calibrate_on: CalibrateOption = None,
    save_calibration: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep what was learned about quality, for --calibrate-on.")
    ] = None,
    workers: WorkersOption = None,
    max_pieces: MaxPiecesOption = MAX_PIECES,
    device: DeviceOption = "cpu",
    json_to: Annotated[
        str | None,
        typer.Option(
            "--json",
            metavar="FILE",
            callback=check_destination,
            help="Write an object a row to FILE, or to standard output when FILE is -; in place of TSV.",
            show_default=False,
        ),
    ] = None,
    engine: Annotated[
        str, typer.Option(metavar="NAME", help="local: this machine; ray: a Ray cluster, or this machine if none.")
    ] = "local",
    out: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Of --engine ray: write parts here; a path or an address.")
    ] = None,
    parts: Annotated[
        str | None,
        typer.Option(metavar="FORMAT", help="Of --engine ray: tsv, jsonl or parquet. Default: the shard's."),
    ] = None,
    address: Annotated[
        str | None, typer.Option(help="Of --engine ray: of a cluster. Default: RAY_ADDRESS, else one on this machine.")
    ] = None,
) -> None:
    """Score sentence pairs by what a model finds out when it is made to translate them.

    All rows come out in the order in which they came in, with columns added: null_rate, null_rate_matching,
    cross_entropy, surprise, coverage, null_run, length_ratio, quality (docs/sieve.md has their formulas), and problem,
    which says why a row has no scores. Quality is from 0 to 1, high is good. The same input gives the same bytes,
    whatever the number of workers. Cut off at any moment, the same command goes on, if input and output are files.

    With --engine ray many files are scored on many machines, into a folder of parts (docs/scaling.md).
    """
    from rela.cli._ray import RayJob, run_on_ray
    from rela.cli._score import ScoreJob, run_score
    from rela.cli._scoring import files_read

    if engine not in ("local", "ray"):
        raise typer.BadParameter(f"--engine: expected local or ray, got {engine!r}")
    if engine == "ray":
        refuse_unused(context, "--engine ray", "src", "tgt", "output", "json_to", "device")
        if not files or out is None:
            raise typer.BadParameter("--engine ray: expected files to score, and --out FOLDER for what comes out")
        run_on_ray(
            RayJob(
                model=model,
                inputs=files,
                out=out,
                parts=parts,
                form=form,
                columns=columns,
                keys=keys,
                header=header,
                spans=spans,
                calibrate_on=calibrate_on,
                save_calibration=save_calibration,
                workers=workers,
                max_pieces=max_pieces,
                address=address,
            )
        )
        return
    refuse_unused(context, "--engine local", "out", "parts", "address")
    if files is not None and len(files) > 1:
        raise typer.BadParameter(f"expected one file, got {len(files)}; --engine ray takes more")
    pairs = files[0] if files else None
    if output is not None and json_to is not None:
        raise typer.BadParameter("expected --output or --json, got both; a name that ends in .jsonl says the same")
    read = files_read((STDOUT if pairs is None and src is None else pairs, src, tgt), calibrate_on, model)
    check_not_input(output, "--output", read)
    check_not_input(json_to, "--json", read)
    to_stdout = output is None and json_to in (None, STDOUT)
    if to_stdout:
        check_standard_output()
        check_not_standard_output(read)
    check_packing(output, "--output")
    if output is not None and ending_of(output).lower() == "json":
        raise typer.BadParameter(
            f"--output: expected a name that ends in .jsonl for an object a row, got {str(output)!r}"
        )
    if json_to is not None and ending_of(json_to).lower() == "parquet":
        raise typer.BadParameter(f"--json: expected a file of JSON lines, got {json_to!r}; --output writes tables")
    run_score(
        ScoreJob(
            model=model,
            pairs=pairs,
            src=src,
            tgt=tgt,
            output=None if to_stdout else output or Path(str(json_to)),
            form=form,
            columns=columns,
            keys=keys,
            header=header,
            spans=spans,
            calibrate_on=calibrate_on,
            save_calibration=save_calibration,
            workers=workers,
            max_pieces=max_pieces,
            device=device,
            as_json=json_to is not None,
        )
    )
