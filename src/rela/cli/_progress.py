"""Progress on a terminal; on anything else a line now and then."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from types import TracebackType

    from rich.console import Console

_SECONDS_BETWEEN_LINES: Final = 30.0


class CountProgress:
    """Counts things that are done: a bar if the total is known, on a terminal; lines elsewhere."""

    def __init__(self, console: Console, unit: str, *, speed: bool = False) -> None:
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

        self._console, self._unit, self._speed = console, unit, speed
        self._is_live = console.is_terminal and not console.quiet
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.completed:,.0f} " + unit),
            *([TextColumn("{task.fields[speed]}"), TextColumn("left")] if speed else []),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not self._is_live,
        )
        self._tasks: dict[str, Any] = {}
        self._began: dict[str, tuple[float, float]] = {}
        self._counts: dict[str, float] = {}
        self._last_line = time.monotonic()

    def __enter__(self) -> CountProgress:
        self._progress.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._progress.stop()

    def advance(self, what: str, count: float) -> None:
        """So many more are done."""
        self.reach(what, self._counts.get(what, 0) + count, None)

    def reach(self, what: str, done: float, total: float | None) -> None:
        """So many are done in all."""
        now = time.monotonic()
        self._counts[what] = done
        if what not in self._tasks:
            self._tasks[what] = self._progress.add_task(what, total=total, speed="")
            self._began[what] = (now, done)  # what was done before is not its speed
        began, at_first = self._began[what]
        rate = (done - at_first) / (now - began) if now > began else 0.0
        speed = f"{rate:,.0f} {self._unit}/s" if self._speed and rate else ""
        self._progress.update(self._tasks[what], completed=done, total=total, speed=speed)
        if not self._is_live and now - self._last_line > _SECONDS_BETWEEN_LINES:
            self._last_line = now
            of_all = f" of {total:,.0f}" if total else ""
            left = f", about {(total - done) / rate / 60:.0f} min left" if speed and total else ""
            self._console.print(f"{what}: {done:,.0f}{of_all} {self._unit}{speed and ', ' + speed}{left}")


class TrainingProgress:
    """Shows how training goes: share of the budget, loss, speed, time left."""

    def __init__(self, console: Console) -> None:
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
        from rich.progress import TimeRemainingColumn as Remaining

        self._console = console
        self._is_live = console.is_terminal and not console.quiet
        self._progress = Progress(
            TextColumn("update {task.fields[step]:,}"),
            BarColumn(bar_width=24),
            TaskProgressColumn(),
            TextColumn("loss {task.fields[loss]:.3f} · {task.fields[speed]:,.0f} tokens/s ·"),
            TimeElapsedColumn(),
            TextColumn("left"),
            Remaining(),
            console=console,
            transient=True,
            disable=not self._is_live,
        )
        self._task = self._progress.add_task("train", total=1.0, step=0, loss=0.0, speed=0.0)
        self._loss: float | None = None
        self._speed: float | None = None
        self._first: tuple[float, float] | None = None
        self._last_line = time.monotonic()

    def __enter__(self) -> TrainingProgress:
        self._progress.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._progress.stop()

    def started(self, facts: dict[str, Any]) -> None:
        """Say what is trained."""
        where = f"from update {facts['step']:,} on, " if facts["step"] else ""
        self._progress.update(self._task, step=facts["step"])
        self._progress.reset(self._task, completed=facts["spent"])  # what a resumed run did before is not its speed
        several = f", {facts['processes']} processes" if facts["processes"] > 1 else ""
        if facts["left_out"]:
            self._console.print(
                f"{facts['left_out']:,} pairs with more than {facts['max_pieces']:,} pieces on a side are left out; "
                "see batch.max_pieces"
            )
        self._console.print(
            f"training {where}{facts['attention']}, {facts['parameters']:,} parameters, {facts['pairs']:,} pairs, "
            f"{facts['padding']:.1%} of the places in batches are padding{several}"
        )

    def updated(self, step: int, spent: float, loss: float, tokens_per_second: float) -> None:
        """Move the bar; without a terminal, a line now and then."""
        if math.isfinite(loss):
            self._loss = loss if self._loss is None else 0.95 * self._loss + 0.05 * loss
        self._speed = tokens_per_second if self._speed is None else 0.9 * self._speed + 0.1 * tokens_per_second
        now = time.monotonic()
        self._first = self._first or (now, spent)
        self._progress.update(self._task, completed=spent, step=step, loss=self._loss or math.nan, speed=self._speed)
        if not self._is_live and now - self._last_line > _SECONDS_BETWEEN_LINES:
            self._last_line = now
            began, share = self._first
            left = (now - began) * (1 - spent) / max(spent - share, 1e-9)
            when = f", about {left / 60:.0f} min left" if spent > share else ""  # nobody knows after one update
            speed = f"{self._speed:,.0f} tokens/s"
            self._console.print(f"update {step:,}: {spent:.0%} done, loss {self._loss or math.nan:.3f}, {speed}{when}")

    def noted(self, text: str) -> None:
        """A line to read."""
        self._console.print(text)
