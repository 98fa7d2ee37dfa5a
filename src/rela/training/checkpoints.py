"""Checkpoints: model directories that also hold what training needs to go on.

``checkpoints/step-NNNNNNN/`` has the files of a model directory, ``optimizer.safetensors`` and ``training.json``. Each
is written beside its place and renamed when all of it is on disk; whatever else lies there was cut off and is ignored.
The newest two keep their optimizer's state: if a disk damages one, training goes on from the other.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn

from rela._files import new_folder, write_text
from rela._warn import warn
from rela.model.directory import (
    CHECKPOINTS_FOLDER,
    WEIGHTS_FILE,
    Languages,
    fill_weights,
    open_tensors,
    read_description,
    read_tensors,
    write_model_files,
    write_tensors,
)
from rela.model.transformer import Transformer
from rela.text.store import Tokenizers

OPTIMIZER_FILE: Final = "optimizer.safetensors"
STATE_FILE: Final = "training.json"
NEEDED: Final = ("tokens", "pairs", "seconds", "position", "best", "stale", "validated", "store", "divergence")
"""What the state must have besides the step, to go on from it."""

_NAME: Final = re.compile(r"step-(\d{7,})")
_MOMENTS: Final = ("exp_avg", "exp_avg_sq")
_NUM_RESUMABLE: Final = 2
_DAMAGED: Final = "damaged-"


class Checkpoint(NamedTuple):
    """A checkpoint on disk."""

    step: int
    path: Path
    scheduled: bool
    """False for one that was made because training was interrupted, or was best: averages leave it out."""


def list_checkpoints(run: Path) -> list[Checkpoint]:
    """The checkpoints of a run, oldest first."""
    found: list[Checkpoint] = []
    for step, path in _folders(run):
        try:
            found.append(Checkpoint(step, path, bool(read_state(path)["scheduled"])))
        except FileNotFoundError:
            if path.exists():
                raise  # else training deleted it just now
    return found


def _folders(run: Path) -> list[tuple[int, Path]]:
    paths = (run / CHECKPOINTS_FOLDER).glob("step-*")
    return sorted((int(match[1]), path) for path in paths if (match := _NAME.fullmatch(path.name)))


def read_state(path: Path) -> dict[str, Any]:
    """What a checkpoint says about the training; a damaged file is an error that names it."""
    file = path / STATE_FILE
    try:
        state = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileNotFoundError(f"{file}: expected a file of the training's state, there is none") from None
    except ValueError as error:
        raise ValueError(f"{file}: expected JSON, got a damaged file ({error})") from None
    missing = [key for key in ("step", "scheduled") if not isinstance(state, dict) or key not in state]
    if missing:
        raise ValueError(f"{file}: expected the entries {', '.join(missing)}, which are not there")
    return state


def save_checkpoint(
    run: Path,
    model: Transformer,
    optimizer: torch.optim.Optimizer,
    tokenizers: Tokenizers,
    languages: Languages,
    state: dict[str, Any],
    seed: int,
) -> Path:
    """Write a checkpoint. ``state`` has at least ``step``, ``scheduled`` and ``tokens``; ``seed`` is the training's."""
    path = run / CHECKPOINTS_FOLDER / f"step-{state['step']:07d}"
    with new_folder(path) as partial:
        made_by = {"seed": seed, "step": state["step"], "tokens": state["tokens"]}
        write_model_files(partial, model.state_dict(), model.config, tokenizers, languages, made_by)
        write_tensors(partial / OPTIMIZER_FILE, optimizer_tensors(model, optimizer))
        write_text(partial / STATE_FILE, json.dumps(state, indent=2, allow_nan=False) + "\n")
    return path


def load_checkpoint(path: Path, model: Transformer, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Fill model and optimizer from a checkpoint; returns its state."""
    state = _check_whole(path)
    missing = [key for key in NEEDED if key not in state]
    if missing:
        raise ValueError(f"{path / STATE_FILE}: expected the entries {', '.join(missing)}, which are not there")
    weights, moments = read_tensors(path / WEIGHTS_FILE), read_tensors(path / OPTIMIZER_FILE)
    fill_weights(model, weights, path / WEIGHTS_FILE)
    restore_optimizer(model, optimizer, moments, path / OPTIMIZER_FILE)
    return state


def newest_store(run: Path) -> str | None:
    """What tells the store that a run is trained on from others, by its newest checkpoint that can be read."""
    for _, path in reversed(_folders(run)):
        with suppress(ValueError, OSError, KeyError):
            return read_state(path)["store"]
    return None


def load_newest(run: Path, model: Transformer, optimizer: torch.optim.Optimizer) -> Path | None:
    """Fill model and optimizer from the newest checkpoint that is whole; None if the run has none yet.

    Damaged ones are set aside, with a warning. If none can be gone on from, the newest one's error is raised.
    """
    damaged: dict[Path, Exception] = {}
    chosen: Path | None = None
    for _, path in reversed(_folders(run)):
        try:
            if chosen is None:
                load_checkpoint(path, model, optimizer)
                chosen = path
            else:
                _check_whole(path)
        except (ValueError, OSError) as error:
            damaged[path] = error
    if chosen is None and damaged:
        error = next(iter(damaged.values()))
        raise ValueError(f"{error}; there is no earlier checkpoint to go on from") from None
    for path, error in damaged.items():
        aside = path.with_name(f"{_DAMAGED}{path.name}")
        delete(aside)
        path.replace(aside)
        warn(f"{error}; the checkpoint is set aside as {aside.name}, and left out")
    return chosen


def _check_whole(path: Path) -> dict[str, Any]:
    """Look at what averages need, without reading all of it; returns the state."""
    state = read_state(path)
    read_description(path)
    Tokenizers.load(path, remedy="go on from another checkpoint")
    with open_tensors(path / WEIGHTS_FILE):
        return state


def clear_leftovers(run: Path) -> None:
    """Delete what a kill left behind while a checkpoint or a file was written or deleted."""
    for path in (run / CHECKPOINTS_FOLDER).glob(".step-*"):
        delete(path)
    for path in run.glob(".*.partial"):
        if path.is_file():
            path.unlink()


def delete(path: Path) -> None:
    """Delete a folder, if it is there."""
    shutil.rmtree(path, ignore_errors=True)


def prune(run: Path, keep_last: int, best_step: int | None) -> None:
    """Delete checkpoints that are neither among the last nor the best, and optimizer states but the newest two.

    There are always two to go on from, if two were written.
    """
    checkpoints = list_checkpoints(run)
    if not checkpoints:
        return
    window = {checkpoint.step for checkpoint in [c for c in checkpoints if c.scheduled][-keep_last:]}
    window |= {checkpoints[-1].step, best_step}
    if sum(checkpoint.step in window for checkpoint in checkpoints) < _NUM_RESUMABLE:
        window |= {checkpoint.step for checkpoint in checkpoints[-_NUM_RESUMABLE:]}
    kept = [checkpoint for checkpoint in checkpoints if checkpoint.step in window]
    for checkpoint in checkpoints:
        if checkpoint.step not in window:
            # First out of sight, so that one that is deleted halfway is not taken for whole.
            delete(checkpoint.path.rename(checkpoint.path.with_name(f".{checkpoint.path.name}.old")))
    for checkpoint in kept[:-_NUM_RESUMABLE]:
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
    optimizer.state.clear()
    for name, parameter in model.named_parameters():
        if f"step.{name}" not in tensors:
            if tensors:
                raise ValueError(f"{file}: expected the optimizer's state of {name}, which is not there")
            continue
        moments = {key: tensors.get(f"{key}.{name}") for key in _MOMENTS}
        if any(moment is None or moment.shape != parameter.shape for moment in moments.values()):
            raise ValueError(f"{file}: the optimizer's state of {name} is incomplete or has another shape")
        optimizer.state[parameter] = {
            "step": tensors[f"step.{name}"].reshape(()).to(parameter.device),  # where a fused update wants it
            **{key: tensors[f"{key}.{name}"].to(parameter.device) for key in _MOMENTS},
        }
