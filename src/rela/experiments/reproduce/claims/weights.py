"""Claims 8 to 10: zeros, links between words, and how different heads are."""

from __future__ import annotations

import numpy as np

from rela.attention.spec import KINDS
from rela.experiments.reproduce.claims.verdict import Statement, by_seed, consistent, grows, layer_means
from rela.experiments.reproduce.evidence import Evidence, MissingError
from rela.experiments.reproduce.scales import Task
from rela.experiments.reproduce.systems import ANALYSED


def sparsity(evidence: Evidence) -> list[Statement]:
    main = evidence.study.main
    statements: list[Statement] = []
    for system in ("sparsemax", "entmax15", "rela-g"):
        rates = {kind: layer_means(evidence, main, system, f"{kind}.sparsity.layer") for kind in KINDS}
        seeds = list(zip(*rates.values(), strict=True))
        held = [cross == max(encoder, decoder, cross) for encoder, decoder, cross in seeds]
        means = {kind: float(np.mean(found)) for kind, found in rates.items()}
        text = ", ".join(f"{kind} {by_seed(found)}" for kind, found in rates.items())
        statements.append(
            Statement(
                answer=consistent(held, means["cross"] == max(means.values())),
                text=f"{system}, cross is the sparsest kind: {text}.",
            )
        )
    overall = {
        system: np.mean([layer_means(evidence, main, system, f"{kind}.sparsity.layer") for kind in KINDS], axis=0)
        for system in ("entmax15", "rela-g", "sparsemax")
    }
    means = {system: float(found.mean()) for system, found in overall.items()}
    between = means["entmax15"] <= means["rela-g"] <= means["sparsemax"]
    shortest = min(map(len, overall.values()))
    held = [
        bool(overall["entmax15"][place] <= overall["rela-g"][place] <= overall["sparsemax"][place])
        for place in range(shortest)
    ]
    text = ", ".join(f"{system} {by_seed(found.tolist())}" for system, found in overall.items())
    statements.append(
        Statement(answer=consistent(held, between), text=f"rela-g is between entmax15 and sparsemax: {text}.")
    )
    for kind in ("decoder", "cross"):
        values = evidence.values(main, "rela-g", f"{kind}.sparsity.layer")
        mean = np.mean(values, axis=0)
        text = ", ".join(f"{rate:.0%}" for rate in mean)
        statements.append(
            Statement(
                answer=consistent(grows(values), bool(mean[-1] > mean[0])),
                text=f"rela-g, {kind} grows with depth: {text}.",
            )
        )
    return statements


def alignment(evidence: Evidence) -> list[Statement]:
    if not evidence.linked:
        raise MissingError("weights beside gold links")
    return [statement for task in evidence.linked for statement in _alignment_of(evidence, task)]


def _alignment_of(evidence: Evidence, task: Task) -> list[Statement]:
    systems = [
        name for name in evidence.systems(task, "weights") if name in ("softmax", "sparsemax", "entmax15", "rela-g")
    ]
    statements: list[Statement] = []
    layers = evidence.values(task, "rela-g", "cross.aer.shifted.merged.layer_attention")
    best = [int(np.nanargmin(value)) for value in layers]
    middle = [0 < place < len(layers[0]) - 1 for place in best]
    statements.append(
        Statement(
            answer=consistent(middle, middle.count(True) * 2 > len(middle)),
            text=f"{task.corpus}, rela-g's best layer is a middle one: layer {', '.join(str(p + 1) for p in best)} of "
            f"{len(layers[0])}.",
        )
    )
    for score in ("aol", "aoh"):
        means = {
            (system, shift): layer_means(evidence, task, system, f"cross.{score}.{shift}.merged")
            for system in systems
            for shift in ("normal", "shifted")
        }
        shifted = {
            system: bool(np.mean(means[system, "shifted"]) < np.mean(means[system, "normal"])) for system in systems
        }
        name = "layer attention (AoL)" if score == "aol" else "best heads (AoH)"
        text = "; ".join(
            f"{system} {by_seed(means[system, 'normal'])} and {by_seed(means[system, 'shifted'])}" for system in systems
        )
        statements.append(
            Statement(
                answer=consistent(list(shifted.values()), bool(shifted["rela-g"])),
                text=f"{task.corpus}, shifted beats normal, {name}: {text}.",
            )
        )
        for shift in ("normal", "shifted"):
            others = [np.mean(means[system, shift]) for system in systems if system != "rela-g"]
            held = [bool(one < min(others)) for one in means["rela-g", shift]] if others else []
            if held:
                statements.append(
                    Statement(
                        answer=consistent(held, bool(np.mean(means["rela-g", shift]) < min(others))),
                        text=f"{task.corpus}, rela-g has the lowest error, {name}, {shift}.",
                    )
                )
    return statements


def diversity(evidence: Evidence) -> list[Statement]:
    main = evidence.study.main
    systems = ANALYSED
    found = {
        system: {kind: layer_means(evidence, main, system, f"{kind}.diversity.mean") for kind in KINDS}
        for system in systems
    }
    statements: list[Statement] = []
    for system in systems:
        seeds = list(zip(*(found[system][kind] for kind in KINDS), strict=True))
        means = [float(np.mean(found[system][kind])) for kind in KINDS]
        text = ", ".join(f"{kind} {by_seed(found[system][kind], percent=False)}" for kind in KINDS)
        statements.append(
            Statement(
                answer=consistent([one[0] == max(one) for one in seeds], means[0] == max(means)),
                text=f"{system}, encoder heads disagree most: {text}.",
            )
        )
    for kind in KINDS:
        others = max(float(np.mean(found[system][kind])) for system in systems if system != "rela-g")
        held = [one > others for one in found["rela-g"][kind]]
        taus = np.mean(evidence.values(main, "rela-g", f"{kind}.diversity.tau.mean"), axis=0)
        statements.append(
            Statement(
                answer=consistent(held, float(np.mean(found["rela-g"][kind])) > others),
                text=f"{kind}: rela-g {by_seed(found['rela-g'][kind], percent=False)}, the most diverse of the others "
                f"{others:.2f}.",
            )
        )
        softmax = float(np.mean(found["softmax"][kind]))
        gap = bool((taus > softmax).all())
        text = ", ".join(f"{value:.2f}" for value in taus)
        statements.append(
            Statement(
                answer="holds" if gap and taus[-1] <= taus[0] else "does not hold",
                text=f"{kind}: less diverse as tau falls (1, 0.5, 0.25, 0.1: {text}), and still above softmax "
                f"({softmax:.2f}).",
            )
        )
    return statements
