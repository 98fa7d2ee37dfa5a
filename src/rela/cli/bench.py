"""`rela bench attention`: every attention beside torch's own."""

import contextlib
from collections.abc import Callable, Generator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rela.cli._output import JsonOption, console_for, write_json

if TYPE_CHECKING:
    from rich.console import Console

    from rela.bench.attention import Setting


def attention(
    lengths: Annotated[str, typer.Option(help="Sentence lengths, separated by commas.")] = "128",
    tokens: Annotated[int, typer.Option(min=1, help="Tokens in a batch, whatever the length.")] = 2048,
    dim: Annotated[int, typer.Option(min=1, help="Model size.")] = 512,
    heads: Annotated[int, typer.Option(min=1, help="Attention heads.")] = 8,
    attentions: Annotated[
        str, typer.Option(help="Which attentions, separated by commas; 'all': every preset.")
    ] = "all",
    core: Annotated[
        bool | None,
        typer.Option(help="Also the core alone, scores to norm. Default: if several lengths are given."),
    ] = None,
    rounds: Annotated[
        int, typer.Option(min=3, help="Rounds; in each everything runs once, but what is 10 times slower than torch.")
    ] = 15,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads; default: torch's own choice.")] = None,
    json_to: JsonOption = None,
) -> None:
    """Measure every attention beside torch's own, in one interleaved run.

    For each length: the share of weights that are exactly zero, the share of queries that attend to nothing, the extra
    parameters, and the speed relative to torch's softmax (above 1 is faster): of the whole sublayer against
    torch.nn.MultiheadAttention(need_weights=False), and with --core of the core against
    F.scaled_dot_product_attention. Speeds are medians of ratios within a round; compare nothing across runs.
    """
    names, sizes = _parse_attentions(attentions), _parse_lengths(lengths)
    if dim % heads != 0:
        raise typer.BadParameter(f"--dim: expected a multiple of --heads {heads}, got {dim}")

    import torch  # only now: wrong use is answered at once

    from rela.bench.attention import MODES, PARTS, Setting, describe_weights, measure

    parts = PARTS if core or (core is None and len(sizes) > 1) else PARTS[:1]
    if threads is not None:
        torch.set_num_threads(threads)
    console = console_for(json_to)
    results: list[dict[str, Any]] = []
    for length in sizes:
        setting = Setting(length=length, batch=max(1, tokens // length), dim=dim, num_heads=heads)
        weights = describe_weights(setting, names)
        speeds = {}
        with _progress(console, f"T={length}", len(parts) * len(MODES) * rounds) as advance:
            for part in parts:
                for mode in MODES:
                    speeds[part, mode] = measure(setting, names, part, mode, rounds=rounds, on_round=advance)
        _show(console, setting, weights, speeds)
        results.append(
            {
                "length": length,
                "batch": setting.batch,
                "signature": setting.signature,
                "attentions": {
                    name: asdict(weights[name])
                    | {f"{part} {mode}": asdict(speed[name]) for (part, mode), speed in speeds.items()}
                    for name in names
                },
            }
        )
    if json_to is not None:
        from rela.bench.attention import BASELINES

        write_json({"schema": "rela-bench-attention/1", "baselines": BASELINES, "results": results}, json_to)


def _parse_attentions(text: str) -> list[str]:
    from rela.attention.spec import PRESETS, resolve

    names = list(PRESETS) if text == "all" else [name.strip() for name in text.split(",")]
    for name in names:
        try:
            resolve(name)
        except ValueError as error:
            raise typer.BadParameter(f"--attentions: {error}") from None
    return names


def _parse_lengths(text: str) -> list[int]:
    try:
        lengths = [int(part) for part in text.split(",")]
    except ValueError:
        lengths = []
    if not lengths or min(lengths) < 1:
        raise typer.BadParameter(f"--lengths: expected positive numbers such as 32,128,512; got {text!r}")
    return lengths


@contextlib.contextmanager
def _progress(console: "Console", label: str, total: int) -> Generator[Callable[[], None]]:
    """A progress bar on a terminal, nothing elsewhere; gives the function that advances it."""
    from rich.progress import Progress

    with Progress(console=console, transient=True, disable=console.quiet or not console.is_terminal) as bar:
        task = bar.add_task(label, total=total)
        yield lambda: bar.advance(task)


def _show(console: "Console", setting: "Setting", weights: Any, speeds: Any) -> None:
    from rich.table import Table

    table = Table(
        title=f"T={setting.length}, batch {setting.batch}, d={setting.dim}, H={setting.num_heads}",
        caption="sparsity: exact zeros; null: queries that attend to nothing;\n"
        "speeds are multiples of torch's softmax: above 1 is faster",
    )
    table.add_column("attention", no_wrap=True)
    for column in ("spar-\nsity", "null\nrate", "extra\nparams"):
        table.add_column(column, justify="right")
    for part, mode in speeds:
        what = {"sublayer": "sub-\nlayer", "core": "core\n"}[part]
        table.add_column(f"{what}\n{'fwd' if mode == 'forward' else '+bwd'}", justify="right")
    for name, seen in weights.items():
        cells = [f"{seen.sparsity:.1%}", f"{seen.null_rate:.2%}", f"{seen.extra_parameters:,}"]
        cells += [f"{speed[name].median:.2f}x" for speed in speeds.values()]
        table.add_row(name, *cells)
    console.print(table)
    console.print(setting.signature, style="dim")
