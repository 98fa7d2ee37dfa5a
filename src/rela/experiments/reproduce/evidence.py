"""All that was found, as it lies in the files: by task, system and seed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rela.evaluation.counts import Counts
from rela.evaluation.runs import Difference, difference_of_runs
from rela.evaluation.sacre import bleu_counts
from rela.experiments.reproduce.places import Places
from rela.experiments.reproduce.scales import Study, Task
from rela.experiments.reproduce.speed import FILE as SPEED_FILE
from rela.experiments.reproduce.systems import SYSTEMS

Values = NDArray[np.float64]


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

    def of(self, task: Task, system: str, what: str) -> list[Found]:
        """All seeds' results of a system, in their order."""
        folder = self.places.data / task.corpus
        found: list[Found] = []
        for path in sorted(folder.glob(f"{system}-*.{what}.json")):
            seed = path.name.removeprefix(f"{system}-").partition(".")[0]
            if seed.isdigit():
                found.append(Found(task, system, int(seed), json.loads(path.read_text(encoding="utf-8"))))
        return sorted(found, key=lambda one: one.seed)

    def needed(self, task: Task, system: str, what: str) -> list[Found]:
        """The same; an error if there is none."""
        found = self.of(task, system, what)
        if not found:
            raise MissingError(f"{what} of {system} on {task.corpus}")
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

    def difference(self, task: Task, first: str, second: str) -> Difference:
        """In BLEU, with its interval."""
        return difference_of_runs(self.counts(task, first), self.counts(task, second))

    def values(self, task: Task, system: str, measure: str) -> list[Values]:
        """A measure of weights, of each seed."""
        found = self.needed(task, system, "weights")
        entries = [one.facts["entry"]["measures"].get(measure) for one in found]
        if any(entry is None for entry in entries):
            raise MissingError(f"{measure} of {system} on {task.corpus}")
        return [np.array(entry["value"], np.float64) for entry in entries if entry is not None]

    def draws(self, task: Task, system: str, name: str) -> list[Values]:
        """Errors of alignment on drawn sentences, of each training."""
        found = [one.facts.get("alignment") for one in self.needed(task, system, "weights")]
        if any(one is None or name not in one["draws"] for one in found):
            raise MissingError(f"{name} of {system} on {task.corpus}")
        return [np.array(one["draws"][name], np.float64) for one in found if one is not None]

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
