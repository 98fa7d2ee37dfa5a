"""Progress of many trainings at once: a bar for all, and one for each that runs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from rich.console import Console
    from rich.progress import TaskID

_SECONDS_BETWEEN_LINES: Final = 60.0


class JobsProgress:
    """On a terminal bars, elsewhere a line now and then. It tells how long all will take from what is done."""

    def __init__(self, console: Console, jobs: Sequence[str]) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._console = console
        self._is_live = console.is_terminal and not console.quiet
        self._spent = dict.fromkeys(jobs, 0.0)
        self._began = self._last_line = time.monotonic()
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[said]}", markup=False),
            TimeRemainingColumn(),
            console=console,
            disable=not self._is_live,
        )
        self._bars: dict[str, TaskID] = {}
        self._all = self._progress.add_task("all trainings", total=len(jobs), said="", visible=len(jobs) > 1)

    def __enter__(self) -> JobsProgress:
        self._progress.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.__exit__(kind, error, trace)

    def began(self, job: str, workers: int) -> None:  # noqa: ARG002 (others may want it)
        """A bar of its own."""
        self._bars[job] = self._progress.add_task(job, total=1.0, said="")
        if not self._is_live:
            self._console.print(f"{job}: begins", highlight=False)

    def updated(self, job: str, spent: float, loss: float, tokens_per_second: float) -> None:
        """Move the bars."""
        self._spent[job] = spent
        said = f"loss {loss:.3f}, {tokens_per_second:,.0f} tokens/s"
        self._progress.update(self._bars[job], completed=spent, said=said)
        self._progress.update(self._all, completed=sum(self._spent.values()))
        now = time.monotonic()
        if not self._is_live and now - self._last_line > _SECONDS_BETWEEN_LINES:
            self._last_line = now
            self._console.print(f"{job}: {spent:.0%} done, {said}; {self._left(now)}", highlight=False)

    def _left(self, now: float) -> str:
        done = sum(self._spent.values())
        left = (now - self._began) * (len(self._spent) - done) / max(done, 1e-9)
        return f"{done:.1f} of {len(self._spent)} trainings, about {left / 60:,.0f} min left"

    def noted(self, job: str, text: str) -> None:  # noqa: ARG002 (the text names it)
        """A line to read."""
        if not self._is_live:
            self._console.print(text, highlight=False, markup=False)

    def ended(self, job: str) -> None:
        """It is one of the done ones."""
        self._spent[job] = 1.0
        self._progress.remove_task(self._bars.pop(job))
        self._progress.update(self._all, completed=sum(self._spent.values()))
        self._console.print(f"{job}: done", highlight=False)
