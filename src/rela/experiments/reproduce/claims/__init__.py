"""The paper's fifteen claims, each answered: holds, does not hold, or underpowered, with the number that says so.

An interval decides about BLEU: a claim that A is better than B holds if the whole 95% interval of the difference is
above 0, does not hold if all of it is below, and is underpowered otherwise. About weights a t-test over trainings
decides; about links between words, a bootstrap over sentences and trainings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rela.experiments.reproduce.claims import costs, nulls, translations, weights
from rela.experiments.reproduce.claims.verdict import Statement, Verdict, joined
from rela.experiments.reproduce.evidence import Evidence, MissingError

CLAIMS: Final[dict[int, tuple[str, Callable[[Evidence], list[Statement]]]]] = {
    1: ("ReLU alone does not train.", translations.relu_alone),
    2: ("RMSNorm makes it train, but costs 0.9 BLEU.", translations.rmsnorm),
    3: ("ReLA-i and ReLA-g close most of that; g is slightly better than i.", translations.start_and_gate),
    4: (
        "RMSNorm and LayerNorm are equal; GeLU and leaky ReLU are slightly worse than ReLU.",
        translations.other_norms_and_maps,
    ),
    5: (
        "ReLA in decoder self or cross alone is at least as good as softmax; in encoder self alone it hurts.",
        translations.kinds,
    ),
    6: (
        "On other pairs rela-g is within \u22120.3 and +0.7 of softmax; above sparsemax, about as good as entmax15.",
        translations.other_pairs,
    ),
    7: (
        "rela-g is close to softmax in speed, sparsemax and entmax15 clearly slower, at every source length.",
        costs.speed,
    ),
    8: (
        "Cross-attention is the sparsest kind; rela-g lies between entmax15 and sparsemax, and grows with depth in "
        "decoder self and cross.",
        weights.sparsity,
    ),
    9: (
        "The best alignment is at a middle layer; shifted beats normal; rela-g has the best AoL and AoH.",
        weights.alignment,
    ),
    10: (
        "Encoder heads disagree most; rela-g's heads are the most diverse, less so as tau falls, but the gap stays.",
        weights.diversity,
    ),
    11: (
        "Null rates are low in the encoder, grow with depth in decoder self, and peak at the middle cross layer; layer "
        "attention is almost never null.",
        nulls.null_rates,
    ),
    12: ("Single heads specialise.", nulls.specialists),
    13: ("Shuffled targets raise the cross null rate in every layer.", nulls.shuffled_targets),
    14: ("The null rate ranks pairs by quality; it sees insertions.", nulls.ranking),
    15: ("At T = 1000 rela-g needs fewer operations than softmax, at T = 100 more.", costs.operations),
}
"""By number: the claim in short, and what answers it."""


def answer_claims(evidence: Evidence) -> list[Verdict]:
    """All of them, in order."""
    return [_answer(number, claim, make, evidence) for number, (claim, make) in CLAIMS.items()]


def _answer(number: int, claim: str, make: Callable[[Evidence], list[Statement]], evidence: Evidence) -> Verdict:
    try:
        statements = tuple(make(evidence))
    except MissingError as error:
        statements = (Statement(answer="not measured", text=f"Missing: {error}."),)
    return Verdict(number=number, claim=claim, answer=joined([one.answer for one in statements]), statements=statements)
