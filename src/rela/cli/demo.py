"""`rela demo`: the whole system in minutes, without a download."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rela.cli._options import ThreadsOption
from rela.cli._output import JsonOption, console_for, write_json
from rela.cli._usage import told_when_stopped, wrong_use

if TYPE_CHECKING:
    from rich.text import Text

    from rela.experiments.demo import DemoResult, Shown

EXAMPLE = "The teacher does not repair the old car."
"""In words that the grammar has: others are unknown to the model."""


def demo(
    attention: Annotated[
        str, typer.Option(help="Any attention of the library: rela-g, softmax, sparsemax ...")
    ] = "rela-g",
    run: Annotated[
        Path | None, typer.Option(help="Where to work. Default: runs/demo- and the attention.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the training.")] = 1,
    threads: ThreadsOption = None,
    json_to: JsonOption = None,
) -> None:
    """Make a bilingual corpus, train a small model on it, translate, evaluate, look inside: minutes on a laptop.

    The sentences come from a built-in English-German grammar. `test` has sentences that were never seen,
    `test-compositional` words in roles and frames in which they were never seen.
    """
    from rela.attention.spec import resolve

    with wrong_use("--attention"):
        resolve(attention)
    import torch

    from rela.cli._progress import TrainingProgress
    from rela.experiments.demo import run_demo
    from rela.training.signals import InterruptedRunError

    if threads is not None:
        torch.set_num_threads(threads)
    folder = run or Path("runs") / f"demo-{attention.replace('+', '-')}"
    console = console_for(json_to, goes_on=True)
    try:
        with (
            told_when_stopped(lambda: "the same command goes on from here", InterruptedRunError),
            TrainingProgress(console) as progress,
        ):
            result = run_demo(folder, attention, progress, console.print, seed=seed)
    except InterruptedRunError as error:
        raise typer.Exit(128 + error.signal_number) from None  # as shells have it
    if json_to is not None:
        write_json(result.to_json(attention), json_to)
    _show(console, result, attention)


def _show(console: Any, result: "DemoResult", attention: str) -> None:
    from rich.table import Table

    console.print()
    for shown in result.shown:
        console.print(_lines(shown))
    table = Table(title=f"{attention}, {result.parameters:,} parameters, {result.seconds:.0f} seconds in all")
    table.add_column("test set", no_wrap=True)
    table.add_column("BLEU", justify="right")
    table.add_column("95% interval", justify="right")
    names = {"test": "test: unseen sentences", "test-compositional": "test-compositional: unseen combinations"}
    for split, score in result.bleu.items():
        interval = "" if score.interval is None else f"{score.interval.mean:.1f} ± {score.interval.half_width:.1f}"
        table.add_row(names[split], f"{score.score:.1f}", interval)
    console.print(table)
    console.print(
        f"word alignment error rate on test: {result.aer:.1%} (cross-attention, "
        f"{result.aligned_by}; gold links by construction)"
    )
    console.print("\nWhat its heads do")
    for finding in result.findings:
        console.print(f"  - {finding}", markup=False)
    console.print(f"All of it, head by head and sentence by sentence: open {result.report} in a browser", markup=False)
    model = result.model
    console.print(
        f"\nWhat to do next\n"
        f"  translate:    echo {EXAMPLE!r} | rela translate --model {model} --alignments\n"
        f"  compare:      rela demo --attention {'rela-g' if attention == 'softmax' else 'softmax'}\n"
        f"  real data:    rela prepare runs/multi30k-store --corpus multi30k-en-de --merges 5000\n"
        f"                rela train configs/multi30k.yaml",
    )


def _lines(shown: "Shown") -> "Text":
    from rich.text import Text

    source, target, links = shown.alignment
    pairs = "  ".join(f"{source[i]}-{target[j]}" for i, j in links)
    lines = [f"  {shown.source}\n  ", (shown.translation, "bold"), "\n"]
    if shown.translation != shown.reference:
        lines += ["  ", ("expected", "dim"), f"  {shown.reference}\n"]
    return Text.assemble(*lines, (f"  {pairs}\n", "dim"))
