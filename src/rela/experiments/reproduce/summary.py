"""All results of a study as its tables show them: means and spreads over seeds, differences, operations."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from rela._version import __version__
from rela.attention.cost import map_and_norm_operations
from rela.attention.spec import PRESETS
from rela.experiments.reproduce.evidence import Evidence, Found, MissingError
from rela.experiments.reproduce.job import DONE
from rela.experiments.reproduce.scales import Task
from rela.experiments.reproduce.systems import ANALYSED, BASELINE, SYSTEMS
from rela.text.registry import find_corpus

SCHEMA: Final = "rela-reproduction-summary/1"
METRICS: Final = ("bleu", "tokenised", "chrf")
LENGTHS: Final = (100, 1000)
_HEADS: Final = 8
_DIM: Final = 512


def summarise(evidence: Evidence) -> dict[str, Any]:
    """What tables 1, 3 and 4 show, with what has to be known about it."""
    study = evidence.study
    return {
        "schema": SCHEMA,
        "name": study.name,
        "corpus": study.corpus,
        "scale": study.scale,
        "rela_version": __version__,
        "tasks": [_task(evidence, task) for task in study.tasks],
        "table1": [row for name in SYSTEMS if (row := _row(evidence, study.main, name)) is not None],
        "table3": [_pair(evidence, task) for task in study.tasks if task.role != "gold"],
        "table4": [
            {
                "system": name,
                "operations": {
                    str(length): map_and_norm_operations(PRESETS[name], _HEADS, _DIM, length) for length in LENGTHS
                },
            }
            for name in ANALYSED
        ],
    }


def _task(evidence: Evidence, task: Task) -> dict[str, Any]:
    corpus = find_corpus(task.corpus)
    trained = [found for name in SYSTEMS for found in evidence.of(task, name, "train")]
    return {
        "corpus": task.corpus,
        "role": task.role,
        "source": corpus.source_language,
        "target": corpus.target_language,
        "merges": task.merges,
        "settings": task.settings,
        "seeds": {name: list(seeds) for name, seeds in task.seeds.items()},
        "trainings": len(trained),
        "target_tokens": max((found.facts["tokens"] for found in trained), default=None),
    }


def _row(evidence: Evidence, task: Task, name: str) -> dict[str, Any] | None:
    """A system of table 1; None if it was not trained."""
    trained = evidence.of(task, name, "train")
    if not trained:
        return None
    tested = evidence.of(task, name, "test")
    return {
        "row": SYSTEMS[name].row,
        "system": name,
        "what": SYSTEMS[name].what,
        "seeds": [found.seed for found in trained],
        "tested": [found.seed for found in tested],
        "failed": [found.facts["reason"] for found in trained if found.facts["status"] != DONE],
        "parameters": next((found.facts["parameters"] for found in trained if found.facts["parameters"]), None),
        "dev_loss": _spread([found.facts["dev_loss"] for found in trained if found.facts["dev_loss"] is not None]),
        **{metric: _metric(evidence, tested, metric) for metric in METRICS},
        "difference": _difference(evidence, task, name) if tested and name != BASELINE else None,
    }


def _metric(evidence: Evidence, tested: list[Found], metric: str) -> dict[str, Any] | None:
    scores = [evidence.first_test(found)[metric] for found in tested if metric in evidence.first_test(found)]
    if not scores:
        return None
    return {**_spread([score["score"] for score in scores]), "signature": scores[0]["signature"]}


def _spread(values: list[float]) -> dict[str, Any]:
    return {
        "mean": float(np.mean(values)) if values else None,
        "spread": float(np.std(values, ddof=1)) if len(values) > 1 else None,
        "values": values,
    }


def _difference(evidence: Evidence, task: Task, name: str) -> dict[str, Any] | None:
    """From softmax, in BLEU."""
    try:
        found = evidence.difference(task, name, BASELINE)
    except MissingError:
        return None
    return {"delta": found.delta, "low": found.low, "high": found.high, "p": found.p, "signature": found.signature}


def _pair(evidence: Evidence, task: Task) -> dict[str, Any]:
    systems = [name for name in evidence.systems(task, "test") if name in ANALYSED]
    return {
        "corpus": task.corpus,
        "systems": {
            name: {
                "bleu": _metric(evidence, evidence.of(task, name, "test"), "bleu"),
                "difference": None if name == BASELINE else _difference(evidence, task, name),
            }
            for name in systems
        },
    }
