"""Checkpoints: model directories that also hold what training needs to go on.

``checkpoints/step-NNNNNNN/`` has the files of a model directory, ``optimizer.safetensors`` and ``training.json``. Each
is written beside its place and renamed when all of it is on disk; whatever else lies there was cut off and is ignored.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn

from rela._files import new_folder, write_text
from rela.model.directory import (
    WEIGHTS_FILE,
    Languages,
    fill_weights,
    read_tensors,
    write_model_files,
    write_tensors,
)
from rela.model.transformer import Transformer
from rela.text.store import Tokenizers

FOLDER: Final = "checkpoints"
OPTIMIZER_FILE: Final = "optimizer.safetensors"
STATE_FILE: Final = "training.json"
_NAME: Final = re.compile(r"step-(\d{7,})")
_MOMENTS: Final = ("exp_avg", "exp_avg_sq")


class Checkpoint(NamedTuple):
    """A checkpoint on disk."""

    step: int
    path: Path
    scheduled: bool
    """False for one that was made because training was interrupted: averages leave it out."""


def list_checkpoints(run: Path) -> list[Checkpoint]:
    """The whole checkpoints of a run, oldest first."""
    found: list[Checkpoint] = []
    for path in (run / FOLDER).glob("step-*"):
        match = _NAME.fullmatch(path.name)
        if match and (path / STATE_FILE).is_file():
            state = json.loads((path / STATE_FILE).read_text(encoding="utf-8"))
            found.append(Checkpoint(int(match[1]), path, bool(state["scheduled"])))
    return sorted(found)


def save_checkpoint(
    run: Path,
    model: Transformer,
    optimizer: torch.optim.Optimizer,
    tokenizers: Tokenizers,
    languages: Languages,
    state: dict[str, Any],
) -> Path:
    """Write a checkpoint. ``state`` has at least ``step`` and ``scheduled``."""
    path = run / FOLDER / f"step-{state['step']:07d}"
    with new_folder(path) as partial:
        made_by = {"step": state["step"], "tokens": state["tokens"]}
        write_model_files(partial, model.state_dict(), model.config, tokenizers, languages, made_by)
        write_tensors(partial / OPTIMIZER_FILE, optimizer_tensors(model, optimizer))
        write_text(partial / STATE_FILE, json.dumps(state, indent=2, allow_nan=False) + "\n")
    return path


def load_checkpoint(path: Path, model: Transformer, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Fill model and optimizer from a checkpoint; returns its state."""
    fill_weights(model, read_tensors(path / WEIGHTS_FILE), path / WEIGHTS_FILE)
    restore_optimizer(model, optimizer, read_tensors(path / OPTIMIZER_FILE), path / OPTIMIZER_FILE)
    return json.loads((path / STATE_FILE).read_text(encoding="utf-8"))


def prune(run: Path, keep_last: int, best_step: int | None) -> None:
    """Delete checkpoints that are neither among the last nor the best, and optimizer states but the newest."""
    checkpoints = list_checkpoints(run)
    if not checkpoints:
        return
    window = {checkpoint.step for checkpoint in [c for c in checkpoints if c.scheduled][-keep_last:]}
    window |= {checkpoints[-1].step, best_step}
    for checkpoint in checkpoints:
        if checkpoint.step not in window:
            # First out of sight, so that one that is deleted halfway is not taken for whole.
            doomed = checkpoint.path.with_name(f".{checkpoint.path.name}.old")
            checkpoint.path.replace(doomed)
            shutil.rmtree(doomed)
        elif checkpoint.step != checkpoints[-1].step:
            (checkpoint.path / OPTIMIZER_FILE).unlink(missing_ok=True)


def optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Adam's moments and step counts, by the names of their parameters."""
    found: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters():
        state: Mapping[str, Tensor] = optimizer.state.get(parameter, {})
        for key in (*_MOMENTS, "step"):
            if key in state:
                found[f"{key}.{name}"] = state[key].reshape(-1) if key == "step" else state[key]
    return found


def restore_optimizer(
    model: nn.Module, optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor], file: Path
) -> None:
    """Put Adam's moments and step counts back."""
    for name, parameter in model.named_parameters():
        if f"step.{name}" not in tensors:
            if tensors:
                raise ValueError(f"{file}: expected the optimizer's state of {name}, which is not there")
            continue
        if any(tensors[f"{key}.{name}"].shape != parameter.shape for key in _MOMENTS):
            raise ValueError(f"{file}: the optimizer's state of {name} has another shape than the parameter")
        optimizer.state[parameter] = {
            "step": tensors[f"step.{name}"].reshape(()),
            **{key: tensors[f"{key}.{name}"].to(parameter.device) for key in _MOMENTS},
        }
