"""Claims 11 to 14: where heads attend to nothing, and what that tells about pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rela.experiments.reproduce.claims.significance import Judged, judge_margins
from rela.experiments.reproduce.claims.verdict import Statement, by_seed, growths, layer_means
from rela.experiments.reproduce.evidence import Evidence, MissingError
from rela.experiments.reproduce.systems import OURS

_FEW_NULLS: Final = 0.05
_SPECIALISTS: Final = 0.5  # strength of a finding
_TELLS: Final = 0.6  # area under the curve


def _statement(evidence: Evidence, judged: Judged, text: str, measure: str, paper: str = "") -> Statement:
    signature = evidence.signature(evidence.study.main, OURS, measure)
    return Statement(**judged._asdict(), text=text, paper=paper, signature=signature)


def null_rates(evidence: Evidence) -> list[Statement]:
    main = evidence.study.main
    encoder = layer_means(evidence, main, OURS, "encoder.null.layer")
    cross = layer_means(evidence, main, OURS, "cross.null.layer")
    decoder = evidence.values(main, OURS, "decoder.null.layer")
    rates = np.mean(decoder, axis=0)
    layers = evidence.values(main, OURS, "cross.null.layer")
    mean = np.mean(layers, axis=0)
    variances = np.mean([np.nanvar(one, axis=1, ddof=1) for one in evidence.values(main, OURS, "cross.null")], axis=0)
    together = [float(np.max(value)) for value in evidence.values(main, OURS, "cross.null.layer_attention")]
    return [
        _statement(
            evidence,
            judge_margins([other - one for one, other in zip(encoder, cross, strict=True)]),
            f"Low in the encoder: {by_seed(encoder)}; in cross-attention {by_seed(cross)}.",
            "encoder.null.layer",
        ),
        _statement(
            evidence,
            judge_margins(growths(decoder)),
            f"Growing with depth in decoder self: {', '.join(f'{rate:.0%}' for rate in rates)}.",
            "decoder.null.layer",
        ),
        _statement(
            evidence,
            _middle(layers),
            f"A peak at a middle cross layer: {', '.join(f'{rate:.0%}' for rate in mean)}; variance over heads (over "
            f"their number less one) layer by layer: {', '.join(f'{variance:.3f}' for variance in variances)}.",
            "cross.null.layer",
            "variance 0.256 at the peak",
        ),
        _statement(
            evidence,
            judge_margins([_FEW_NULLS - one for one in together]),
            f"The cross layer attention is almost never null (below {_FEW_NULLS:.0%}): at most {max(together):.1%} in "
            "any layer.",
            "cross.null.layer_attention",
        ),
    ]


def _middle(layers: Sequence[NDArray[np.float64]]) -> Judged:
    """Whether the rate is highest in a layer that is neither the first nor the last."""
    if len(layers[0]) < 3:
        return Judged("not measured", "a model of two layers has no middle one")
    return judge_margins([float(max(one[1:-1]) - max(one[0], one[-1])) for one in layers])


def specialists(evidence: Evidence) -> list[Statement]:
    """Heads of cross-attention that fire after words of one kind: null elsewhere, and not there."""
    main = evidence.study.main
    found = evidence.needed(main, OURS, "weights")
    if all(one.facts["data"]["tags"] is None for one in found):
        raise MissingError(f"tagged text of {main.corpus}")
    strong = [
        [
            finding
            for finding in one.facts["entry"].get("findings", [])
            if finding.get("sort") == "specialist"
            and finding["kind"] == "cross"
            and finding["strength"] >= _SPECIALISTS
            and " fires " in finding["text"]
        ]
        for one in found
    ]
    examples = [findings[0]["text"] for findings in strong if findings]
    counts = ", ".join(str(len(findings)) for findings in strong)
    held = [bool(findings) for findings in strong]
    return [
        Statement(
            answer="holds" if all(held) else "underpowered" if any(held) else "does not hold",
            test="strength is by how much the two rates differ at least, if each is within three standard deviations "
            "of what was counted; at the ends of sentences it counts less",
            text=f"Cross-attention heads that fire after words of one kind (strength {_SPECIALISTS} or more): {counts} "
            f"in {len(found)} training{'s' if len(found) > 1 else ''}."
            + (f" {' '.join(examples[:2])}" if examples else ""),
            signature=evidence.signature(main, OURS, "cross.null"),
        )
    ]


def shuffled_targets(evidence: Evidence) -> list[Statement]:
    main = evidence.study.main
    real = evidence.values(main, OURS, "hallucinated.null.real")
    shuffled = evidence.values(main, OURS, "hallucinated.null.shuffled")
    least = [float((other - one).min()) for one, other in zip(real, shuffled, strict=True)]
    means = np.mean(real, axis=0), np.mean(shuffled, axis=0)
    text = ", ".join(f"{one:.1%} and {other:.1%}" for one, other in zip(*means, strict=True))
    areas = [float(value) for value in evidence.values(main, OURS, "hallucinated.auc.mean")]
    return [
        _statement(
            evidence,
            judge_margins(least),
            f"Null rates as they are and with shuffled targets, layer by layer: {text}; AUC "
            f"{by_seed(areas, percent=False)} (0.5 is chance).",
            "hallucinated.null.shuffled",
        )
    ]


def ranking(evidence: Evidence) -> list[Statement]:
    found = evidence.needed(evidence.study.main, OURS, "ranking")
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
