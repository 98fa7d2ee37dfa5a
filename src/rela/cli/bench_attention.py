"""`rela bench attention`: ReLU attention beside torch's kernel, and every attention beside torch's module."""

from collections.abc import Sequence
from dataclasses import asdict
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
    progress,
    set_threads,
    show_table,
    stoppable,
)
from rela.cli._options import ThreadsOption
from rela.cli._output import JsonOption, check_not_input, console_for
from rela.cli._usage import refuse_unused

if TYPE_CHECKING:
    from rich.console import Console

    from rela.bench.attention import Setting
    from rela.bench.results import Points
    from rela.bench.traces import Trace

_LONGEST_SUBLAYER = 1024
_QUICK_LENGTHS = [32, 128]


@stoppable
def attention(
    context: typer.Context,
    lengths: Annotated[
        str | None,
        typer.Option(
            help="Lengths, separated by commas. Default: 32 to 8192 for the core, 128 for the sublayer.",
            show_default=False,
        ),
    ] = None,
    core: Annotated[
        bool, typer.Option(help="ReLU attention itself, against F.scaled_dot_product_attention and entmax15.")
    ] = True,
    sublayer: Annotated[
        bool, typer.Option(help="Every attention's whole sublayer, against torch.nn.MultiheadAttention.")
    ] = True,
    model: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="The core also on queries, keys and values of this model, trained by us, on real sentences.",
            show_default=False,
        ),
    ] = None,
    source: Annotated[
        Path | None, typer.Option("--src", metavar="FILE", help="Sentences for --model. Default: the built-in corpus.")
    ] = None,
    target: Annotated[Path | None, typer.Option("--tgt", metavar="FILE", help="Their translations.")] = None,
    tokens: Annotated[int, typer.Option(min=1, help="Tokens in a batch of the sublayer, whatever the length.")] = 2048,
    dim: Annotated[int, typer.Option(min=1, help="Model size of the sublayer.")] = 512,
    heads: Annotated[int, typer.Option(min=1, help="Attention heads of the sublayer.")] = 8,
    attentions: Annotated[
        str, typer.Option(help="Which attentions' sublayers, separated by commas; 'all': every preset.")
    ] = "all",
    rounds: RoundsOption = 15,
    threads: ThreadsOption = None,
    quick: QuickOption = False,
    resume: ResumeBenchOption = False,
    json_to: JsonOption = None,
) -> None:
    """Measure ReLU attention and every other attention beside torch's own, in one interleaved run.

    The core is rela.functional.relu_attention against F.scaled_dot_product_attention with the same queries, keys and
    values, at two shares of non-zero weights, with masks, dropout, grouped heads and other lengths of keys; and against
    the entmax package. The sublayer is the whole module against torch.nn.MultiheadAttention(need_weights=False), with
    the share of weights that are exactly zero and of queries that attend to nothing. Speeds are medians of ratios
    within a round with their quartiles, above 1 is faster; compare nothing across runs.
    """
    names = parse_attentions(attentions)
    sizes = None if lengths is None else parse_numbers("--lengths", lengths, "32,128,512")
    if dim % heads != 0:
        raise typer.BadParameter(f"--dim: expected a multiple of --heads {heads}, got {dim}")
    if (source is None) != (target is None):
        raise typer.BadParameter("--src and --tgt: expected both or neither")
    if not core and not sublayer:
        raise typer.BadParameter("--no-core --no-sublayer: expected one of them, got nothing to measure")
    if not core:
        refuse_unused(context, "--no-core", "model", "source", "target")
    if not sublayer:
        refuse_unused(context, "--no-sublayer", "tokens", "dim", "heads", "attentions")
    if source is not None and model is None:
        raise typer.BadParameter("--src and --tgt: expected --model as well, since they are sentences for it")
    check_not_input(json_to, "--json", {"--src": [source] if source else [], "--tgt": [target] if target else []})
    if quick:
        rounds, sizes = min(rounds, 5), sizes or _QUICK_LENGTHS
        names = [name for name in names if name in ("softmax", "rela-g")] or names[:1]

    from rela.bench import machine
    from rela.bench.core import OURS
    from rela.bench.results import document

    set_threads(threads, quick=quick)
    points = points_for(json_to, resume=resume)
    console = console_for(json_to)
    entries: list[dict[str, Any]] = []
    if sublayer:
        short = [length for length in sizes or [128] if length <= _LONGEST_SUBLAYER]
        entries += _sublayers(console, names, short, (tokens, dim, heads), rounds, points)
    if core:
        traces = [] if model is None else _traces(model, source, target)
        entries.append(_core(console, sizes, traces, rounds, points, quick=quick))
        _show_core(console, entries[-1])
    facts = machine.describe() | {"gflops": machine.matmul_peak(2048, 512, 2048) / 1e9}
    finish(json_to, points, document("attention", facts, entries, core=OURS if core else None))


def _traces(model: Path, source: Path | None, target: Path | None) -> "list[Trace]":
    from rela.bench.texts import BUILT_IN, corpus_pairs, read_text_pairs
    from rela.bench.traces import collect
    from rela.model.directory import load_model

    loaded = load_model(model)
    files = (source, target)
    pairs = read_text_pairs(files[0], files[1], 400) if files[0] and files[1] else corpus_pairs(BUILT_IN, "test", 400)
    return collect(loaded.model, loaded.tokenizers, pairs, files[0].stem if files[0] else BUILT_IN)


def _core(
    console: "Console",
    sizes: list[int] | None,
    traces: "Sequence[Trace]",
    rounds: int,
    points: "Points",
    *,
    quick: bool,
) -> dict[str, Any]:
    from rela.bench.cases import LENGTHS, MODES, cases
    from rela.bench.core import measure_core

    used = list(sizes or LENGTHS)
    total = len(MODES) * (len(cases(used)) + len(traces))
    with progress(console, "core", total) as advance:
        return measure_core(used, traces, rounds=rounds, points=points, entmax=not quick, on_point=advance)


def _show_core(console: "Console", entry: dict[str, Any]) -> None:
    from rela.bench.cases import MODES
    from rela.bench.core import ENTMAX, TORCHS

    measures = entry["measures"]
    density = dict(zip(measures["core.density"]["labels"]["case"], measures["core.density"]["value"], strict=True))
    for mode in MODES:
        for name, against in ((f"core.{mode}", TORCHS), (f"core.{mode}.entmax15", ENTMAX)):
            if (found := measures.get(name)) is not None:
                rows = [
                    [label.partition(" density")[0], f"{density[label]:.2f}", *cells(found, place)]
                    for place, label in enumerate(found["labels"]["case"])
                ]
                show_table(console, f"relu_attention against {against}, {mode}", ["case", "density", *CELLS], rows)
    console.print(measures["core.forward"]["signature"], style="dim")


def _sublayers(
    console: "Console",
    names: list[str],
    lengths: list[int],
    sizes: tuple[int, int, int],
    rounds: int,
    points: "Points",
) -> list[dict[str, Any]]:
    from rela.bench.attention import MODES, PARTS, Setting, describe_weights, entries, measure

    tokens, dim, heads = sizes
    found: list[dict[str, Any]] = []
    for length in lengths:
        setting = Setting(length=length, batch=max(1, tokens // length), dim=dim, num_heads=heads)

        def run(setting: "Setting" = setting) -> dict[str, Any]:
            weights = {name: asdict(seen) for name, seen in describe_weights(setting, names).items()}
            with progress(console, f"T={setting.length}", len(PARTS) * len(MODES) * rounds) as advance:
                for part in PARTS:
                    for mode in MODES:
                        speeds = measure(setting, names, part, mode, rounds=rounds, on_round=advance)
                        for name in names:
                            weights[name][f"{part}.{mode}"] = asdict(speeds[name])
            return weights

        point = points.get(f"{setting.signature}|rounds:{rounds}|{','.join(names)}", run)
        found.append({"setting": setting, "attentions": point})
        _show_sublayers(console, setting, point)
    return entries(found, rounds)


def _show_sublayers(console: "Console", setting: "Setting", attentions: dict[str, Any]) -> None:
    from rela.bench.attention import MODES, PARTS

    columns = ["attention", "spar-\nsity", "null\nrate", "extra\nparams"]
    heads = {"sublayer": "sub-\nlayer", "core": "core\n"}
    columns += [f"{heads[part]}\n{'fwd' if mode == 'forward' else '+bwd'}" for part in PARTS for mode in MODES]
    rows = [
        [
            name,
            f"{seen['sparsity']:.1%}",
            f"{seen['null_rate']:.2%}",
            f"{seen['extra_parameters']:,}",
            *(f"{seen[f'{part}.{mode}']['median']:.2f}x" for part in PARTS for mode in MODES),
        ]
        for name, seen in attentions.items()
    ]
    title = (
        f"T={setting.length}, batch {setting.batch}, d={setting.dim}, H={setting.num_heads}: multiples of torch's speed"
    )
    show_table(console, title, columns, rows)
    console.print(setting.signature, style="dim")
