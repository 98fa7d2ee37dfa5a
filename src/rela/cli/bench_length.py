"""`rela bench length`: decoding speed by the length of the source."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rela.cli._benching import (
    QuickOption,
    ResumeBenchOption,
    RoundsOption,
    finish,
    parse_attentions,
    points_for,
    set_threads,
    show_table,
    stoppable,
)
from rela.cli._options import ThreadsOption
from rela.cli._output import JsonOption, check_not_input, console_for

if TYPE_CHECKING:
    from rich.console import Console

    from rela.bench.length import Decoder

_LEARNED_PAIRS = 20_000
_QUICK_GROUPS = 5


@stoppable
def length(
    models: Annotated[
        list[Path] | None,
        typer.Option("--model", metavar="DIR", help="A trained model; repeat it, softmax among them."),
    ] = None,
    attentions: Annotated[
        str, typer.Option(help="Without --model: untrained models of these, softmax among them, by commas.")
    ] = "softmax,sparsemax,entmax15,rela-g",
    size: Annotated[str, typer.Option(help="Size of untrained models: base, small or tiny.")] = "small",
    merges: Annotated[int, typer.Option(min=0, help="Merges of the encoding of untrained models.")] = 8000,
    corpus: Annotated[str, typer.Option(help="A corpus by name; its test split is translated.")] = "grammar",
    source: Annotated[
        Path | None, typer.Option("--src", metavar="FILE", help="Sentences instead of a corpus.", show_default=False)
    ] = None,
    target: Annotated[
        Path | None, typer.Option("--tgt", metavar="FILE", help="Their translations.", show_default=False)
    ] = None,
    sentences: Annotated[int, typer.Option(min=10, help="So many of the first sentences.")] = 300,
    beam: Annotated[int, typer.Option(min=1, help="Beams.")] = 4,
    rounds: RoundsOption = 5,
    threads: ThreadsOption = None,
    quick: QuickOption = False,
    resume: ResumeBenchOption = False,
    json_to: JsonOption = None,
) -> None:
    """Time decoding by ten groups of source length, each attention beside softmax: the paper's figure 2.

    Untrained models translate every batch into as many pieces as its references have on average, so that all do the
    same work; trained ones translate as they would. `rela report RESULTS --bench FILE` draws the figure.
    """
    from rela.model.config import SIZES

    if (source is None) != (target is None):
        raise typer.BadParameter("--src and --tgt: expected both or neither")
    if size not in SIZES:
        raise typer.BadParameter(f"--size: expected one of {', '.join(SIZES)}, got {size!r}")
    names = parse_attentions(attentions)
    if not models:
        _check_baseline("--attentions", names)
    check_not_input(json_to, "--json", {"--src": [source] if source else [], "--tgt": [target] if target else []})
    if quick:
        size, sentences, rounds, merges = "tiny", 10, 3, 200

    from rela.bench import machine
    from rela.bench.length import GROUPS, Decoder, measure_lengths
    from rela.bench.results import document
    from rela.bench.texts import corpus_pairs, data_name, read_text_pairs

    count = set_threads(threads, quick=quick)
    points = points_for(json_to, resume=resume)
    console = console_for(json_to)
    if source and target:
        pairs, learned, data = read_text_pairs(source, target, sentences), None, data_name(source)
    else:
        pairs, learned, data = corpus_pairs(corpus, "test", sentences), None if quick else corpus, corpus
    decoders: list[Decoder]
    if models:
        decoders = _trained(models)
        _check_baseline("--model", [decoder.name for decoder in decoders])
        recipe = f"data:{data}|sentences:{len(pairs)}|trained"
    else:
        texts = pairs if learned is None else corpus_pairs(learned, "train", _LEARNED_PAIRS)
        decoders = _untrained(names, size, texts, merges)
        vocabulary = decoders[0].tokenizers.target.size
        recipe = f"data:{data}|sentences:{len(pairs)}|untrained|size:{size}|vocabulary:{vocabulary}"

    def show(label: str, speeds: dict[str, Any]) -> None:
        console.print(f"{label}: " + ", ".join(f"{name} {one['median']:.2f}x" for name, one in speeds.items()))

    entries = measure_lengths(
        decoders,
        pairs,
        beam=beam,
        forced=not models,
        rounds=rounds,
        count=_QUICK_GROUPS if quick else GROUPS,
        recipe=f"{recipe}|threads:{count}|dtype:float32|device:cpu|kernel:{machine.kernel_name()}",
        points=points,
        on_group=show,
    )
    _show(console, entries)
    finish(json_to, points, document("length", machine.describe(), entries, corpus=data, sentences=len(pairs)))


def _check_baseline(option: str, names: list[str]) -> None:
    from rela.bench.length import BASELINE

    if BASELINE not in names:
        raise typer.BadParameter(
            f"{option}: expected {BASELINE} among them, since the speeds of the others are beside it; "
            f"got {', '.join(names)}; add {BASELINE}"
        )


def _trained(folders: list[Path]) -> "list[Decoder]":
    from rela.bench.length import Decoder
    from rela.model.directory import load_model

    found: list[Decoder] = []
    for folder in folders:
        loaded = load_model(folder)
        name = loaded.model.config.attention.label
        if name in [decoder.name for decoder in found]:
            raise typer.BadParameter(f"--model: expected models of different attentions, got {name} twice")
        found.append(Decoder(name=name, model=loaded.model.eval(), tokenizers=loaded.tokenizers))
    if found and any(one.tokenizers.source.size != found[0].tokenizers.source.size for one in found):
        raise typer.BadParameter("--model: expected models with the same encoding, got other numbers of pieces")
    return found


def _untrained(names: list[str], size: str, texts: list[tuple[str, str]], merges: int) -> "list[Decoder]":
    from rela.bench.forcing import random_model
    from rela.bench.length import Decoder
    from rela.text.store import Tokenizers
    from rela.text.subwords import Subwords

    subwords = Subwords.train((text for pair in texts for text in pair), merges)
    tokenizers = Tokenizers(subwords, subwords)
    return [Decoder(name=name, model=random_model(name, size, subwords.size), tokenizers=tokenizers) for name in names]


def _show(console: "Console", entries: list[dict[str, Any]]) -> None:
    labels = entries[0]["measures"]["decode.speed"]["labels"]["length"]
    rows = [
        [label, *(f"{entry['measures']['decode.speed']['value'][place]:.2f}x" for entry in entries)]
        for place, label in enumerate(labels)
    ]
    rows.append(["mean", *(f"{entry['measures']['decode.speed.mean']['value']:.2f}x" for entry in entries)])
    show_table(
        console,
        "sentences a second, softmax = 1",
        ["pieces of the source", *(entry["name"] for entry in entries)],
        rows,
    )
    console.print(entries[-1]["measures"]["decode.speed"]["signature"], style="dim")
