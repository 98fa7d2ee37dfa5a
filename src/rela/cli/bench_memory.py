"""`rela bench memory`: how time and memory of attention grow with the length."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rela.cli._benching import (
    QuickOption,
    ResumeBenchOption,
    RoundsOption,
    finish,
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

    from rela.bench.scaling import Place


@stoppable
def memory(
    lengths: Annotated[
        str | None,
        typer.Option(help="Lengths, separated by commas. Default: 128, 256 ... 32,768.", show_default=False),
    ] = None,
    methods: Annotated[
        str, typer.Option(help="Among native, blocked, naive, sdpa and entmax15, separated by commas; or all.")
    ] = "all",
    heads: Annotated[int, typer.Option(min=1, help="Heads of the one sentence.")] = 2,
    rounds: RoundsOption = 7,
    threads: ThreadsOption = None,
    quick: QuickOption = False,
    resume: ResumeBenchOption = False,
    json_to: JsonOption = None,
) -> None:
    """Measure how time and peak memory of attention grow with the length, and the exponents of both.

    Each point is a process of its own, whose peak of resident memory during a call counts, over its inputs. What would
    take too long or too much memory, by what shorter lengths took, is left out and said so. An exponent is the slope of
    the logarithms over the upper half of the lengths: 2 is quadratic, 1 is linear.
    """
    sizes = None if lengths is None else parse_numbers("--lengths", lengths, "128,256,512,1024")

    from rela.bench import machine
    from rela.bench.core import signature
    from rela.bench.results import document
    from rela.bench.scaling import LENGTHS, METHODS, Server, measure_scaling

    names = list(METHODS) if methods == "all" else [name.strip() for name in methods.split(",")]
    if unknown := [name for name in names if name not in METHODS]:
        raise typer.BadParameter(f"--methods: expected some of {', '.join(METHODS)}, got {', '.join(unknown)}")
    if quick:
        rounds, sizes = 3, sizes or [64, 128, 256, 512]
    count = set_threads(threads, quick=quick)
    points = points_for(json_to, resume=resume)
    console = console_for(json_to)

    def show(place: "Place", point: dict[str, Any]) -> None:
        result = point.get("failed") or f"{point['seconds'] * 1000:,.1f} ms, {point['bytes'] / 2**20:,.1f} MiB"
        console.print(f"{place.method} {place.mode} T={place.length}: {result}")

    recipe = signature(rounds).replace("core|", "scaling|", 1).replace(f"|kernel:{machine.kernel_name()}", "", 1)
    with Server() as server:
        entries = measure_scaling(
            sizes or LENGTHS,
            names,
            heads=heads,
            threads=count,
            rounds=rounds,
            points=points,
            recipe=recipe,
            make=server,
            on_point=show,
        )
    _show(console, entries)
    finish(json_to, points, document("memory", machine.describe(), entries, heads=heads))


def _show(console: "Console", entries: list[dict[str, Any]]) -> None:
    from rela.bench.cases import MODES

    rows: list[list[str]] = []
    for entry in entries:
        for mode in MODES:
            time = entry["measures"].get(f"scaling.{mode}.seconds")
            if time is None:
                continue
            longest = time["labels"]["length"][-1]
            exponents = [
                f"{found['value']:.2f}" if (found := entry["measures"].get(f"scaling.{mode}.{what}.exponent")) else "-"
                for what in ("seconds", "bytes")
            ]
            peak = entry["measures"][f"scaling.{mode}.bytes"]["value"][-1]
            numbers = [f"{int(longest):,}", f"{time['value'][-1]:.3f} s", f"{peak / 2**20:,.0f} MiB"]
            rows.append([entry["name"], "forward" if mode == "forward" else "both", *numbers, *exponents])
    columns = ["method", "mode", "longest\nT", "time", "peak\nmemory", "time\n~ T^", "memory\n~ T^"]
    show_table(console, "how time and memory grow", columns, rows)
    for entry in entries:
        for mode, reason in entry["left_out"].items():
            console.print(f"left out: {entry['name']} {mode}, {reason}")
