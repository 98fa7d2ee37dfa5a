"""Claims 11 to 14: where heads attend to nothing, and what that tells about pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rela.experiments.reproduce.claims.significance import Judged, judge_margins
from rela.experiments.reproduce.claims.verdict import Statement, by_seed, growths, layer_means
from rela.experiments.reproduce.evidence import Evidence, MissingError

_FEW_NULLS: Final = 0.05
_SPECIALISTS: Final = 0.5  # strength of a finding
_TELLS: Final = 0.6  # area under the curve


def null_rates(evidence: Evidence) -> list[Statement]:
    main = evidence.study.main
    statements: list[Statement] = []
    encoder = layer_means(evidence, main, "rela-g", "encoder.null.layer")
    cross = layer_means(evidence, main, "rela-g", "cross.null.layer")
    decoder = evidence.values(main, "rela-g", "decoder.null.layer")
    statements.append(
        Statement(
            **judge_margins([other - one for one, other in zip(encoder, cross, strict=True)])._asdict(),
            text=f"Low in the encoder: {by_seed(encoder)}; in cross-attention {by_seed(cross)}.",
        )
    )
    rates = np.mean(decoder, axis=0)
    statements.append(
        Statement(
            **judge_margins(growths(decoder))._asdict(),
            text=f"Growing with depth in decoder self: {', '.join(f'{rate:.0%}' for rate in rates)}.",
        )
    )
    layers = evidence.values(main, "rela-g", "cross.null.layer")
    mean = np.mean(layers, axis=0)
    variance = np.mean(evidence.values(main, "rela-g", "cross.null.variance"), axis=0)
    statements.append(
        Statement(
            **_middle(layers)._asdict(),
            text=f"A peak at a middle cross layer: {', '.join(f'{rate:.0%}' for rate in mean)}; variance over heads "
            f"there {variance[int(mean.argmax())]:.3f}.",
            paper="variance 0.256",
        )
    )
    together = [float(np.max(value)) for value in evidence.values(main, "rela-g", "cross.null.layer_attention")]
    statements.append(
        Statement(
            **judge_margins([_FEW_NULLS - one for one in together])._asdict(),
            text=f"The cross layer attention is almost never null (below {_FEW_NULLS:.0%}): at most "
            f"{max(together):.1%} in any layer.",
        )
    )
    return statements


def _middle(layers: Sequence[NDArray[np.float64]]) -> Judged:
    """Whether the rate is highest in a layer that is neither the first nor the last."""
    if len(layers[0]) < 3:
        return Judged("not measured", "a model of two layers has no middle one")
    return judge_margins([float(max(one[1:-1]) - max(one[0], one[-1])) for one in layers])


def specialists(evidence: Evidence) -> list[Statement]:
    main = evidence.study.main
    found = evidence.needed(main, "rela-g", "weights")
    strong = [
        [
            finding
            for finding in one.facts["entry"].get("findings", [])
            if finding.get("sort") == "specialist" and finding["strength"] >= _SPECIALISTS
        ]
        for one in found
    ]
    examples = [findings[0]["text"] for findings in strong if findings]
    counts = ", ".join(str(len(findings)) for findings in strong)
    held = [bool(findings) for findings in strong]
    return [
        Statement(
            answer="holds" if all(held) else "underpowered" if any(held) else "does not hold",
            test="strength is the distance of the 95% intervals of the two rates",
            text=f"Heads that fire after words of one kind (strength {_SPECIALISTS} or more): {counts} "
            f"in {len(found)} training{'s' if len(found) > 1 else ''}."
            + (f" {' '.join(examples[:2])}" if examples else ""),
        )
    ]


def shuffled_targets(evidence: Evidence) -> list[Statement]:
    main = evidence.study.main
    real = evidence.values(main, "rela-g", "hallucinated.null.real")
    shuffled = evidence.values(main, "rela-g", "hallucinated.null.shuffled")
    least = [float((other - one).min()) for one, other in zip(real, shuffled, strict=True)]
    means = np.mean(real, axis=0), np.mean(shuffled, axis=0)
    text = ", ".join(f"{one:.1%} and {other:.1%}" for one, other in zip(*means, strict=True))
    areas = [float(value) for value in evidence.values(main, "rela-g", "hallucinated.auc.mean")]
    return [
        Statement(
            **judge_margins(least)._asdict(),
            text=f"Null rates as they are and with shuffled targets, layer by layer: {text}; AUC "
            f"{by_seed(areas, percent=False)} (0.5 is chance).",
        )
    ]


def ranking(evidence: Evidence) -> list[Statement]:
    found = evidence.needed(evidence.study.main, "rela-g", "ranking")
    statements: list[Statement] = []
    for kind, paper in (("shuffled", "lowest 10K 95% correct, highest 1%"), ("insertion", "sees insertions")):
        areas = [one.facts["auc"][kind]["null_rate"] for one in found if kind in one.facts["auc"]]
        others = [one.facts["auc"][kind]["cross_entropy"] for one in found if kind in one.facts["auc"]]
        if not areas:
            raise MissingError(f"ranking of {kind} pairs")
        statements.append(
            Statement(
                **judge_margins([area - _TELLS for area in areas])._asdict(),
                text=f"{kind}: AUC of the null rate {by_seed(areas, percent=False)} (above {_TELLS}); of "
                f"cross-entropy {by_seed(others, percent=False)}.",
                paper=paper,
                signature=found[0].facts["signature"],
            )
        )
    return statements
