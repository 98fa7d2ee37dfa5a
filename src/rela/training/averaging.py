"""The average of the last checkpoints, which translates better than any one of them."""

from __future__ import annotations

import shutil
from pathlib import Path

import torch
from torch import Tensor

from rela._files import new_folder
from rela.model.directory import (
    ALIGNMENT_FILE,
    MODEL_FOLDER,
    WEIGHTS_FILE,
    Languages,
    check_replaceable,
    read_description,
    read_tensors,
    write_model_files,
)
from rela.text.store import Tokenizers
from rela.training.checkpoints import list_checkpoints, read_state


def average_weights(folders: list[Path]) -> dict[str, Tensor]:
    """The mean of the weights of model directories, summed in float64, one directory in memory at a time."""
    sums: dict[str, Tensor] = {}
    for folder in folders:
        weights = read_tensors(folder / WEIGHTS_FILE)
        if sums and {n: t.shape for n, t in weights.items()} != {n: t.shape for n, t in sums.items()}:
            raise ValueError(f"{folder}: its weights have other names or shapes than those of {folders[0]}")
        for name, tensor in weights.items():
            if not bool(torch.isfinite(tensor).all()):
                raise ValueError(f"{folder}: expected finite weights, got NaN or infinity in {name}")
            sums[name] = sums[name].add_(tensor) if name in sums else tensor.double()
    return {name: (tensor / len(folders)).float() for name, tensor in sums.items()}


def average_run(run: Path, last: int, out: Path) -> list[int]:
    """Write the average of the last checkpoints of a run as a model directory; returns their steps.

    The run may be in training: if that deletes an old checkpoint meanwhile, those that are then the last are taken.
    """
    if last < 1:
        raise ValueError(f"last: expected at least 1 checkpoint, got {last}")
    check_replaceable(out)
    while True:
        chosen = [checkpoint for checkpoint in list_checkpoints(run) if checkpoint.scheduled][-last:]
        if not chosen:
            raise FileNotFoundError(f"{run}: expected a run with checkpoints, got none; `rela train` makes them")
        try:
            _write_average(run, [checkpoint.path for checkpoint in chosen], out)
        except FileNotFoundError:
            if all(checkpoint.path.exists() for checkpoint in chosen):  # a file is missing, not a checkpoint
                raise
        else:
            return [checkpoint.step for checkpoint in chosen]


def _write_average(run: Path, checkpoints: list[Path], out: Path) -> None:
    description = read_description(checkpoints[-1])
    steps = [read_state(checkpoint)["step"] for checkpoint in checkpoints]
    with new_folder(out) as partial:
        write_model_files(
            partial,
            average_weights(checkpoints),
            description["model"],
            Tokenizers.load(checkpoints[-1]),
            Languages(description["source_language"], description["target_language"]),
            {"average_of_steps": steps, **description.get("made_by", {})},
        )
        chosen = run / MODEL_FOLDER / ALIGNMENT_FILE  # at the end of the training, for its model
        if chosen.is_file():
            shutil.copyfile(chosen, partial / ALIGNMENT_FILE)
