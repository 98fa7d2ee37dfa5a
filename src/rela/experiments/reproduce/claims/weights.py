"""Claims 8 to 10: zeros, links between words, and how different heads are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from rela.alignment.batched import SHIFTS
from rela.attention.spec import KINDS
from rela.evaluation.runs import Spread
from rela.experiments.reproduce.claims.significance import Judged, judge_draws, judge_margins, judge_means
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


def _statement(judged: Judged, text: str, signature: str, paper: str = "") -> Statement:
    return Statement(**judged._asdict(), text=text, signature=signature, paper=paper)


def sparsity(evidence: Evidence) -> list[Statement]:
    main = evidence.study.main
    statements: list[Statement] = []
    for system in ("sparsemax", "entmax15", OURS):
        rates = {kind: layer_means(evidence, main, system, f"{kind}.sparsity.layer") for kind in KINDS}
        margins = [cross - max(rest) for *rest, cross in zip(*(rates[kind] for kind in KINDS), strict=True)]
        text = ", ".join(f"{kind} {by_seed(found)}" for kind, found in rates.items())
        signature = evidence.signature(main, system, "cross.sparsity.layer")
        statements.append(
            _statement(judge_margins(margins), f"{system}, cross is the sparsest kind: {text}.", signature)
        )
    overall = {
        system: np.mean(
            [layer_means(evidence, main, system, f"{kind}.sparsity.layer") for kind in KINDS], axis=0
        ).tolist()
        for system in ("entmax15", OURS, "sparsemax")
    }
    signature = evidence.signature(main, OURS, "cross.sparsity.layer")
    for first, second in ((OURS, "entmax15"), ("sparsemax", OURS)):
        text = f"{first} has more zeros than {second}: {by_seed(overall[first])} and {by_seed(overall[second])}."
        statements.append(_statement(judge_means(overall[first], overall[second]), text, signature))
    for kind in ("decoder", "cross"):
        measure = f"{kind}.sparsity.layer"
        values = evidence.values(main, OURS, measure)
        text = ", ".join(f"{rate:.0%}" for rate in np.mean(values, axis=0))
        text = f"{OURS}, {kind} grows with depth: {text}."
        statements.append(_statement(judge_margins(growths(values)), text, evidence.signature(main, OURS, measure)))
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
            shift: {system: evidence.draws(task, system, f"{score}.{shift}") for system in systems} for shift in SHIFTS
        }
        means = {
            shift: {
                system: by_seed(layer_means(evidence, task, system, f"cross.{score}.{shift}.merged"))
                for system in systems
            }
            for shift in SHIFTS
        }
        signature = evidence.signature(task, OURS, f"cross.{score}.shifted.merged")
        gains = {
            system: [one - other for one, other in zip(draws["normal"][system], draws["shifted"][system], strict=True)]
            for system in systems
        }
        improved = {system: judge_draws([(1.0, found)], _spread(gains)) for system, found in gains.items()}
        text = "; ".join(
            f"{system} {means['normal'][system]} and {means['shifted'][system]}"
            + ("" if system == OURS else f" ({improved[system].answer})")
            for system in systems
        )
        text = f"{task.corpus}, {what}, shifted beats normal, {OURS} (the others in brackets): {text}."
        statements.append(_statement(improved[OURS], text, signature))
        for shift in SHIFTS:
            ours, spread = draws[shift][OURS], _spread(draws[shift])
            judged = {
                system: judge_draws([(1.0, found), (-1.0, ours)], spread)
                for system, found in draws[shift].items()
                if system != OURS
            }
            if judged:
                values = ", ".join(f"{system} {means[shift][system]}" for system in systems)
                tests = "; ".join(f"{system} minus {OURS}: {found.test}" for system, found in judged.items())
                statements.append(
                    Statement(
                        answer=joined([found.answer for found in judged.values()]),
                        test=tests,
                        text=f"{task.corpus}, {what}, {shift}, {OURS} has the lowest error: {values}.",
                        paper=_PAPER_AER[score, shift],
                        signature=evidence.signature(task, OURS, f"cross.{score}.{shift}.merged"),
                    )
                )
    return statements


def _spread(draws: Mapping[str, Sequence[Values]]) -> Spread | None:
    """Of trainings that differ in their seed, from each system's numbers ``[draw]`` of each training."""
    return Spread.pooled([[float(np.nanmean(one)) for one in system] for system in draws.values()])


def _best_layer(evidence: Evidence, task: Task) -> Statement:
    measure = "cross.aer.shifted.merged.layer_attention"
    layers, signature = evidence.values(task, OURS, measure), evidence.signature(task, OURS, measure)
    best = ", ".join(str(int(np.nanargmin(value)) + 1) for value in layers)
    text = f"{task.corpus}, {OURS}'s best layer is a middle one: layer {best} of {len(layers[0])}."
    if len(layers[0]) < 3:
        return _statement(Judged("not measured", "a model of two layers has no middle one"), text, signature)
    draws = evidence.draws(task, OURS, "middle.shifted")
    return _statement(judge_draws([(1.0, draws)], _spread({OURS: draws})), text, signature)


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
        text = f"{system}, encoder heads disagree most: {text}."
        signature = evidence.signature(main, system, "encoder.diversity.mean")
        statements.append(_statement(judge_margins(margins), text, signature))
    for kind in KINDS:
        others = {system: found[system][kind] for system in ANALYSED if system != OURS}
        most = max(others, key=lambda system: float(np.mean(others[system])))
        ours = found[OURS][kind]
        text = (
            f"{kind}: {OURS} {by_seed(ours, percent=False)}, the most diverse of the others ({most}) "
            f"{by_seed(others[most], percent=False)}."
        )
        signature = evidence.signature(main, OURS, f"{kind}.diversity.mean")
        statements.append(_statement(judge_means(ours, others[most]), text, signature))
        statements.append(_at_low_tau(evidence, main, kind, most, others[most]))
    return statements


def _at_low_tau(evidence: Evidence, main: Task, kind: str, most: str, others: list[float]) -> Statement:
    """The diversity that is lowest of all tau against the most diverse other; and it must not rise as tau falls."""
    measure = f"{kind}.diversity.tau.mean"
    taus = evidence.values(main, OURS, measure)
    above = judge_means([float(min(one)) for one in taus], others)
    falls = judge_margins([float(one[0] - one[-1]) for one in taus])
    text = ", ".join(f"{value:.2f}" for value in np.mean(taus, axis=0))
    return Statement(
        answer=joined([above.answer, falls.answer]),
        test=f"above {most}: {above.test}; falls: {falls.test}",
        text=f"{kind}: less diverse as tau falls (1, 0.5, 0.25, 0.1: {text}), and still above {most} "
        f"({float(np.mean(others)):.2f}).",
        signature=evidence.signature(main, OURS, measure),
    )
