"""Claims 1 to 6: which systems translate how well. The 95% interval of a difference in BLEU decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from rela.evaluation.runs import Difference
from rela.experiments.reproduce.claims.significance import shown_p
from rela.experiments.reproduce.claims.verdict import Answer, Statement
from rela.experiments.reproduce.evidence import Evidence
from rela.experiments.reproduce.job import FAILED

EQUAL: Final = 0.5
"""BLEU within which systems count as equal."""
_NEXT_TO_NOTHING: Final = 0.1  # of softmax's BLEU
_MOST: Final = 0.5  # of a gap


def _shown(found: Difference) -> str:
    return f"{found.delta:+.2f} BLEU"


def _test(found: Difference) -> str:
    trainings = f"{found.runs[0]} and {found.runs[1]} trainings" if max(found.runs) > 1 else "one training each"
    return (
        f"95% interval {found.low:+.2f} to {found.high:+.2f} by bootstrap over sentences, {trainings}, "
        f"{shown_p(found.p)} for no difference"
    )


def _above(found: Difference, margin: float = 0.0) -> Answer:
    """Whether the first system is better than the second, by more than a margin."""
    return "holds" if found.low > margin else "does not hold" if found.high < margin else "underpowered"


def _equal(found: Difference, margin: float = EQUAL) -> Answer:
    if -margin <= found.low and found.high <= margin:
        return "holds"
    return "does not hold" if found.low > margin or found.high < -margin else "underpowered"


def _not_worse(found: Difference, margin: float = EQUAL) -> Answer:
    """At least as good, but for a margin."""
    return "holds" if found.low > -margin else "does not hold" if found.high < -margin else "underpowered"


def _difference(
    evidence: Evidence, first: str, second: str, judge: Callable[[Difference], Answer], paper: str, what: str
) -> Statement:
    found = evidence.difference(evidence.study.main, first, second)
    return _statement(found, judge(found), f"{what}: {_shown(found)}.", paper)


def _statement(found: Difference, answer: Answer, text: str, paper: str) -> Statement:
    return Statement(answer=answer, text=text, test=_test(found), paper=paper, signature=found.signature)


def relu_alone(evidence: Evidence) -> list[Statement]:
    main = evidence.study.main
    trained = evidence.needed(main, "relu", "train")
    failed = [one for one in trained if one.facts["status"] == FAILED]
    norms = {
        name: np.array(
            [norm for one in evidence.of(main, name, "train") for norm in one.facts["curve"]["gradient_norm"] if norm]
        )
        for name in ("relu", "relu-rmsnorm")
    }
    gradients = "; ".join(
        f"{name}: median {np.median(found):.2g}, greatest {found.max():.2g}"
        for name, found in norms.items()
        if len(found)
    )
    answer: Answer = "holds" if len(failed) == len(trained) else "does not hold"
    if failed:
        text = f"{len(failed)} of {len(trained)} trainings failed: {failed[0].facts['reason']}."
    else:
        score, softmax = (float(np.mean(evidence.scores(main, name))) for name in ("relu", "softmax"))
        text = f"BLEU {score:.2f}, softmax {softmax:.2f}."
        if score < _NEXT_TO_NOTHING * softmax:
            answer, text = "holds", f"Ours does not diverge, and yet learns next to nothing: {text}"
        else:
            text = f"Ours trains: {text}"
    return [Statement(answer=answer, text=f"{text} Norms of gradients along the training: {gradients}.", paper="-")]


def rmsnorm(evidence: Evidence) -> list[Statement]:
    return [_difference(evidence, "softmax", "relu-rmsnorm", _above, "+0.9", "It trains, and softmax is better by")]


def start_and_gate(evidence: Evidence) -> list[Statement]:
    main = evidence.study.main
    gap = evidence.difference(main, "softmax", "relu-rmsnorm")
    statements: list[Statement] = []
    for name, paper in (("rela-i", "56%"), ("rela-g", "67%")):
        found = evidence.difference(main, name, "relu-rmsnorm")
        share = found.delta / gap.delta if gap.delta > 0 else float("nan")
        most = "holds" if share > _MOST and found.low > 0 else "does not hold" if found.high < 0 else "underpowered"
        answer: Answer = most if gap.low > 0 else "does not hold" if gap.high < 0 else "underpowered"
        closed = f"{share:.0%} of the gap to softmax" if gap.delta > 0 else "there is no gap to softmax"
        statements.append(_statement(found, answer, f"{name} over RMSNorm alone: {_shown(found)}; {closed}.", paper))
    statements.append(_difference(evidence, "rela-g", "rela-i", _above, "+0.1", "rela-g over rela-i"))
    return statements


def other_norms_and_maps(evidence: Evidence) -> list[Statement]:
    return [
        _difference(evidence, "rela-g-layernorm", "rela-g", _equal, "0.0", f"LayerNorm (equal: within {EQUAL})"),
        _difference(evidence, "rela-g", "rela-g-gelu", _above, "+0.1", "ReLU over GeLU"),
        _difference(evidence, "rela-g", "rela-g-leaky", _above, "+0.1", "ReLU over leaky ReLU"),
    ]


def kinds(evidence: Evidence) -> list[Statement]:
    not_worse = f"at least as good: not worse by {EQUAL}"
    return [
        _difference(evidence, "rela-g-decoder", "softmax", _not_worse, "+0.1", f"decoder self only ({not_worse})"),
        _difference(evidence, "rela-g-cross", "softmax", _not_worse, "+0.1", f"cross only ({not_worse})"),
        _difference(evidence, "softmax", "rela-g-encoder", _above, "+0.6", "softmax over encoder self only"),
    ]


def other_pairs(evidence: Evidence) -> list[Statement]:
    statements: list[Statement] = []
    for task in evidence.study.tasks:
        if task.role == "gold":
            continue
        found = evidence.difference(task, "rela-g", "softmax")
        statements.append(
            _statement(
                found,
                _not_worse(found),
                f"{task.corpus}, rela-g over softmax (not worse by {EQUAL}): {_shown(found)}.",
                "\u22120.3 to +0.7",
            )
        )
    main = evidence.study.main
    for other, paper, judge in (("sparsemax", "+0.5", _above), ("entmax15", "\u22120.1", _not_worse)):
        found = evidence.difference(main, "rela-g", other)
        statements.append(
            _statement(found, judge(found), f"{main.corpus}, rela-g over {other}: {_shown(found)}.", paper)
        )
    return statements
