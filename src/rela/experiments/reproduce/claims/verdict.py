"""Answers to claims: what they are made of, and when something holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from rela.experiments.reproduce.evidence import Evidence
from rela.experiments.reproduce.scales import Task

Answer = Literal["holds", "does not hold", "underpowered", "not measured"]


@dataclass(frozen=True, kw_only=True)
class Statement:
    """A part of a claim: the answer, in words and numbers, and the test of significance that gave it, if any did."""

    answer: Answer
    text: str
    test: str = ""
    paper: str = ""
    signature: str = ""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The answer to a claim; ``statements`` are its parts, each with its own answer and numbers."""

    number: int
    claim: str
    answer: Answer
    statements: tuple[Statement, ...]

    def to_json(self) -> dict[str, Any]:
        """For files."""
        return asdict(self)


def joined(answers: Sequence[Answer]) -> Answer:
    """A claim holds if all its parts do, and does not if one does not."""
    order: tuple[Answer, ...] = ("does not hold", "not measured", "underpowered", "holds")
    return next(answer for answer in order if answer in answers)


def by_seed(values: Sequence[float], percent: bool = True) -> str:
    """The mean over trainings, and the spread if there are several."""
    mean = float(np.mean(values))
    spread = f" ± {np.std(values, ddof=1):.1%}" if len(values) > 1 else ""
    if percent:
        return f"{mean:.1%}{spread}"
    return f"{mean:.2f}" + (f" ± {np.std(values, ddof=1):.2f}" if len(values) > 1 else "")


def growths(values: Sequence[Any]) -> list[float]:
    """By how much a measure is higher in the last layer than in the first, of each training."""
    return [float(value[-1] - value[0]) for value in values]


def layer_means(evidence: Evidence, task: Task, system: str, measure: str) -> list[float]:
    """The mean over layers of a measure, of each training."""
    return [float(np.nanmean(value)) for value in evidence.values(task, system, measure)]
