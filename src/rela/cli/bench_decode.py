"""`rela bench decode`: our decoder beside CTranslate2 and Hugging Face transformers."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rela.cli._benching import (
    CELLS,
    QuickOption,
    ResumeBenchOption,
    RoundsOption,
    cells,
    finish,
    parse_attentions,
    parse_numbers,
    points_for,
    set_threads,
    show_table,
    stoppable,
)
from rela.cli._options import ThreadsOption
from rela.cli._output import JsonOption, console_for

if TYPE_CHECKING:
    from rich.console import Console

    from rela.bench.decode import Contestant

_QUICK_VOCABULARY = 1000
_LABELS = {"fp32": "float32", "int8": "int8"}
"""Names of precisions in results, where peers have the same ones, by those of options."""


@stoppable
def decode(
    size: Annotated[str, typer.Option(help="Size of the models: base, small or tiny.")] = "base",
    vocabulary: Annotated[int, typer.Option(min=300, help="Pieces of the vocabulary.")] = 32_000,
    beam: Annotated[int, typer.Option(min=1, help="Beams.")] = 4,
    length: Annotated[int, typer.Option(min=1, help="Pieces of every translation.")] = 30,
    source_length: Annotated[int, typer.Option(min=1, help="Pieces of every source.")] = 25,
    batches: Annotated[str, typer.Option(help="Sentences in a batch, separated by commas.")] = "1,16",
    attentions: Annotated[str, typer.Option(help="Our attentions, separated by commas.")] = "rela-g,softmax",
    precisions: Annotated[str, typer.Option(help="Ours: fp32, int8 or both.")] = "fp32,int8",
    peers: Annotated[
        str, typer.Option(help="ctranslate2, transformers, or both, each installed at first use; or none.")
    ] = "ctranslate2,transformers",
    environments: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where the peers' environments are. Default: the cache.", show_default=False),
    ] = None,
    rounds: RoundsOption = 7,
    threads: ThreadsOption = None,
    quick: QuickOption = False,
    resume: ResumeBenchOption = False,
    json_to: JsonOption = None,
) -> None:
    """Time decoding of a fixed number of steps beside CTranslate2 and Hugging Face's generate.

    All have the same sizes, random weights, beam and threads, and CTranslate2 runs with one thread too; each is a
    process of its own, from PyPI in an environment of its own, and they take turns: a round is one call of each. The
    read bandwidth of the machine is measured too: unless its weights stay in a cache, a batch of one sentence cannot be
    faster than they come from memory.
    """
    from rela.model.config import SIZES

    names, sizes = parse_attentions(attentions), parse_numbers("--batches", batches, "1,16")
    if size not in SIZES:
        raise typer.BadParameter(f"--size: expected one of {', '.join(SIZES)}, got {size!r}")
    wanted = [_LABELS[name] for name in _parse("--precisions", precisions, tuple(_LABELS))]
    others = [] if peers == "none" else _parse("--peers", peers, ("ctranslate2", "transformers"))
    if quick:
        size, vocabulary, length, source_length, rounds, sizes = "tiny", _QUICK_VOCABULARY, 6, 5, 3, sizes[:1]

    from rela.bench import machine
    from rela.bench.decode import DecodeSetting, measure_decoding
    from rela.bench.results import document

    count = set_threads(threads, quick=quick)
    points = points_for(json_to, resume=resume)
    console = console_for(json_to)
    bandwidth = machine.read_bandwidth(seconds=0.2 if quick else 2.0)
    facts = machine.describe() | {
        "read_gb_per_second": bandwidth / 1e9,
        "gflops": machine.matmul_peak(2048, 512, 2048, seconds=0.2 if quick else 1.0) / 1e9,
    }
    console.print(f"reads {bandwidth / 1e9:.1f} GB/s; matrix products {facts['gflops']:.0f} GFLOP/s; {count} threads")
    setting = DecodeSetting(
        size=size, vocabulary=vocabulary, beam=beam, length=length, source_length=source_length, threads=count
    )
    entries = measure_decoding(
        setting,
        [*_ours(names, wanted), *_peers(console, others, environments, count)],
        sizes,
        rounds=rounds,
        bandwidth=bandwidth,
        points=points,
        on_run=lambda worker, seconds: console.print(f"{worker.name}: {1000 * seconds / length:.2f} ms a step"),
    )
    _show(console, entries)
    weights = setting.weights_read()
    finish(json_to, points, document("decode", facts, entries, weights_read=weights, steps=length))


def _parse(option: str, text: str, known: tuple[str, ...]) -> list[str]:
    found = [part.strip() for part in text.split(",")]
    if unknown := [part for part in found if part not in known]:
        raise typer.BadParameter(f"{option}: expected some of {', '.join(known)}, got {', '.join(unknown)}")
    return list(dict.fromkeys(found))


def _ours(names: list[str], precisions: list[str]) -> "list[Contestant]":
    from rela.bench.decode import Contestant

    return [
        Contestant(name=name, precision=precision, script="rela_worker.py", more={"attention": name})
        for precision in precisions
        for name in names
    ]


def _peers(console: "Console", names: list[str], folder: Path | None, threads: int) -> "list[Contestant]":
    """CTranslate2 also with one thread: on some machines the second makes it slower."""
    from rela.bench.decode import CTRANSLATE2, PEER_PRECISIONS, SCRIPTS, Contestant
    from rela.bench.peers import PEERS, environment, versions

    found: list[Contestant] = []
    for name in names:
        python = environment(PEERS[name], folder, tell=console.print)
        installed = versions(PEERS[name], python)
        found += [
            Contestant(
                name=name, precision=precision, script=SCRIPTS[name], python=python, versions=installed, threads=own
            )
            for precision in PEER_PRECISIONS[name]
            for own in ((None, 1) if name == CTRANSLATE2 and threads > 1 else (None,))
        ]
    return found


def _show(console: "Console", entries: list[dict[str, Any]]) -> None:
    rows: list[list[str]] = []
    for entry in entries:
        steps = entry["measures"]["decode.step_ms"]
        share = entry["measures"].get("decode.bandwidth_share")
        for place, batch in enumerate(steps["labels"]["batch"]):
            reached = f"{share['value']:.0%}" if share is not None and batch == "1" else "-"
            rows.append([entry["name"], batch, *cells(steps, place, " ms")[:2], reached])
    columns = ["who", "batch", "a step", "quartiles", "of the\nbandwidth"]
    show_table(console, "milliseconds a step", columns, rows)
    rows = []
    for entry in entries:
        for name, found in entry["measures"].items():
            _, over, other = name.partition("over.")
            who = f"{entry['name']} / {'best ' if 'best' in name else ''}{other}"
            rows += [
                [who, batch, *cells(found, place)]
                for place, batch in enumerate(found["labels"].get("batch", []))
                if over
            ]
    if rows:
        show_table(console, "times as fast", ["who", "B", *CELLS], rows)
    console.print(entries[0]["measures"]["decode.step_ms"]["signature"], style="dim")
