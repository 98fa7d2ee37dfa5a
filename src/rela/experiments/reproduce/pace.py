"""How long it will take, and whether trainings are faster side by side or one after the other: measured, then kept."""

from __future__ import annotations

import json
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from rela._files import write_text
from rela._machine import read_cpu
from rela.experiments.reproduce.places import Places
from rela.experiments.reproduce.plan import Job
from rela.training.config import TrainConfig, to_config

_FILE: Final = "pace.json"
_UPDATES: Final = 6
_AROUND: Final = 1.15
"""Validations, checkpoints and what is done with the model take so much more than the updates alone."""


class Pace(NamedTuple):
    """Target tokens a second of all trainings together, and how that is reached."""

    workers: int
    threads: int
    tokens_per_second: float


def measure_pace(places: Places, job: Job) -> Pace:
    """Side by side with one thread each, or one at a time with all: whichever brings more tokens a second."""
    path = places.work / _FILE
    cpu = read_cpu()
    config, cores = places.config(job), min(cpu.num_cores or cpu.num_threads, cpu.num_threads_usable)
    facts = {"config": msgspec.to_builtins(config), "cores": cores}
    if (kept := _read(path)) is not None and kept.get("facts") == json.loads(json.dumps(facts)):
        return Pace(*kept["pace"])
    together = sum(_speeds(config, [1] * cores))
    alone = together if cores == 1 else _speeds(config, [cores])[0]
    pace = Pace(cores, 1, together) if together >= alone else Pace(1, cores, alone)
    write_text(path, json.dumps({"facts": facts, "together": together, "alone": alone, "pace": pace}) + "\n")
    return pace


def estimate_seconds(places: Places, jobs: list[Job], pace: Pace) -> float:
    """For what is still to be trained, as if all systems were as fast as the one that was timed."""
    tokens = sum(places.config(job).budget.tokens or 0 for job in jobs)
    return _AROUND * tokens / pace.tokens_per_second


def _read(path: Path) -> dict[str, Any] | None:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _speeds(config: TrainConfig, threads: list[int]) -> list[float]:
    """Of trainings with so many threads each, all at the same time."""
    plain = msgspec.to_builtins(config)
    with ProcessPoolExecutor(len(threads), multiprocessing.get_context("spawn")) as pool:
        return list(pool.map(_speed, [plain] * len(threads), threads))


def _speed(plain: dict[str, Any], threads: int) -> float:
    import torch

    from rela.training.pace import tokens_per_second

    torch.set_num_threads(threads)
    return tokens_per_second(to_config(plain, "the pace"), _UPDATES)
