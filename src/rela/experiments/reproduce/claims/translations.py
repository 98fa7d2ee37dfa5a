"""Claims 1 to 6: which systems translate how well. The 95% interval of a difference in BLEU decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from rela.evaluation.runs import Difference
from rela.experiments.reproduce.claims.significance import shown_p, shown_spread
from rela.experiments.reproduce.claims.verdict import Answer, Statement
from rela.experiments.reproduce.evidence import Evidence, MissingError
from rela.experiments.reproduce.job import FAILED
from rela.experiments.reproduce.scales import Task

EQUAL: Final = 0.5
"""BLEU within which systems count as equal."""
_NEXT_TO_NOTHING: Final = 0.1  # of softmax's BLEU
_MOST: Final = 0.5  # of a gap


def _shown(found: Difference) -> str:
    return f"{found.delta:+.2f} BLEU"


def _test(found: Difference) -> str:
    trainings = " and ".join(str(runs) for runs in found.runs)
    each = f"{trainings} trainings" if max(found.runs) > 1 else "one training each"
    interval = f"95% interval {found.low:+.2f} to {found.high:+.2f}: bootstrap over sentences"
    if found.spread is None:
        return f"{interval} alone, since no system was trained twice; {each}"
    spread = shown_spread(found.spread, f"{found.spread.deviation:.2f}")
    return f"{interval} and seeds, {spread}; {each}; {shown_p(found.p)} for no difference"


def _above(found: Difference, margin: float = 0.0) -> Answer:
    """Whether it is positive, by more than a margin."""
    if found.spread is None:
        return "underpowered"
    return "holds" if found.low > margin else "does not hold" if found.high < margin else "underpowered"


def _equal(found: Difference, margin: float = EQUAL) -> Answer:
    if found.spread is None:
        return "underpowered"
    if -margin <= found.low and found.high <= margin:
        return "holds"
    return "does not hold" if found.low > margin or found.high < -margin else "underpowered"


def _not_worse(found: Difference) -> Answer:
    """At least as good, but for a margin."""
    return _above(found, -EQUAL)


def _difference(
    evidence: Evidence,
    first: str,
    second: str,
    judge: Callable[[Difference], Answer],
    paper: str,
    what: str,
    task: Task | None = None,
) -> Statement:
    """Of two systems, on the main corpus unless told. A system whose training failed is the worse one."""
    task = task or evidence.study.main
    for worse in (first, second):
        if (reason := evidence.failure(task, worse)) is not None:
            answer: Answer = "does not hold" if worse == first or judge is _equal else "holds"
            return Statement(answer=answer, text=f"{what}: {worse} does not train: {reason}.", paper=paper)
    try:
        found = evidence.difference(task, first, second)
    except MissingError as error:
        return Statement(answer="not measured", text=f"{what}: there is no {error}.", paper=paper)
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
    main = evidence.study.main
    reason = evidence.failure(main, "relu-rmsnorm")
    trains: Answer = "holds" if reason is None else "does not hold"
    evidence.needed(main, "relu-rmsnorm", "train")
    return [
        Statement(answer=trains, text="It trains." if reason is None else f"It does not: {reason}."),
        _difference(evidence, "softmax", "relu-rmsnorm", _above, "+0.9", "Softmax is better by"),
    ]


def start_and_gate(evidence: Evidence) -> list[Statement]:
    """Most of the gap is closed by what is above the middle between RMSNorm alone and softmax."""
    main = evidence.study.main
    statements: list[Statement] = []
    for name, paper in (("rela-i", "56%"), ("rela-g", "67%")):
        statements.append(_difference(evidence, name, "relu-rmsnorm", _above, "", f"{name} over RMSNorm alone"))
        if statements[-1].answer == "not measured" or evidence.failure(main, "relu-rmsnorm"):
            continue
        gap = evidence.difference(main, "softmax", "relu-rmsnorm")
        gain = evidence.difference(main, name, "relu-rmsnorm")
        above = evidence.contrast(main, {name: 1.0, "softmax": -_MOST, "relu-rmsnorm": _MOST - 1.0})
        closed = f"{gain.delta / gap.delta:.0%} of it" if gap.delta > 0 else "there is none"
        text = (
            f"{name} closes most of the gap to softmax ({gap.delta:+.2f}): {closed}; above the middle: {_shown(above)}."
        )
        answer: Answer = _above(above) if gap.low > 0 else "does not hold" if gap.high < 0 else "underpowered"
        statements.append(_statement(above, answer, text, paper))
    return [*statements, _difference(evidence, "rela-g", "rela-i", _above, "+0.1", "rela-g over rela-i")]


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
    main = evidence.study.main
    against_softmax = [
        _difference(
            evidence,
            "rela-g",
            "softmax",
            _not_worse,
            "\u22120.3 to +0.7",
            f"{task.corpus}, rela-g over softmax (not worse by {EQUAL})",
            task,
        )
        for task in evidence.study.tasks
        if task.role != "gold"
    ]
    return [
        *against_softmax,
        _difference(evidence, "rela-g", "sparsemax", _above, "+0.5", f"{main.corpus}, rela-g over sparsemax"),
        _difference(evidence, "rela-g", "entmax15", _not_worse, "\u22120.1", f"{main.corpus}, rela-g over entmax15"),
    ]
