"""Runs: folders in which a training is started, and gone on with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rela._files import write_text
from rela.training.checkpoints import FOLDER
from rela.training.config import TrainConfig, dump_config, load_config
from rela.training.trainer import Reporter, Trainer
from rela.training.world import World

CONFIG_FILE: Final = "config.yaml"
_FIXED: Final = ("store", "split", "seed", "model", "batch", "optimizer", "rate")


def start(config: TrainConfig, run: Path, world: World, reporter: Reporter) -> Trainer:
    """A new run in a folder that has none."""
    if (run / CONFIG_FILE).exists() or (run / FOLDER).exists():
        raise FileExistsError(
            f"{run}: there is a run already; go on with `rela train --resume --run {run}`, or name another folder"
        )
    trainer = Trainer(config, run, world, reporter, resume=False)
    if world.is_first:
        run.mkdir(parents=True, exist_ok=True)
        write_text(run / CONFIG_FILE, dump_config(config))
    world.wait()
    return trainer


def resume(
    run: Path, world: World, reporter: Reporter, *, wanted: TrainConfig | None = None, overrides: Sequence[str] = ()
) -> Trainer:
    """Go on with the run in a folder, from its last checkpoint.

    What decides the weights must be as it was; budget, validation, checkpoints and log may be ``wanted`` otherwise.
    """
    if not (run / CONFIG_FILE).is_file():
        raise FileNotFoundError(f"{run}: expected a run that was started before, with {CONFIG_FILE} in it; got none")
    saved = load_config(run / CONFIG_FILE)
    config = load_config(run / CONFIG_FILE, overrides) if wanted is None else wanted
    for name in _FIXED:
        if getattr(config, name) != getattr(saved, name):
            raise ValueError(
                f"{run}: expected the settings it was started with, got another `{name}`: {getattr(config, name)} "
                f"instead of {getattr(saved, name)}; start a new run for that"
            )
    trainer = Trainer(config, run, world, reporter, resume=True)
    if world.is_first and config != saved:
        write_text(run / CONFIG_FILE, dump_config(config))
    return trainer
