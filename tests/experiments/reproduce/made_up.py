"""Results of a study as its files would have them, with numbers of our choice."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rela.experiments.reproduce.evidence import Evidence
from rela.experiments.reproduce.places import Places, keep
from rela.experiments.reproduce.plan import Job, Wanted, jobs_of
from rela.experiments.reproduce.scales import Study, find_study

LAYERS, HEADS, SENTENCES = 4, 2, 300
KINDS = ("encoder", "decoder", "cross")
BLEU = {"softmax": 0.50, "relu-rmsnorm": 0.40, "rela-i": 0.46, "rela-g": 0.47, "rela-g-encoder": 0.44}
"""How many words of each system are right, others 0.47."""


SHIFTS = (("normal", 0.0), ("shifted", 0.05))


def measure(value: Any, axes: tuple[str, ...], labels: Mapping[str, list[str]] | None = None) -> dict[str, Any]:
    return {"signature": "made|up", "axes": list(axes), "labels": dict(labels or {}), "value": value}


def by_layer(first: float, last: float) -> list[float]:
    return [round(float(value), 4) for value in np.linspace(first, last, LAYERS)]


def weights(system: str) -> dict[str, Any]:
    """Measures of a model for which the paper's claims hold."""
    ours = system == "rela-g"
    zeros = {"softmax": 0.0, "entmax15": 0.5, "rela-g": 0.6, "sparsemax": 0.7}[system]
    different = {"softmax": 0.3, "sparsemax": 0.5, "entmax15": 0.6, "rela-g": 0.9}[system]
    error = {"softmax": 0.7, "sparsemax": 0.72, "entmax15": 0.71, "rela-g": 0.5}[system]
    found: dict[str, Any] = {"loss": measure(1.0, ())}
    for place, kind in enumerate(KINDS):
        rates = by_layer(zeros - 0.1 + 0.1 * place, zeros + 0.1 * place) if zeros else [0.0] * LAYERS
        nulls = {"encoder": [0.01] * LAYERS, "decoder": by_layer(0.1, 0.4), "cross": [0.2, 0.6, 0.3, 0.3]}[kind]
        diversity = different - 0.05 * place
        found |= {
            f"{kind}.sparsity.layer": measure(rates, ("layer",)),
            f"{kind}.null.layer": measure(nulls if ours else [0.0] * LAYERS, ("layer",)),
            f"{kind}.null": measure([[rate] * HEADS for rate in nulls], ("layer", "head")),
            f"{kind}.null.variance": measure([0.1] * LAYERS, ("layer",)),
            f"{kind}.null.layer_attention": measure([0.001] * LAYERS, ("layer",)),
            f"{kind}.diversity": measure([diversity] * LAYERS, ("layer",)),
            f"{kind}.diversity.mean": measure(diversity, ()),
        }
        if ours:
            taus = [diversity - 0.05 * step for step in range(4)]
            labels = {"tau": ["1", "0.5", "0.25", "0.1"]}
            found[f"{kind}.diversity.tau.mean"] = measure(taus, ("tau",), labels)
            found[f"{kind}.diversity.tau"] = measure([[tau] * LAYERS for tau in taus], ("tau", "layer"), labels)
    for shift, better in SHIFTS:
        errors = [error - better + away for away in (0.1, 0.0, 0.05, 0.1)]
        found |= {
            f"cross.aer.{shift}.merged": measure([[one, one + 0.1] for one in errors], ("layer", "head")),
            f"cross.aer.{shift}.merged.layer_attention": measure(errors, ("layer",)),
            **{
                f"cross.{what}.{shift}.{rule}": measure(error - better, ())
                for what in ("aol", "aoh")
                for rule in ("merged", "any")
            },
        }
    if ours:
        found |= {
            "hallucinated.null.real": measure([0.2, 0.3, 0.3, 0.2], ("layer",)),
            "hallucinated.null.shuffled": measure([0.3, 0.5, 0.4, 0.4], ("layer",)),
            "hallucinated.auc.mean": measure(0.8, ()),
        }
    return found


def facts(job: Job, what: str, bleu: Mapping[str, float]) -> dict[str, Any]:
    return {"model": None if (job.system.name, what) == ("relu", "train") else job.name, **_facts(job, what, bleu)}


def _facts(job: Job, what: str, bleu: Mapping[str, float]) -> dict[str, Any]:
    name = job.system.name
    if what == "train":
        failed = name == "relu"
        return {
            "status": "failed" if failed else "done",
            "reason": "the training diverged at update 5: the loss did not decrease" if failed else None,
            "parameters": None if failed else 1000,
            "steps": 10,
            "tokens": 6_000_000,
            "seconds": 1000.0,
            "dev_loss": 2.0,
            "curve": {"step": [1, 10], "nll": [9.0, 2.0], "gradient_norm": [80.0 if failed else 1.0, 0.5]},
            "validations": {"step": [10], "loss": [2.0]},
            "rela_version": "0",
            "code": "0",
        }
    if what == "test":
        right = np.random.default_rng([job.seed, 7]).random((SENTENCES, 10)) < bleu.get(name, 0.47)
        rows = [[11, 11, *(max(0, int(one.sum()) + 1 - order) for order in range(4))] for one in right]
        score = {"score": 100 * bleu.get(name, 0.47) + job.seed / 10, "signature": "BLEU|made|up"}
        return {
            "test": {"test": {"sentences": SENTENCES, "bleu": score, "tokenised": score, "chrf": score, "counts": rows}}
        }
    if what == "ranking":
        scores = {"null_rate": 0.7, "cross_entropy": 0.9}
        return {"auc": {"shuffled": scores, "insertion": scores}, "counts": {}, "signature": "noise|made|up"}
    if what == "cases":
        return {"examples": None, "best": None, "reason": "none"}
    gold = {"name": "gold"} if job.task.corpus != "multi30k-en-de" else None
    findings = [{"sort": "specialist", "strength": 0.9, "text": "Layer 2 head 1 fires after commas.", "kind": "cross",
                 "layer": 2, "head": 1, "category": "PUNCT ,", "sentence": None}]  # fmt: skip
    entry = {"name": f"{name}, seed {job.seed}", "group": name, "seed": job.seed, "attention": name,
             "findings": findings if name == "rela-g" else [], "measures": weights(name)}  # fmt: skip
    found = {"entry": entry, "data": {"gold": gold, "source": "a", "target": "b", "tags": "made up"}}
    return found if gold is None else {**found, "alignment": {"sentences": SENTENCES, "draws": drawn(name, job.seed)}}


def drawn(system: str, seed: int) -> dict[str, list[float]]:
    """Errors on drawn sentences, around those of :func:`weights`."""
    error = {"softmax": 0.7, "sparsemax": 0.72, "entmax15": 0.71, "rela-g": 0.5}[system]
    chance = np.random.default_rng(seed).normal(0, 0.002, 1000)
    means = {f"{what}.{shift}": error - better for what in ("aol", "aoh") for shift, better in SHIFTS}
    return {name: (mean + chance * (-1) ** place).tolist() for place, (name, mean) in enumerate(means.items())} | {
        "middle.shifted": (0.05 + chance).tolist()
    }


def make_study(
    folder: Path, corpus: str = "multi30k-en-de", *, bleu: Mapping[str, float] | None = None, but: tuple[str, ...] = ()
) -> Evidence:
    """A study whose every training is done, but for some systems."""
    study: Study = find_study(corpus, "laptop")
    places = Places(out=folder / "out", work=folder / "work")
    for job in jobs_of(study, Wanted()):
        if job.system.name in but:
            continue
        keep(places, job, "train", facts(job, "train", bleu or BLEU))
        for step in job.steps if job.system.name != "relu" else ():
            if step != "weights" or job.system.row is not None:
                keep(places, job, step, facts(job, step, bleu or BLEU))
    return Evidence(study, places)
