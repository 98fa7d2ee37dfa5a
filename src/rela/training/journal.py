"""What a training writes down: ``log.jsonl``, ``status.json``, and TensorBoard's files if asked."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal

from rela._files import naming, write_text
from rela._lock import is_free

LOG_FILE: Final = "log.jsonl"
STATUS_FILE: Final = "status.json"

Status = Literal["running", "done", "failed", "interrupted"]


class Journal:
    """The log of a run. After a resume it goes on where the checkpoint was: what came later is written anew."""

    def __init__(self, run: Path, *, step: int, tensorboard: bool) -> None:
        self._run = run
        self._path = path = run / LOG_FILE
        kept = [line for line in _lines(path) if _step_of(line) <= step] if step > 0 and path.exists() else []
        write_text(path, "".join(f"{line}\n" for line in kept))
        self._file = path.open("a", encoding="utf-8", buffering=1)
        self._board = None
        if tensorboard:
            self._board = board_class()(str(run / "tensorboard"), purge_step=step + 1)

    def write(self, event: str, step: int, **values: Any) -> None:
        """One line, and its numbers as TensorBoard's scalars."""
        entry = {"event": event, "step": step, "time": round(time.time(), 3), **values}
        with naming(self._path):
            self._file.write(json.dumps(entry, ensure_ascii=False, allow_nan=False) + "\n")
        if self._board is not None:
            for name, value in values.items():
                if isinstance(value, int | float):
                    self._board.add_scalar(f"{event}/{name}", value, step)

    def set_status(self, status: Status, step: int, **details: Any) -> None:
        """Say in ``status.json`` how the run stands."""
        write_text(self._run / STATUS_FILE, json.dumps({"status": status, "step": step, **details}, indent=2) + "\n")

    def close(self) -> None:
        """The end. What could not be written was reported when it happened."""
        with suppress(OSError):
            self._file.close()
        if self._board is not None:
            self._board.close()


def board_class() -> Any:
    """TensorBoard's writer; an error that names the package if it is not installed."""
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter


def _lines(path: Path) -> list[str]:
    return [line for line in path.read_text(encoding="utf-8", errors="replace").split("\n") if line]


def _step_of(line: str) -> float:
    """The step of a line; one that was cut off is later than any."""
    try:
        return float(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return float("inf")


def read_status(run: Path) -> str | None:
    """How a run stands: running, done, failed, interrupted; killed if it says running and nobody trains it.

    None if its folder says nothing.
    """
    try:
        status = json.loads((run / STATUS_FILE).read_text(encoding="utf-8"))["status"]
    except (OSError, ValueError, KeyError):
        return None
    return "killed" if status == "running" and is_free(run) else status


def read_log(run: Path) -> list[dict[str, Any]]:
    """All events of a run. A last line that was cut off, as by a kill, is left out."""
    lines = _lines(run / LOG_FILE)
    if lines and _step_of(lines[-1]) == float("inf"):
        lines.pop()
    return [json.loads(line) for line in lines]
