"""All that was found, as it lies in the files: by task, system and seed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rela.evaluation.counts import Counts
from rela.evaluation.runs import Difference, Spread, contrast_of_runs
from rela.evaluation.sacre import bleu_counts
from rela.experiments.reproduce.job import FAILED
from rela.experiments.reproduce.places import Places, load_kept
from rela.experiments.reproduce.plan import Job
from rela.experiments.reproduce.scales import Study, Task
from rela.experiments.reproduce.speed import FILE as SPEED_FILE
from rela.experiments.reproduce.systems import SYSTEMS

Values = NDArray[np.float64]


_WHAT: Final = {"train": "training", "test": "translation", "weights": "analysis", "ranking": "ranking of pairs"}


class MissingError(ValueError):
    """Something was not measured; the message says what."""


@dataclass(frozen=True)
class Found:
    """One kept result."""

    task: Task
    system: str
    seed: int
    facts: dict[str, Any]


@dataclass(frozen=True)
class Evidence:
    """Reads the files of a study when they are asked for."""

    study: Study
    places: Places
    _read: dict[str, dict[str, Any] | None] = field(default_factory=dict[str, "dict[str, Any] | None"], repr=False)

    def of(self, task: Task, system: str, what: str) -> list[Found]:
        """All seeds' results of a system, in their order."""
        folder = self.places.data / task.corpus
        names = (path.name.removeprefix(f"{system}-") for path in folder.glob(f"{system}-*.{what}.json"))
        seeds = sorted(int(seed) for name in names if (seed := name.partition(".")[0]).isdigit())
        return [Found(task, system, seed, facts) for seed in seeds if (facts := self._kept(task, system, seed, what))]

    def _kept(self, task: Task, system: str, seed: int, what: str) -> dict[str, Any] | None:
        """Read once. An error if it was made with other settings."""
        job = Job(task, SYSTEMS[system], seed, ())
        key = f"{job.name}.{what}"
        if key not in self._read:
            self._read[key] = load_kept(self.places, job, what)
        return self._read[key]

    def needed(self, task: Task, system: str, what: str) -> list[Found]:
        """The same; an error if there is none."""
        found = self.of(task, system, what)
        if not found:
            raise MissingError(f"{_WHAT[what]} of {system} on {task.corpus}")
        return found

    def systems(self, task: Task, what: str) -> list[str]:
        """Those with such results, in the order of the table."""
        return [name for name in SYSTEMS if self.of(task, name, what)]

    def first_test(self, found: Found) -> dict[str, Any]:
        """The scores on the test set that tables show."""
        return next(iter(found.facts["test"].values()))

    def scores(self, task: Task, system: str, metric: str = "bleu") -> list[float]:
        """Of each seed."""
        return [self.first_test(found)[metric]["score"] for found in self.needed(task, system, "test")]

    def counts(self, task: Task, system: str) -> list[Counts]:
        """Of each seed, for tests of significance."""
        return [bleu_counts(self.first_test(found)["counts"]) for found in self.needed(task, system, "test")]

    def spread(self, task: Task) -> Spread | None:
        """How far apart trainings of a system are in BLEU: here or, if none was trained twice, on the main corpus."""
        for one in (task, self.study.main):
            systems = self.systems(one, "test")
            if (found := Spread.pooled([self.scores(one, system) for system in systems])) is not None:
                return found
        return None

    def difference(self, task: Task, first: str, second: str) -> Difference:
        """In BLEU, with its interval."""
        return self.contrast(task, {first: 1.0, second: -1.0})

    def contrast(self, task: Task, weights: Mapping[str, float]) -> Difference:
        """A sum of systems' BLEU, each with a weight."""
        parts = [(weight, self.counts(task, system)) for system, weight in weights.items()]
        return contrast_of_runs(parts, self.spread(task))

    def values(self, task: Task, system: str, measure: str) -> list[Values]:
        """A measure of weights, of each seed."""
        found = self.needed(task, system, "weights")
        entries = [one.facts["entry"]["measures"].get(measure) for one in found]
        if any(entry is None for entry in entries):
            raise MissingError(f"{measure} of {system} on {task.corpus}")
        return [np.array(entry["value"], np.float64) for entry in entries if entry is not None]

    def signature(self, task: Task, system: str, measure: str) -> str:
        """Of a measure of weights; the first seed's."""
        return self.needed(task, system, "weights")[0].facts["entry"]["measures"][measure]["signature"]

    def draws(self, task: Task, system: str, name: str) -> list[Values]:
        """Errors of alignment on drawn sentences, of each training."""
        found = [one.facts.get("alignment") for one in self.needed(task, system, "weights")]
        if any(one is None or name not in one["draws"] for one in found):
            raise MissingError(f"{name} of {system} on {task.corpus}")
        return [np.array(one["draws"][name], np.float64) for one in found if one is not None]

    def failure(self, task: Task, system: str) -> str | None:
        """Why no training of a system came to its end; None if one did, or none was tried."""
        trained = self.of(task, system, "train")
        failed = [one.facts["reason"] for one in trained if one.facts["status"] == FAILED]
        return failed[0] if failed and len(failed) == len(trained) else None

    @cached_property
    def linked(self) -> list[Task]:
        """The tasks whose weights were compared with gold links."""
        return [
            task
            for task in self.study.tasks
            if any(
                found.facts["data"]["gold"] is not None
                for system in SYSTEMS
                for found in self.of(task, system, "weights")
            )
        ]

    @cached_property
    def speeds(self) -> dict[str, dict[str, Any]]:
        """The measures of table 2 and figure 2, by system."""
        path = self.places.data / SPEED_FILE
        if not path.exists():
            raise MissingError("benchmark of speed")
        return {entry["name"]: entry["measures"] for entry in json.loads(path.read_text(encoding="utf-8"))["models"]}
