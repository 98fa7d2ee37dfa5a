"""`rela align`: word links of sentence pairs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from rela._streams import check_standard_output, has_standard_output
from rela.cli._options import (
    BaseOption,
    DeviceOption,
    FlipOption,
    ModelArgument,
    ReplaceOption,
    ResumeOption,
    ThreadsOption,
    TokenisedOption,
)
from rela.cli._output import STDOUT, JsonOption, check_not_input, console_for
from rela.cli._outputs import check_output
from rela.cli._usage import replacements_of

if TYPE_CHECKING:
    from rela.alignment.batched import Rule
    from rela.alignment.symmetrise import Method

MEAN = "mean"
_RULES = ("merged", "any")
_METHODS = ("intersection", "union", "grow-diag-final-and")


def align(
    model: ModelArgument,
    source: Annotated[str, typer.Option("--src", metavar="FILE", help="Source sentences, one a line; packed or not.")],
    target: Annotated[str, typer.Option("--tgt", metavar="FILE", help="Their translations, as many lines.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", callback=check_output, help="Write here, whole or not at all, not to standard output."
        ),
    ] = None,
    layer: Annotated[
        int | None, typer.Option(min=1, help="Decoder layer, from 1. Default: what is remembered.")
    ] = None,
    head: Annotated[
        str | None,
        typer.Option(metavar="N|mean", help="Head, from 0, or the mean over all. Default: what is remembered."),
    ] = None,
    shift: Annotated[
        bool | None,
        typer.Option(
            "--shift/--no-shift",
            help="A word's row is the one that has it as its input, or the one that predicts it. Default: what is "
            "remembered.",
        ),
    ] = None,
    rule: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="merged: the source word of largest weight; any: all whose pieces a piece of the word is linked to. "
            "Default: what is remembered, or merged.",
        ),
    ] = None,
    best_on: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Gold links of the first lines: take the layer, head, shift and rule with the lowest error rate, and "
            "remember them in MODEL. Those that are given stay.",
        ),
    ] = None,
    best_possible: Annotated[
        str | None, typer.Option(metavar="FILE", help="Possible links, if --best-on has the sure ones alone.")
    ] = None,
    gold_sure: Annotated[
        str | None, typer.Option(metavar="FILE", help="Gold links of all lines, to count errors by.")
    ] = None,
    gold_possible: Annotated[
        str | None, typer.Option(metavar="FILE", help="Possible links, if --gold-sure has the sure ones alone.")
    ] = None,
    base: BaseOption = 0,
    flip: FlipOption = False,
    tokenised: TokenisedOption = False,
    replacement: ReplaceOption = None,
    opposite: Annotated[
        Path | None, typer.Option(metavar="MODEL", help="A model of the opposite direction, for --symmetrise.")
    ] = None,
    symmetrise: Annotated[
        str | None, typer.Option(metavar="METHOD", help="intersection, union or grow-diag-final-and, with --opposite.")
    ] = None,
    matrix: Annotated[
        bool, typer.Option("--matrix", help="Weights between words, not links: a JSON object a line.")
    ] = False,
    max_pieces: Annotated[
        int, typer.Option(min=1, max=100_000, help="Words behind so many pieces of a side have no links, with a note.")
    ] = 1024,
    resume: ResumeOption = False,
    threads: ThreadsOption = None,
    device: DeviceOption = "cpu",
    json_to: JsonOption = None,
) -> None:
    """Link the words of sentences and their translations, by a model's cross-attention.

    Every pair of lines gives a line of links, source word-target word, both counted from 0: 0-0 1-2. Those of an empty
    line are none. Scores against gold links, each with its signature, go to standard error; --json has them too, and
    what was chosen, but not the links.
    """
    from rela.cli._aligning import Job, run_job

    golds = [path for path in (best_on, best_possible, gold_sure, gold_possible) if path is not None]
    _check(best_on, best_possible, gold_sure, gold_possible, base, flip, opposite, symmetrise, matrix, rule)
    if STDOUT in (*golds, *((source, target) if best_on is not None else ())):
        raise typer.BadParameter("expected files for gold links and, with --best-on, for --src and --tgt, got -")
    if source == target:
        raise typer.BadParameter(f"--src and --tgt: expected two files, got {source!r} for both")
    if resume and output is None:
        raise typer.BadParameter("--resume: expected --output FILE as well")
    if resume and (json_to is not None or gold_sure is not None):
        raise typer.BadParameter(
            "--resume: expected no --json and no --gold-sure, which would miss what was aligned before"
        )
    if json_to == STDOUT and output is None:
        raise typer.BadParameter("--json: expected --output FILE as well as -, since standard output has the links")
    inputs = {"--src": [source], "--tgt": [target], "gold links": golds}
    check_not_input(output, "--output", {**inputs, "--json": [json_to or STDOUT]})
    check_not_input(json_to, "--json", inputs)
    if output is None or json_to == STDOUT:
        check_standard_output()
    job = Job(
        model=model,
        source=source,
        target=target,
        output=output,
        layer=layer,
        head=_head(head),
        shifted=shift,
        rule=cast("Rule | None", rule),
        best_on=best_on,
        best_possible=best_possible,
        gold_sure=gold_sure,
        gold_possible=gold_possible,
        base=base,
        flip=flip,
        tokenised=tokenised,
        replacements=replacements_of(replacement or []),
        opposite=opposite,
        symmetrise=cast("Method | None", symmetrise),
        matrix=matrix,
        max_pieces=max_pieces,
        resume=resume,
        threads=threads,
        device=device,
        json_to=json_to,
    )
    console = console_for(json_to)
    console.quiet |= not has_standard_output()
    run_job(job, console)


def _check(
    best_on: str | None,
    best_possible: str | None,
    gold_sure: str | None,
    gold_possible: str | None,
    base: int,
    flip: bool,
    opposite: Path | None,
    symmetrise: str | None,
    matrix: bool,
    rule: str | None,
) -> None:
    """Options that need each other, or exclude each other."""
    if best_possible is not None and best_on is None:
        raise typer.BadParameter("--best-possible: expected --best-on FILE as well")
    if gold_possible is not None and gold_sure is None:
        raise typer.BadParameter("--gold-possible: expected --gold-sure FILE as well")
    if (base or flip) and best_on is None and gold_sure is None:
        raise typer.BadParameter(
            "--base and --flip: expected --best-on or --gold-sure as well, whose files they describe"
        )
    if (opposite is None) != (symmetrise is None):
        raise typer.BadParameter("expected --opposite MODEL and --symmetrise METHOD together, got one of them")
    for option, value, known in (("--rule", rule, _RULES), ("--symmetrise", symmetrise, _METHODS)):
        if value is not None and value not in known:
            raise typer.BadParameter(f"{option}: expected {', '.join(known[:-1])} or {known[-1]}, got {value!r}")
    if matrix and (rule is not None or opposite is not None or gold_sure is not None):
        raise typer.BadParameter("--matrix: expected no --rule, --opposite or --gold-sure, which are about links")


def _head(text: str | None) -> int | str | None:
    if text is None or text == MEAN:
        return text
    if not text.isdecimal():
        raise typer.BadParameter(f"--head: expected a number from 0, or {MEAN}, got {text!r}")
    return int(text)
