"""Who is told how a training goes: a terminal, a log, a test."""

from __future__ import annotations

from typing import Any, Protocol


class Reporter(Protocol):
    """Someone who is told how training goes."""

    def started(self, facts: dict[str, Any]) -> None:
        """Before the first update."""
        ...

    def updated(self, step: int, spent: float, loss: float, tokens_per_second: float) -> None:
        """After every update."""
        ...

    def noted(self, text: str) -> None:
        """Something to read: a validation, a checkpoint."""
        ...
