"""What the benchmarks' commands share: options, progress, tables of numbers beside their targets, result files."""

import contextlib
import functools
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rela._warn import warn
from rela.cli._output import STDOUT, write_json
from rela.cli._usage import told_when_stopped

if TYPE_CHECKING:
    from rich.console import Console

    from rela.bench.results import Points

QuickOption = Annotated[
    bool, typer.Option("--quick", help="A few small points, by one thread unless told: to see that it works.")
]
ResumeBenchOption = Annotated[
    bool, typer.Option("--resume", help="Keep the points that a run with the same --json and options has measured.")
]
RoundsOption = Annotated[int, typer.Option(min=3, help="Rounds; in each everything runs in turn.")]


def stoppable(run: Callable[..., None]) -> Callable[..., None]:
    """A benchmark that says, when it is stopped, what is kept of it."""

    @functools.wraps(run)
    def wrapped(**options: Any) -> None:
        with told_when_stopped(lambda: _how_to_go_on(options["json_to"], can_resume="resume" in options)):
            run(**options)

    return wrapped


def _how_to_go_on(json_to: str | None, *, can_resume: bool) -> str:
    from rela.bench.results import count_points, points_file

    if not can_resume:
        return "nothing is kept, so the same command begins anew"
    if json_to in (None, STDOUT):
        return "nothing is kept without --json FILE, so the same command begins anew"
    result = Path(str(json_to))
    count = count_points(result)
    if not count:
        return "not one point was measured, so the same command begins anew"
    points = "the 1 point" if count == 1 else f"the {count:,} points"
    return f"{points_file(result)} has {points} measured so far, and the same command with --resume goes on from there"


def parse_numbers(option: str, text: str, example: str) -> list[int]:
    """Positive numbers, separated by commas."""
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or min(found) < 1:
        raise typer.BadParameter(f"{option}: expected positive numbers such as {example}; got {text!r}")
    return found


def parse_attentions(text: str) -> list[str]:
    """Names of attentions, separated by commas."""
    from rela.attention.spec import PRESETS, resolve

    names = list(PRESETS) if text == "all" else [name.strip() for name in text.split(",")]
    for name in names:
        try:
            resolve(name)
        except ValueError as error:
            raise typer.BadParameter(f"--attentions: {error}") from None
    return names


def points_for(json_to: str | None, *, resume: bool) -> "Points":
    """Where points are kept until the result file is written; nowhere without one."""
    from rela.bench.results import Points

    if resume and json_to in (None, STDOUT):
        raise typer.BadParameter("--resume: expected --json FILE as well, whose points are kept beside it")
    return Points(None if json_to in (None, STDOUT) else Path(str(json_to)), resume=resume)


def set_threads(threads: int | None, *, quick: bool = False) -> int:
    """torch with so many threads from now on; returns how many it has.

    Quick runs have one unless told: small work gains nothing by more, and threads that wait for each other on a busy
    machine make minutes of seconds.
    """
    import torch

    if threads is not None or quick:
        torch.set_num_threads(threads or 1)
    return torch.get_num_threads()


def finish(json_to: str | None, points: "Points", data: dict[str, Any]) -> None:
    """Write the result file; then the points are not needed any more. A machine that was busy is told of."""
    from rela.bench.others import TOLERATED
    from rela.bench.results import check

    check(data)
    share = points.others_share()
    data["data"]["others_cpu_share"] = share
    if share is not None and share > TOLERATED:
        warn(
            f"other processes took {share:.0%} of the processors while this was measured: expected at most "
            f"{TOLERATED:.0%}; do not trust these numbers, measure again when nothing else runs"
        )
    if json_to is not None:
        write_json(data, json_to)
        points.done()


@contextlib.contextmanager
def progress(console: "Console", label: str, total: int) -> Generator[Callable[[], None]]:
    """A progress bar on a terminal, nothing elsewhere; gives the function that advances it."""
    from rich.progress import Progress

    with Progress(console=console, transient=True, disable=console.quiet or not console.is_terminal) as bar:
        task = bar.add_task(label, total=total)
        yield lambda: bar.advance(task)


def cells(measure: Mapping[str, Any], place: int, unit: str = "x") -> list[str]:
    """A number of a measure, its quartiles, what was asked for and whether that was reached."""
    value = measure["value"][place]
    low, high, target = (measure.get(key, [None] * (place + 1))[place] for key in ("low", "high", "target"))
    spread = "-" if low is None or high is None else f"{_short(low)}-{_short(high)}"
    verdict = "-" if target is None else f">= {target:g} {'met' if value >= target else 'MISSED'}"
    return [f"{_short(value)}{unit}", spread, verdict]


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


CELLS = ("median", "quartiles", "target")
"""The columns of `cells`."""


def show_table(console: "Console", title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A plain table; the first column is text, the others are numbers."""
    from rich.table import Table

    table = Table(title=title)
    for place, column in enumerate(columns):
        table.add_column(column, justify="left" if place == 0 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    console.print(table)
