"""Claims 8 to 10: zeros, links between words, and how different heads are."""

from __future__ import annotations

from typing import Final

import numpy as np

from rela.attention.spec import KINDS
from rela.experiments.reproduce.claims.significance import (
    Judged,
    judge_draws,
    judge_margins,
    judge_means,
    mean_of_drawn,
)
from rela.experiments.reproduce.claims.verdict import Statement, by_seed, growths, joined, layer_means
from rela.experiments.reproduce.evidence import Evidence, MissingError, Values
from rela.experiments.reproduce.scales import Task
from rela.experiments.reproduce.systems import ANALYSED, OURS

_AER: Final = {"aol": "layer attention (AoL)", "aoh": "best heads (AoH)"}
_PAPER_AER: Final = {
    ("aol", "normal"): "64.46; the others 75.95 to 78.82",
    ("aol", "shifted"): "59.24; the others 79.38 to 82.32",
    ("aoh", "normal"): "61.64; the others 67.51 to 67.88",
    ("aoh", "shifted"): "52.41; the others 54.31 to 58.98",
}


def sparsity(evidence: Evidence) -> list[Statement]:
    main = evidence.study.main
    statements: list[Statement] = []
    for system in ("sparsemax", "entmax15", OURS):
        rates = {kind: layer_means(evidence, main, system, f"{kind}.sparsity.layer") for kind in KINDS}
        margins = [cross - max(rest) for *rest, cross in zip(*(rates[kind] for kind in KINDS), strict=True)]
        text = ", ".join(f"{kind} {by_seed(found)}" for kind, found in rates.items())
        statements.append(
            Statement(**judge_margins(margins)._asdict(), text=f"{system}, cross is the sparsest kind: {text}.")
        )
    overall = {
        system: np.mean(
            [layer_means(evidence, main, system, f"{kind}.sparsity.layer") for kind in KINDS], axis=0
        ).tolist()
        for system in ("entmax15", OURS, "sparsemax")
    }
    for first, second in ((OURS, "entmax15"), ("sparsemax", OURS)):
        text = f"{first} has more zeros than {second}: {by_seed(overall[first])} and {by_seed(overall[second])}."
        statements.append(Statement(**judge_means(overall[first], overall[second])._asdict(), text=text))
    for kind in ("decoder", "cross"):
        values = evidence.values(main, OURS, f"{kind}.sparsity.layer")
        text = ", ".join(f"{rate:.0%}" for rate in np.mean(values, axis=0))
        statements.append(
            Statement(**judge_margins(growths(values))._asdict(), text=f"{OURS}, {kind} grows with depth: {text}.")
        )
    return statements


def alignment(evidence: Evidence) -> list[Statement]:
    if not evidence.linked:
        raise MissingError("weights beside gold links")
    return [statement for task in evidence.linked for statement in _alignment_of(evidence, task)]


def _alignment_of(evidence: Evidence, task: Task) -> list[Statement]:
    systems = [name for name in evidence.systems(task, "weights") if name in ANALYSED]
    statements = [_best_layer(evidence, task)]
    for score, what in _AER.items():
        draws = {
            (system, shift): evidence.draws(task, system, f"{score}.{shift}")
            for system in systems
            for shift in ("normal", "shifted")
        }
        means = {key: by_seed(layer_means(evidence, task, key[0], f"cross.{score}.{key[1]}.merged")) for key in draws}
        improved = {
            system: judge_draws(
                mean_of_drawn(
                    [one - other for one, other in zip(draws[system, "normal"], draws[system, "shifted"], strict=True)]
                ),
                len(draws[system, "normal"]),
            )
            for system in systems
        }
        text = "; ".join(
            f"{system} {means[system, 'normal']} and {means[system, 'shifted']}"
            + ("" if system == OURS else f" ({improved[system].answer})")
            for system in systems
        )
        statements.append(
            Statement(
                **improved[OURS]._asdict(),
                text=f"{task.corpus}, {what}, shifted beats normal, {OURS} (the others in brackets): {text}.",
            )
        )
        for shift in ("normal", "shifted"):
            judged = {
                system: _is_lower(draws[OURS, shift], draws[system, shift]) for system in systems if system != OURS
            }
            if judged:
                tests = "; ".join(f"{system} minus {OURS}: {found.test}" for system, found in judged.items())
                values = ", ".join(f"{system} {means[system, shift]}" for system in systems)
                statements.append(
                    Statement(
                        answer=joined([found.answer for found in judged.values()]),
                        test=tests,
                        text=f"{task.corpus}, {what}, {shift}, {OURS} has the lowest error: {values}.",
                        paper=_PAPER_AER[score, shift],
                    )
                )
    return statements


def _best_layer(evidence: Evidence, task: Task) -> Statement:
    layers = evidence.values(task, OURS, "cross.aer.shifted.merged.layer_attention")
    best = ", ".join(str(int(np.nanargmin(value)) + 1) for value in layers)
    text = f"{task.corpus}, {OURS}'s best layer is a middle one: layer {best} of {len(layers[0])}."
    if len(layers[0]) < 3:
        return Statement(answer="not measured", test="a model of two layers has no middle one", text=text)
    draws = evidence.draws(task, OURS, "middle.shifted")
    return Statement(**judge_draws(mean_of_drawn(draws), len(draws))._asdict(), text=text)


def _is_lower(ours: list[Values], other: list[Values]) -> Judged:
    return judge_draws(mean_of_drawn(other, 1) - mean_of_drawn(ours, 2), min(len(ours), len(other)))


def diversity(evidence: Evidence) -> list[Statement]:
    main = evidence.study.main
    found = {
        system: {kind: layer_means(evidence, main, system, f"{kind}.diversity.mean") for kind in KINDS}
        for system in ANALYSED
    }
    statements: list[Statement] = []
    for system in ANALYSED:
        margins = [encoder - max(rest) for encoder, *rest in zip(*(found[system][kind] for kind in KINDS), strict=True)]
        text = ", ".join(f"{kind} {by_seed(found[system][kind], percent=False)}" for kind in KINDS)
        statements.append(
            Statement(**judge_margins(margins)._asdict(), text=f"{system}, encoder heads disagree most: {text}.")
        )
    for kind in KINDS:
        others = {system: found[system][kind] for system in ANALYSED if system != OURS}
        most = max(others, key=lambda system: float(np.mean(others[system])))
        ours = found[OURS][kind]
        statements.append(
            Statement(
                **judge_means(ours, others[most])._asdict(),
                text=f"{kind}: {OURS} {by_seed(ours, percent=False)}, the most diverse of the others ({most}) "
                f"{by_seed(others[most], percent=False)}.",
            )
        )
        statements.append(_at_low_tau(evidence, main, kind, found["softmax"][kind]))
    return statements


def _at_low_tau(evidence: Evidence, main: Task, kind: str, softmax: list[float]) -> Statement:
    """The diversity that is lowest of all tau against that of softmax; and it must not rise as tau falls."""
    taus = evidence.values(main, OURS, f"{kind}.diversity.tau.mean")
    above = judge_means([float(min(one)) for one in taus], softmax)
    falls = judge_margins([float(one[0] - one[-1]) for one in taus])
    text = ", ".join(f"{value:.2f}" for value in np.mean(taus, axis=0))
    return Statement(
        answer=joined([above.answer, falls.answer]),
        test=f"above softmax: {above.test}; falls: {falls.test}",
        text=f"{kind}: less diverse as tau falls (1, 0.5, 0.25, 0.1: {text}), and still above softmax "
        f"({float(np.mean(softmax)):.2f}).",
    )
