"""What is kept of a training: how long it was, and curves of loss and gradient."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from rela._version import __version__
from rela.bench.results import code_digest
from rela.decoding.translator import Translator
from rela.model.directory import MODEL_FOLDER
from rela.training.journal import STATUS_FILE, read_log

_CURVE: Final = 120  # points of a curve that is kept


def facts_of(run: Path) -> dict[str, Any]:
    """What the log of a run tells. A training that diverged has fewer tokens, and no parameters."""
    log = read_log(run)
    updates = [entry for entry in log if entry["event"] == "train"]
    validations = [entry for entry in log if entry["event"] == "validation"]
    losses = [entry["loss"] for entry in validations if entry["loss"] is not None]  # none: it was no number
    model, last = run / MODEL_FOLDER, updates[-1] if updates else {"step": 0, "tokens": 0}
    status = json.loads((run / STATUS_FILE).read_text(encoding="utf-8"))
    return {
        "parameters": Translator.load(model).model.num_parameters() if model.exists() else None,
        "steps": max(status["step"], last["step"]),
        "tokens": status.get("tokens", last["tokens"]),
        "seconds": status.get("seconds", _seconds(updates)),
        "dev_loss": min(losses, default=None),
        "curve": {key: [entry[key] for entry in _thinned(updates)] for key in ("step", "nll", "gradient_norm")},
        "validations": {key: [entry[key] for entry in validations] for key in ("step", "loss")},
        "rela_version": __version__,
        "code": code_digest()[:16],
    }


def _seconds(updates: Sequence[dict[str, Any]]) -> float:
    """Of the updates of a training that did not come to its end."""
    before, seconds = 0, 0.0
    for entry in updates:
        if entry["tokens_per_second"]:
            seconds += (entry["tokens"] - before) / entry["tokens_per_second"]
        before = entry["tokens"]
    return round(seconds, 1)


def _thinned(entries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """At most so many, spread over all, the first and the last among them."""
    if len(entries) <= _CURVE:
        return list(entries)
    step = (len(entries) - 1) / (_CURVE - 1)
    return [entries[round(place * step)] for place in range(_CURVE)]
