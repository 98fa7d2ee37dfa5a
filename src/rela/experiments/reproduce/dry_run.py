"""What a reproduction would do, in words: every setting with its source, sizes, commands, an estimate of time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from rela.attention.cost import transformer_parameters
from rela.attention.spec import PRESETS
from rela.experiments.reproduce.places import Places
from rela.experiments.reproduce.plan import Job, Wanted, jobs_of
from rela.experiments.reproduce.scales import Study
from rela.experiments.reproduce.sources import Source, flattened, source_of
from rela.experiments.reproduce.systems import SYSTEMS
from rela.model.config import SIZES
from rela.training.config import TrainConfig

GPUS: Final = 8
_SUSTAINED: Final = 40e12
"""Operations a second that one GPU is assumed to reach: about a quarter of an A100's peak with TF32."""
_LENGTH: Final = 30  # pieces a sentence, about that of newstest
_VOCABULARY: Final = 55_000
"""Rows of both embeddings together that fit the paper's 72.31 million parameters."""


@dataclass(frozen=True)
class Setting:
    """One setting, and where it comes from."""

    name: str
    value: Any
    source: Source
    said: str


@dataclass(frozen=True)
class Description:
    """Of a study that is not run."""

    study: Study
    jobs: list[Job]
    settings: dict[str, list[Setting]]
    configs: dict[str, TrainConfig]
    parameters: dict[str, int]
    commands: list[str]
    gpu_hours: float | None

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "schema": "rela-reproduce-plan/1",
            "name": self.study.name,
            "jobs": [job.name for job in self.jobs],
            "settings": {corpus: [vars(setting) for setting in settings] for corpus, settings in self.settings.items()},
            "parameters": self.parameters,
            "commands": self.commands,
            "gpu_hours": self.gpu_hours,
        }

    def lines(self) -> Iterator[str]:
        """For people."""
        yield f"{self.study.name}: {len(self.jobs)} trainings"
        for task in self.study.tasks:
            names = [f"{job.system.name}-{job.seed}" for job in self.jobs if job.task is task]
            if names:
                yield f"  {task.corpus} ({task.role}): {', '.join(names)}"
        first: dict[str, Setting] = {}
        for corpus, settings in self.settings.items():
            other = [setting for setting in settings if first.get(setting.name) != setting]
            yield ""
            yield f"settings of {corpus}" + (", where they differ" if first else "")
            for setting in other:
                said = f": {setting.said}" if setting.said else ""
                yield f"  {setting.name} = {setting.value}  [{setting.source}{said}]"
            first = first or {setting.name: setting for setting in settings}
        if self.parameters:
            yield ""
            yield f"parameters, with {_VOCABULARY:,} embedding rows"
            yield from (f"  {name}: {count:,}" for name, count in self.parameters.items())
        yield ""
        yield "commands"
        yield from (f"  {command}" for command in self.commands)
        if self.gpu_hours is not None:
            yield ""
            yield (
                f"about {self.gpu_hours:,.0f} GPU-hours in all, if a GPU sustains {_SUSTAINED / 1e12:.0f} TFLOP/s; an "
                "estimate from counted operations, not a measurement"
            )


def describe_study(study: Study, wanted: Wanted, places: Places) -> Description:
    """All of it, for the jobs that are wanted."""
    jobs = jobs_of(study, wanted)
    firsts = {job.task.corpus: job for job in reversed(jobs)}
    configs = {task.corpus: places.config(firsts[task.corpus]) for task in study.tasks if task.corpus in firsts}
    return Description(
        study,
        jobs,
        {corpus: _settings(study, firsts[corpus], config) for corpus, config in configs.items()},
        configs,
        _parameters() if study.scale == "paper" else {},
        _commands(study, jobs, places),
        _gpu_hours(jobs, places) if study.scale == "paper" else None,
    )


def _settings(study: Study, job: Job, config: TrainConfig) -> list[Setting]:
    plain = msgspec.to_builtins(config)
    plain["model"] = {name: value for name, value in plain["model"].items() if value is not None}
    plain["model"]["attention"] = "by system"
    found = [
        Setting("prepare.merges", job.task.merges, "paper" if study.scale == "paper" else "ours", "BPE"),
        Setting("prepare.joint", job.task.joint, *source_of("prepare.joint", study.scale)),
    ]
    for name, value in flattened(plain).items():
        found.append(Setting(name, value, *source_of(name, study.scale)))
    paper: Source = "paper"
    return [
        *found,
        Setting("translate.beam", 4, paper, "beam 4"),
        Setting("translate.length_penalty", 0.6, paper, "((5 + length) / 6) ** 0.6"),
    ]


def _parameters() -> dict[str, int]:
    size = SIZES["base"]
    return {
        name: transformer_parameters(
            PRESETS[name], size["num_heads"], size["dim"], size["encoder_layers"], size["ffn_dim"], _VOCABULARY
        )
        for name in SYSTEMS
        if name in PRESETS
    }


def _commands(study: Study, jobs: list[Job], places: Places) -> list[str]:
    """By hand, what the command does for one job; the others go alike."""
    if not jobs:
        return []
    job = jobs[0]
    store, run = places.store(job.task), places.run(job)
    separate = "" if job.task.joint else " --separate"
    if study.scale != "paper":
        return [f"rela reproduce --corpus {study.corpus} --scale {study.scale}"]
    return [
        f"rela prepare {store} --corpus {job.task.corpus} --merges {job.task.merges}{separate}",
        f"torchrun --nproc-per-node {GPUS} -m rela train configs/wmt14-en-de.yaml --device cuda --run-dir {run} "
        f"--set store={store} --set seed={job.seed} --set model.attention={job.system.attention}",
        f"rela translate --model {run} {store}/test.source.txt -o {run}/test.hypotheses.txt",
        f"rela evaluate {run}/test.hypotheses.txt --reference {store}/test.target.txt",
    ]


def _gpu_hours(jobs: list[Job], places: Places) -> float:
    """From the operations of matrix products, forward and backward."""
    from rela.bench.train import operations

    total = 0.0
    for job in jobs:
        config = places.config(job)
        sizes = config.model.resolve(_VOCABULARY // 2, _VOCABULARY // 2, joint=job.task.joint)
        tokens = (config.budget.steps or 0) * config.batch.update_tokens
        total += operations(sizes, _LENGTH, _LENGTH) / _LENGTH * tokens
    return total / _SUSTAINED / 3600
