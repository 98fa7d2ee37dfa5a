"""Where a reproduction keeps what it found, and where it works. What is kept is never made again."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from rela._files import write_text
from rela.experiments.reproduce.plan import Job
from rela.experiments.reproduce.scales import Study, Task
from rela.training.config import TrainConfig, to_config

SCHEMA: Final = "rela-reproduction/1"


@dataclass(frozen=True, kw_only=True)
class Places:
    """Two folders: ``out`` has results as data, tables and figures; ``work`` has stores, runs and translations."""

    out: Path
    work: Path

    @property
    def data(self) -> Path:
        """Results as small JSON files."""
        return self.out / "data"

    def store(self, task: Task) -> Path:
        """The token store of a task."""
        return self.work / task.corpus / "store"

    def run(self, job: Job) -> Path:
        """The training of a job."""
        return self.work / job.name

    def kept(self, job: Job, what: str) -> Path:
        """A result of a job."""
        return self.data / f"{job.name}.{what}.json"

    def config(self, job: Job) -> TrainConfig:
        """All settings of a job's training."""
        settings = {**job.task.settings, "store": str(self.store(job.task)), "seed": job.seed}
        settings["model"] = {**job.task.settings["model"], "attention": job.system.attention}
        return to_config(settings, job.name)


def recipe_of(places: Places, job: Job) -> dict[str, Any]:
    """All that decides what comes out of a job, but for the text itself."""
    config = msgspec.to_builtins(places.config(job))
    config.pop("store")
    task = job.task
    sizes = {"merges": task.merges, "joint": task.joint, "train_pairs": task.train_pairs, "test_pairs": task.test_pairs}
    return {"corpus": task.corpus, **sizes, "system": job.system.name, "training": config}


def load_kept(places: Places, job: Job, what: str) -> dict[str, Any] | None:
    """A result that is there already; an error if it was made with other settings."""
    path = places.kept(job, what)
    if not path.exists():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        made_by, _ = found["recipe"], found["model"]
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path}: expected a result of `rela reproduce`, got something else; move it away") from None
    wanted = json.loads(json.dumps(recipe_of(places, job)))
    if made_by != wanted:
        different = ", ".join(_differences(made_by, wanted))
        raise ValueError(
            f"{path}: expected a result of these settings, got one of others ({different}); name another folder with "
            "--out, or move the file away to make it anew"
        )
    return found


def _differences(found: Any, wanted: Any, prefix: str = "") -> list[str]:
    """Names of settings that differ."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        names = dict.fromkeys((*found, *wanted))
        return [
            name
            for key in names
            for name in _differences(found.get(key), wanted.get(key), f"{prefix}.{key}".strip("."))
        ]
    return [] if found == wanted else [prefix]


def keep(places: Places, job: Job, what: str, facts: dict[str, Any]) -> dict[str, Any]:
    """Write a result, whole or not at all."""
    path = places.kept(job, what)
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = {"schema": SCHEMA, "job": job.name, "recipe": recipe_of(places, job), **facts}
    write_text(path, json.dumps(whole, ensure_ascii=False, allow_nan=False, indent=None) + "\n")
    return whole


def default_places(study: Study, out: Path | None, work: Path | None) -> Places:
    """Beside the current folder, unless told."""
    return Places(
        out=out or Path("reproduction") / study.name,
        work=work or Path("runs") / "reproduction" / study.name,
    )
