"""`rela bench train`: a training step of ours beside softmax's, and whole trainings beside JoeyNMT."""

import contextlib
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rela.cli._benching import (
    CELLS,
    QuickOption,
    ResumeBenchOption,
    cells,
    finish,
    parse_attentions,
    points_for,
    set_threads,
    show_table,
    stoppable,
)
from rela.cli._options import ThreadsOption
from rela.cli._output import JsonOption, console_for
from rela.cli._usage import refuse_unused

if TYPE_CHECKING:
    from rich.console import Console

    from rela.bench.train import Round


@stoppable
def train(
    context: typer.Context,
    store: Annotated[
        Path | None,
        typer.Option(
            help="A token store with a joint vocabulary, train and dev. Default: made from --corpus, for this run.",
            show_default=False,
        ),
    ] = None,
    corpus: Annotated[str, typer.Option(help="A corpus by name, for a run without --store.")] = "grammar",
    merges: Annotated[int, typer.Option(min=0, help="Merges of its encoding.")] = 8000,
    step: Annotated[bool, typer.Option(help="A training step beside that of softmax.")] = True,
    step_size: Annotated[str, typer.Option(help="Size of the models of that: base, small or tiny.")] = "base",
    step_tokens: Annotated[int, typer.Option(min=1, help="Places in a batch of that.")] = 2048,
    peer: Annotated[bool, typer.Option(help="Whole trainings beside JoeyNMT's.")] = True,
    joeynmt: Annotated[
        Path | None,
        typer.Option(
            metavar="PYTHON",
            help="The Python of an environment that has joeynmt 2.3.0. Default: one is made at first use.",
            show_default=False,
        ),
    ] = None,
    size: Annotated[str, typer.Option(help="Size of the models beside JoeyNMT's: base, small or tiny.")] = "small",
    attention: Annotated[str, typer.Option(help="Our attention; the peer's is softmax.")] = "rela-g",
    tokens: Annotated[int, typer.Option(min=1, help="Places in a batch, which is an update.")] = 4096,
    updates: Annotated[int, typer.Option(min=20, help="Updates of each run; the first few do not count.")] = 30,
    rounds: Annotated[int, typer.Option(min=5, help="Rounds of steps, and pairs of runs.")] = 5,
    threads: ThreadsOption = None,
    quick: QuickOption = False,
    resume: ResumeBenchOption = False,
    json_to: JsonOption = None,
) -> None:
    """Time a training step of ours beside softmax on torch's kernel, and whole trainings beside JoeyNMT.

    Steps: same batches of real sentences, in turn. Trainings: same pieces, vocabulary, model size, batch size and
    threads, each run in a process of its own; the speed of a run is the median of its log's intervals, the result the
    median of the ratios within a pair. The share of the matrix-multiply peak counts products of real tokens alone.
    """
    parse_attentions(attention)
    if not step and not peer:
        raise typer.BadParameter("--no-step --no-peer: expected one of them, got nothing to measure")
    if not step:
        refuse_unused(context, "--no-step", "step_size", "step_tokens")
    if not peer:
        refuse_unused(context, "--no-peer", "joeynmt", "size", "tokens", "updates")
    if store is not None:
        refuse_unused(context, "--store", "corpus", "merges")
    if quick:
        step_size, step_tokens, size, tokens, updates, merges = "tiny", 256, "tiny", 256, 20, 200

    from rela.bench import machine
    from rela.bench.results import document

    count = set_threads(threads, quick=quick)
    points = points_for(json_to, resume=resume)
    console = console_for(json_to)
    python = _joeynmt(console, joeynmt) if peer else None
    measures: dict[str, dict[str, Any]] = {attention: {}}
    with _store(store, corpus, merges, quick=quick) as folder:
        if step:
            from rela.bench.step import measure_step

            found = measure_step(
                folder,
                [attention],
                size=step_size,
                tokens=step_tokens,
                rounds=rounds,
                points=points,
                on_round=lambda seconds: console.print(
                    "a step: " + ", ".join(f"{name} {1000 * time:,.0f} ms" for name, time in seconds.items())
                ),
            )
            measures = {name: measures.get(name, {}) | found[name] for name in found}
        if python is not None:
            measures[attention] |= _beside_joeynmt(
                console, folder, python, (size, attention, tokens, updates, count), rounds, points
            )
    entries = [{"name": name, "measures": found} for name, found in measures.items()]
    _show(console, entries)
    data = corpus if store is None else store.name
    finish(json_to, points, document("train", machine.describe(), entries, corpus=data))


def _joeynmt(console: "Console", python: Path | None) -> Path:
    """The peer's Python, after a look whether it has what it should."""
    from rela.bench.peers import PEERS, environment, versions

    found = environment(PEERS["joeynmt"], tell=console.print) if python is None else python
    versions(PEERS["joeynmt"], found.absolute())
    return found


@contextlib.contextmanager
def _store(store: Path | None, corpus: str, merges: int, *, quick: bool) -> Generator[Path]:
    """The store that is given, or one that is made for the time of the run."""
    if store is not None:
        yield store
        return
    from rela.text.corpora import fetch
    from rela.text.grammar import write_corpus
    from rela.text.prepare import PrepareOptions, prepare
    from rela.text.readers import PairSource

    with tempfile.TemporaryDirectory() as name:
        folder, languages = Path(name), ("en", "de")
        if quick:
            write_corpus(folder / "corpus", counts={"train": 300, "dev": 10})
            splits = {
                split: [PairSource.files(*(folder / "corpus" / f"{split}.{language}" for language in languages))]
                for split in ("train", "dev")
            }
        else:
            found = fetch(corpus, splits=["train", "dev"])
            languages, splits = (found.source_language, found.target_language), found.splits
        prepare(splits, languages, folder / "store", PrepareOptions(merges=merges))
        yield folder / "store"


def _beside_joeynmt(
    console: "Console", folder: Path, python: Path, facts: tuple[str, str, int, int, int], rounds: int, points: Any
) -> dict[str, Any]:
    from rela.bench.train import TrainSetting, measure_pairs

    size, attention, tokens, updates, threads = facts
    setting = TrainSetting(
        store=folder, size=size, attention=attention, tokens=tokens, updates=updates, threads=threads
    )

    def show(found: "Round") -> None:
        console.print(f"rela {found.ours:,.0f}, JoeyNMT {found.peer:,.0f} target tokens/s: {found.ratio:.2f}x")

    return measure_pairs(setting, python, rounds=rounds, points=points, on_round=show)


def _show(console: "Console", entries: list[dict[str, Any]]) -> None:
    rows: list[list[str]] = []
    for entry in entries:
        for name, found in entry["measures"].items():
            if found["axes"]:
                continue
            listed = {key: [found[key]] for key in ("value", "low", "high", "target") if key in found}
            rows.append([entry["name"], name.removeprefix("train."), *cells(listed, 0, "x" if "over" in name else "")])
    show_table(console, "training", ["attention", "measure", *CELLS], rows)
    for signature in dict.fromkeys(found["signature"] for entry in entries for found in entry["measures"].values()):
        console.print(signature, style="dim")
