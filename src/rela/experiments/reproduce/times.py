"""How long it took, and by which commands: written down while it goes on, so that no kill loses more than a job."""

from __future__ import annotations

import json
import time
from typing import Any, Final

from rela._files import write_text
from rela.bench.machine import describe
from rela.experiments.reproduce.places import Places
from rela.experiments.reproduce.workers import Watcher

FILE: Final = "times.json"
_LEAST: Final = 1.0  # a second: commands that had nothing to do are not counted


class Clock:
    """Of one command. It watches jobs, passes on what it is told, and writes the time down whenever one ends."""

    def __init__(self, places: Places, command: str, watcher: Watcher) -> None:
        self._path, self._watcher = places.data / FILE, watcher
        self._earlier = read_times(places)
        machine = {key: value for key, value in describe().items() if key in ("processor", "cores", "torch")}
        self._command, self._machine, self._begin = command, machine, time.monotonic()

    def write(self) -> None:
        """All commands up to now."""
        seconds = time.monotonic() - self._begin
        if seconds >= _LEAST:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            entry = {"command": self._command, "seconds": round(seconds), **self._machine}
            write_text(self._path, json.dumps([*self._earlier, entry], indent=1) + "\n")

    def began(self, job: str, workers: int) -> None:
        """Passed on."""
        self._watcher.began(job, workers)

    def updated(self, job: str, spent: float, loss: float, tokens_per_second: float) -> None:
        """Passed on."""
        self._watcher.updated(job, spent, loss, tokens_per_second)

    def noted(self, job: str, text: str) -> None:
        """Passed on; a training ended, or something was measured."""
        self.write()
        self._watcher.noted(job, text)

    def ended(self, job: str) -> None:
        """Passed on."""
        self.write()
        self._watcher.ended(job)


def read_times(places: Places) -> list[dict[str, Any]]:
    """Of all commands that had something to do."""
    path = places.data / FILE
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
