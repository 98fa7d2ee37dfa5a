"""Runs: folders in which a training is started, and gone on with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from rela._files import write_text
from rela._lock import FolderLock
from rela._warn import warn
from rela.model.directory import CHECKPOINTS_FOLDER, MODEL_FOLDER, check_replaceable
from rela.training.config import TrainConfig, dump_config, load_config
from rela.training.journal import LOG_FILE, STATUS_FILE
from rela.training.reporter import Reporter
from rela.training.trainer import Trainer
from rela.training.world import World

CONFIG_FILE: Final = "config.yaml"
_FIXED: Final = ("split", "seed", "model", "batch", "optimizer", "rate", "spoiling", "sparsity")


def start(config: TrainConfig, run: Path, world: World, reporter: Reporter) -> Trainer:
    """A new run in a folder that has none."""
    _check_new(run, world)
    trainer = Trainer(config, run, world, reporter, resume=False)
    locks: list[FolderLock] = []

    def make() -> None:
        run.mkdir(parents=True, exist_ok=True)
        locks.append(_lock(run))
        _check_new(run, world)  # somebody may have been faster
        write_text(run / CONFIG_FILE, dump_config(config))

    try:
        world.share(make)
    except BaseException:
        _release(locks)
        raise
    trainer.lock = next(iter(locks), None)
    return trainer


def _check_new(run: Path, world: World) -> None:
    if (run / CONFIG_FILE).exists() or (run / CHECKPOINTS_FOLDER).exists():
        option = "--run" if world.size == 1 else "--run-dir"  # torchrun takes --run for its own
        raise FileExistsError(
            f"{run}: there is a run already; go on with `rela train --resume {option} {run}`, or name another folder"
        )
    foreign = next((name for name in (MODEL_FOLDER, LOG_FILE, STATUS_FILE) if (run / name).exists()), None)
    if foreign is not None:
        raise FileExistsError(
            f"{run}: expected a folder for a new run, got one with {foreign} in it, which would be replaced; name "
            "another folder"
        )


def resume(
    run: Path, world: World, reporter: Reporter, *, wanted: TrainConfig | None = None, overrides: Sequence[str] = ()
) -> Trainer:
    """Go on with the run in a folder, from its last checkpoint.

    Model, batches, optimizer and rate must be as they were; budget, validation, checkpoints and log may be ``wanted``
    otherwise. The store may lie elsewhere now, if it is the same.
    """
    saved, config = world.share(lambda: _load(run, wanted, overrides))
    changes = _changes({name: _plain(saved, name) for name in _FIXED}, {name: _plain(config, name) for name in _FIXED})
    if changes:
        hint = "" if wanted is None else ", or leave CONFIG out to go on with the run's own settings"
        raise ValueError(
            f"{run}: expected the settings it was started with, got {', '.join(changes)}; start a new run for "
            f"that{hint}"
        )
    if not Path(config.store).exists():
        raise FileNotFoundError(
            f"{config.store}: expected the store that {run} was started with, there is none; if it has moved, or you "
            "are in another folder now, add --set store=PATH"
        )
    if config.rate.schedule == "linear" and config.budget != saved.budget and world.is_first:
        warn(
            f"{run}: with another budget, the rate of the schedule 'linear' is on another line than before, down to 0 "
            "at the end of the new budget"
        )
    locks: list[FolderLock] = []
    world.share(lambda: locks.append(_lock(run)))  # before anything in it is touched
    try:
        trainer = Trainer(config, run, world, reporter, resume=True)
        trainer.lock = next(iter(locks), None)
        if world.is_first and config != saved:
            write_text(run / CONFIG_FILE, dump_config(config))
    except BaseException:
        _release(locks)
        raise
    return trainer


def has_run(run: Path, world: World) -> bool:
    """Whether a run was started in a folder, as the first process sees it."""
    return world.share((run / CONFIG_FILE).exists)


def _load(run: Path, wanted: TrainConfig | None, overrides: Sequence[str]) -> tuple[TrainConfig, TrainConfig]:
    """The configuration that a run has, and the one it is to go on with."""
    if not (run / CONFIG_FILE).is_file():
        raise FileNotFoundError(f"{run}: expected a run that was started before, with {CONFIG_FILE} in it; got none")
    saved = load_config(run / CONFIG_FILE)
    check_replaceable(run / MODEL_FOLDER)  # an error now, not at the end
    return saved, load_config(run / CONFIG_FILE, overrides) if wanted is None else wanted


def _lock(run: Path) -> FolderLock:
    return FolderLock(
        run,
        f"{run}: expected a run that nobody trains, got one that another process is training now; wait for it, or stop "
        "it first",
    )


def _release(locks: Sequence[FolderLock]) -> None:
    """Let the next one in, in this process too: a traceback may keep the locks alive."""
    for lock in locks:
        lock.release()


def _plain(config: TrainConfig, name: str) -> object:
    return msgspec.to_builtins(getattr(config, name))


def _changes(before: Mapping[str, object], after: Mapping[str, object], prefix: str = "") -> list[str]:
    """What differs: ``model.dim 64 instead of 32``."""
    found: list[str] = []
    for name in dict.fromkeys((*before, *after)):
        old, new = before.get(name), after.get(name)
        if isinstance(old, dict) and isinstance(new, dict):
            found += _changes(old, new, f"{prefix}{name}.")
        elif old != new:
            found.append(f"{prefix}{name} {new} instead of {old}")
    return found
