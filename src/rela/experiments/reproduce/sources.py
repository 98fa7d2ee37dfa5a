"""Where each setting of a training at the paper's size comes from: the paper, its authors' code, or us."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

Source = Literal["paper", "authors' code", "ours"]

_PAPER: Final[Mapping[str, str]] = {
    "model.size": "Transformer base",
    "model.dropout": "0.1 on residuals",
    "model.attention_dropout": "0.1 on attention weights",
    "model.attention": "the row of table 1",
    "batch.update_tokens": "about 25K target tokens",
    "optimizer.beta1": "Adam (0.9, 0.98)",
    "optimizer.beta2": "Adam (0.9, 0.98)",
    "optimizer.label_smoothing": "0.1",
    "rate.schedule": "Noam",
    "rate.warmup": "4000",
    "checkpoints.average": "average of the last 5",
}
_AUTHORS: Final[Mapping[str, str]] = {
    "batch.max_pieces": "sentences cut at 256 pieces",
    "optimizer.eps": "1e-8",
    "budget.steps": "300,000 updates",
    "checkpoints.every": "a checkpoint each 5,000",
}

_OURS: Final[Mapping[str, str]] = {"model.tied": "fits the paper's 72.31M parameters with two vocabularies"}


def source_of(setting: str, scale: str) -> tuple[Source, str]:
    """Of a setting by its path, such as ``model.dropout``: where it comes from, and what is said there."""
    if scale == "paper" and setting in _PAPER:
        return "paper", _PAPER[setting]
    if scale == "paper" and setting in _AUTHORS:
        return "authors' code", _AUTHORS[setting]
    return "ours", _OURS.get(setting, "") if scale == "paper" else ""


def flattened(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Settings by their paths."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        path = f"{prefix}{name}"
        found |= flattened(value, f"{path}.") if isinstance(value, Mapping) and name != "attention" else {path: value}
    return found
