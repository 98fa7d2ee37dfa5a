"""`rela analyze`: what every head of a model does."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rela.cli._foreign import know_models
from rela.cli._options import (
    BaseOption,
    DeviceOption,
    FlipOption,
    ModelArgument,
    ReplaceOption,
    ThreadsOption,
    TokenisedOption,
)
from rela.cli._output import JsonOption, check_not_input, console_for, write_json
from rela.cli._outputs import check_direction
from rela.cli._usage import replacements_of, told_when_stopped, wrong_use

if TYPE_CHECKING:
    from rich.console import Console

    from rela.analysis.tags import Tagger
    from rela.model.directory import Languages

_TAGGERS = ("hanta",)
_SHOWN = 3
_FEW_PAIRS = 30
_FEW_BATCHES = 4  # of fewer, the short rest of a text is much of it


def analyze(
    model: ModelArgument,
    source: Annotated[Path, typer.Option("--src", metavar="FILE", help="Source sentences, one a line; packed or not.")],
    target: Annotated[Path, typer.Option("--tgt", metavar="FILE", help="Their translations, as many lines.")],
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Where results.json, attention.npz and report.html are written.")
    ],
    compare: Annotated[
        list[Path] | None,
        typer.Option(metavar="MODEL", help="Another model on the same text; repeatable. Seeds of one are averaged."),
    ] = None,
    gold_sure: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Gold links of all lines: 0-0 1-2; possible ones 1p2 or 1?2.")
    ] = None,
    gold_possible: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Possible links, if --gold-sure has the sure ones alone.")
    ] = None,
    base: BaseOption = 0,
    flip: FlipOption = False,
    tags: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Tags of the target's words, a line for each sentence.")
    ] = None,
    tagger: Annotated[
        str | None,
        typer.Option(metavar="NAME", help='Tag the target: hanta (German, English, Dutch; the extra "tags").'),
    ] = None,
    tokenised: TokenisedOption = False,
    replacement: ReplaceOption = None,
    opposite: Annotated[
        Path | None, typer.Option(metavar="MODEL", help="A model of the opposite direction, to symmetrise links with.")
    ] = None,
    hallucinated: Annotated[
        int, typer.Option(min=0, help="Pairs, the first ones, that also run with shuffled targets; 0: none.")
    ] = 5_000,
    ablate: Annotated[
        int, typer.Option(min=0, help="Silence each head in turn on so many pairs: a pass for every head.")
    ] = 0,
    examples: Annotated[
        int,
        typer.Option(min=0, help="Pairs that are kept with all their weights, drawn from those of up to 128 pieces."),
    ] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Of the shuffle, and of the examples that are drawn.")] = 1,
    max_pieces: Annotated[
        int, typer.Option(min=1, max=100_000, help="Pairs with a longer side are left out, and counted.")
    ] = 1024,
    threads: ThreadsOption = None,
    device: DeviceOption = "cpu",
    json_to: JsonOption = None,
) -> None:
    """Measure what every head does, and write a page to look at it.

    Sparsity, null attention, mass, entropy, sinks and distances of every head; how diverse the heads are; word
    alignment against gold links; null rates by tag; whether null rates betray wrong pairs. Memory does not grow with
    the text. An analysis that was cut off goes on when the same command is given again. Figures and tables: rela report
    DIR.
    """
    files = {
        "--src": [source],
        "--tgt": [target],
        "gold links": _given(gold_sure, gold_possible),
        "--tags": _given(tags),
    }
    check_not_input(json_to, "--json", files)
    if gold_possible is not None and gold_sure is None:
        raise typer.BadParameter("--gold-possible: expected --gold-sure as well")
    if gold_sure is None and (flip or base):
        raise typer.BadParameter("--flip and --base: expected --gold-sure as well, since they say how it is written")
    if opposite is not None and gold_sure is None:
        raise typer.BadParameter("--opposite: expected --gold-sure as well, to compare links by")
    if tags is not None and tagger is not None:
        raise typer.BadParameter("--tags and --tagger: expected one of them")
    if tagger is not None and tagger not in _TAGGERS:
        raise typer.BadParameter(f"--tagger: expected {' or '.join(_TAGGERS)}, got {tagger!r}")
    if out.exists() and not out.is_dir():
        raise typer.BadParameter(f"--out: expected a folder, got the file {str(out)!r}")
    import torch

    from rela._device import checked_device
    from rela.analysis.corpus import Corpus, GoldFiles
    from rela.analysis.partial import is_begun
    from rela.analysis.study import StudyOptions, run_study
    from rela.cli._progress import CountProgress
    from rela.text.worded import Wording

    know_models([model, *(compare or []), opposite])
    with wrong_use():
        checked_device(device)
    if threads is not None:
        torch.set_num_threads(threads)
    corpus = Corpus(
        source=source,
        target=target,
        gold=None if gold_sure is None else GoldFiles(sure=gold_sure, possible=gold_possible, base=base, flipped=flip),
        tags=tags if tagger is None else _tagger(model),
        wording=Wording(tokenised=tokenised, replacements=replacements_of(replacement or [])),
        max_pieces=max_pieces,
    )
    options = StudyOptions(
        num_hallucinated=hallucinated, num_ablated=ablate, num_examples=examples, seed=seed, device=device
    )
    console = console_for(json_to)
    check_direction(str(source), _languages(model))

    def how_to_go_on() -> str:
        if is_begun(out):
            return "what was measured is kept, and the same command goes on from there"
        return "nothing was measured yet"

    with (
        told_when_stopped(how_to_go_on),
        CountProgress(console, "pairs") as progress,
    ):
        results = run_study(
            [model, *(compare or [])], corpus, out, options, opposite=opposite, progress=progress.advance
        )
    page = write_report(out)
    _say(results, out, page, console)
    if json_to is not None:
        write_json(results, json_to)


def write_report(folder: Path) -> Path:
    """The page of the results in a folder, beside them."""
    from rela.report.page import write_page
    from rela.report.results import PAGE_FILE, load_results

    return write_page(load_results(folder), folder / PAGE_FILE).path


def _given(*paths: Path | None) -> list[Path]:
    return [path for path in paths if path is not None]


def _languages(model: Path) -> "Languages":
    from rela.model.opening import describe_model

    return describe_model(model).languages


def _tagger(model: Path) -> "Tagger":
    from rela.analysis.tags import HanTaTagger

    with wrong_use("--tagger"):
        return HanTaTagger(_languages(model).target)


def _say(results: dict[str, Any], out: Path, page: Path, console: "Console") -> None:
    """What came out, in a few lines."""
    for entry in results["models"]:
        ratio, batches = entry["cost"]["ratio"], entry["cost"]["batches"]
        cost = "too few batches to tell the cost" if ratio is None else f"{ratio:.2f}x the time of a plain forward pass"
        if 0 < batches < _FEW_BATCHES:
            cost += f" (by {'one batch' if batches == 1 else f'{batches} batches'}: a text this short costs more)"
        pairs = "1 pair" if entry["pairs"] == 1 else f"{entry['pairs']:,} pairs"
        if entry["pairs"] < _FEW_PAIRS:
            pairs += " (so few that what stands out may be chance)"
        console.print(f"{entry['name']}: {pairs}, {cost}")
        for finding in entry["findings"][:_SHOWN]:
            console.print(f"  - {finding['text']}")
    console.print(f"{out}: results.json, attention.npz; figures and tables: rela report {out}")
    console.print(f"look at {page}")
