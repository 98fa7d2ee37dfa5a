"""What has to be done for the tables and figures that are wanted: trainings in the order in which they are wanted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from rela.experiments.reproduce.scales import Role, Study, Task
from rela.experiments.reproduce.systems import ANALYSED, OURS, SYSTEMS, System, find_system

Step = Literal["test", "weights", "ranking", "cases"]
"""What is done with a trained model: the test set translated, its weights measured, noise ranked, pictures kept."""
STEPS: Final[tuple[Step, ...]] = ("test", "weights", "ranking", "cases")


@dataclass(frozen=True, kw_only=True)
class Part:
    """A table, a figure or the claims: of which tasks and systems it needs models, and what is done with them.

    Attributes:
        roles: of the tasks.
        systems: None for all of a task.
        speed: whether it needs the benchmarks.
    """

    roles: tuple[Role, ...] = ()
    systems: tuple[str, ...] | None = None
    steps: tuple[Step, ...] = ()
    speed: bool = False


_WEIGHTS: Final = Part(roles=("main",), systems=ANALYSED, steps=("weights",))
_LINKS: Final = Part(roles=("main", "gold"), systems=ANALYSED, steps=("test", "weights"))
NORMS: Final = ("softmax", "relu", "relu-rmsnorm", "rela-i", "rela-g")
"""What is shown along the training: with softmax, with no norm, and with the norms of the paper."""

_CASES: Final = Part(roles=("main",), systems=(OURS,), steps=("weights", "cases"))

PARTS: Final[dict[str, Part]] = {
    "table1": Part(roles=("main",), steps=("test",)),
    "table2": Part(speed=True),
    "table3": Part(roles=("main", "pair"), systems=ANALYSED, steps=("test",)),
    "table4": Part(),
    "table5": _LINKS,
    "table6": _WEIGHTS,
    "figure1": Part(),
    "figure2": Part(roles=("main",), systems=ANALYSED, speed=True),
    "figure3": _WEIGHTS,
    "figure4": _LINKS,
    "figure5": _WEIGHTS,
    "figure6": _WEIGHTS,
    "figure7": _CASES,
    "figure8": _CASES,
    "figure9": _CASES,
    "figure10": _CASES,
    "differences": Part(roles=("main",), steps=("test",)),
    "training": Part(roles=("main",), systems=NORMS),
    "claims": Part(roles=("main", "pair", "gold"), steps=("test", "weights", "ranking"), speed=True),
}
"""All that a reproduction shows, and what each takes."""


class Job(NamedTuple):
    """One training, and what is done with the model."""

    task: Task
    system: System
    seed: int
    steps: tuple[Step, ...]

    @property
    def name(self) -> str:
        """Of its files: unique in a study."""
        return f"{self.task.corpus}/{self.system.name}-{self.seed}"


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What of a study is wanted: some tables and figures, some systems, some seeds. None: all."""

    parts: tuple[str, ...] | None = None
    systems: tuple[str, ...] | None = None
    seeds: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        for name in self.systems or ():
            find_system(name)
        for name in self.parts or ():
            if name not in PARTS:
                raise ValueError(f"expected some of {', '.join(PARTS)}; got {name!r}")

    @property
    def chosen(self) -> list[Part]:
        """The parts themselves."""
        return [PARTS[name] for name in (PARTS if self.parts is None else self.parts)]

    def wants(self, part: str) -> bool:
        """Whether a part is among them."""
        return self.parts is None or part in self.parts

    @property
    def speed(self) -> bool:
        """Whether anything is to be timed."""
        return any(part.speed for part in self.chosen)


def jobs_of(study: Study, wanted: Wanted) -> list[Job]:
    """All trainings that are wanted: task by task, of each first those that most depends on.

    Systems that are asked for by name are trained on the main corpus even if the study has none of them, with one seed.
    """
    found: list[Job] = []
    for task in study.tasks:
        asked = [name for name in wanted.systems or task.seeds if task is study.main or name in task.seeds]
        for name, seed in _in_order({name: task.seeds.get(name, (1,)) for name in asked}):
            steps = _steps(task, SYSTEMS[name], wanted.chosen)
            if steps is not None and (wanted.seeds is None or seed in wanted.seeds):
                found.append(Job(task, SYSTEMS[name], seed, steps))
    return found


def _in_order(seeds: dict[str, tuple[int, ...]]) -> Iterator[tuple[str, int]]:
    """First what the paper analyses, all with one seed, then with the next; then its other systems; then ideas."""
    groups = (
        [name for name in seeds if name in ANALYSED],
        [name for name in seeds if name not in ANALYSED and SYSTEMS[name].row is not None],
        [name for name in seeds if SYSTEMS[name].row is None],
    )
    for members in groups:
        for place in range(max((len(seeds[name]) for name in members), default=0)):
            yield from ((name, seeds[name][place]) for name in members if place < len(seeds[name]))


def _steps(task: Task, system: System, parts: Sequence[Part]) -> tuple[Step, ...] | None:
    """What the parts want of a system's model; None if none of them wants it."""
    asking = [
        part for part in parts if task.role in part.roles and (part.systems is None or system.name in part.systems)
    ]
    if not asking:
        return None
    steps = {step for part in asking for step in part.steps if _makes_sense(step, task, system)}
    return tuple(step for step in STEPS if step in steps)


def _makes_sense(step: Step, task: Task, system: System) -> bool:
    """Weights are measured where the paper does, and of ideas; null rates rank pairs where there can be any."""
    match step:
        case "test":
            return True
        case "weights":
            return task.role != "pair" and (system.name in ANALYSED or system.row is None)
        case "ranking" | "cases":
            return task.role == "main" and system.can_be_null and system.name == OURS
