"""`rela translate`: text in one language to text in another."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from rela._streams import check_standard_output, has_standard_output
from rela.cli._options import DeviceOption, ResumeOption, ThreadsOption
from rela.cli._output import STDOUT, JsonOption, check_not_input, console_for
from rela.cli._outputs import check_output


def translate(
    model: Annotated[Path, typer.Option(help="A model directory, or the folder of a finished run.")],
    source: Annotated[
        str, typer.Argument(metavar="[FILE]", help="Text, a sentence a line; packed or not; - is standard input.")
    ] = "-",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", callback=check_output, help="Write here, whole or not at all, not to standard output."
        ),
    ] = None,
    beam: Annotated[int, typer.Option(min=1, help="Beams; 1 is greedy.")] = 4,
    length_penalty: Annotated[float, typer.Option(min=0, max=10, help="Exponent of GNMT's length penalty.")] = 0.6,
    min_length: Annotated[int, typer.Option(min=0, help="Fewest tokens of a translation, its end among them.")] = 0,
    max_length: Annotated[
        int | None,
        typer.Option(min=1, help="Most tokens; then it is cut off. Default: twice those of the source, and 20 more."),
    ] = None,
    nbest: Annotated[int, typer.Option(min=1, help="Print so many lines for each: number, tab, score, tab, text.")] = 1,
    align: Annotated[
        bool,
        typer.Option("--alignments", "--align", help="After each translation a tab and its word links: 0-0 1-2."),
    ] = False,
    window: Annotated[
        int | None,
        typer.Option(min=1, help="Sentences that are read and sorted together. Default: 1 on a terminal, else 2048."),
    ] = None,
    max_source: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="Longer sources, in pieces, are cut, with a warning.")
    ] = 1024,
    resume: ResumeOption = False,
    threads: ThreadsOption = None,
    device: DeviceOption = "cpu",
    precision: Annotated[
        Literal["fp32", "int8"],
        typer.Option(help="Of the weights; int8 is faster, and rounds them (CPU, native decoder)."),
    ] = "fp32",
    json_to: JsonOption = None,
) -> None:
    """Translate line by line.

    Every line of input gives a line of output, or as many as --nbest says; those of an empty line are empty. The same
    input gives the same output every time: sentences are grouped by length in windows of fixed size, never by time.
    """
    from rela.cli._translating import Job, run_job

    if nbest > beam:
        raise typer.BadParameter(f"--nbest: expected at most --beam {beam}, got {nbest}")
    if max_length is not None and max_length < min_length:
        raise typer.BadParameter(f"--max-length: expected at least --min-length {min_length}, got {max_length}")
    if resume and output is None:
        raise typer.BadParameter("--resume: expected --output FILE as well")
    if resume and json_to is not None:
        raise typer.BadParameter("--resume: expected no --json, which would miss what was translated before")
    check_not_input(output, "--output", {"FILE": [source], "--json": [json_to or STDOUT]})
    check_not_input(json_to, "--json", {"FILE": [source]})
    if output is None or json_to == STDOUT:
        check_standard_output()
    job = Job(
        model=model,
        source=source,
        output=output,
        beam=beam,
        length_penalty=length_penalty,
        min_length=min_length,
        max_length=max_length,
        nbest=nbest,
        align=align,
        window=window,
        max_source=max_source,
        resume=resume,
        threads=threads,
        device=device,
        precision=precision,
        json_to=json_to,
    )
    console = console_for(json_to)
    console.quiet |= not has_standard_output()  # which then has no part in this
    run_job(job, console)
