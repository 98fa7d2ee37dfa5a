"""Finders: each reads the measures of one model, as ``results.json`` has them, and says what is remarkable in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rela.analysis.finding import Finding, head_name, number, percent
from rela.attention.spec import KINDS, Kind

Values = NDArray[np.float64]
Measures = Mapping[str, Mapping[str, Any]]

NAMES: Final[Mapping[Kind, str]] = {
    "encoder": "Encoder self-attention",
    "decoder": "Decoder self-attention",
    "cross": "Cross-attention",
}
_SINKS: Final[Mapping[tuple[Kind, str], str]] = {
    ("encoder", "first"): "the first piece of the sentence",
    ("encoder", "last"): "the end of the sentence (EOS)",
    ("decoder", "first"): "the beginning of the sentence (BOS)",
    ("cross", "first"): "the first piece of the source",
    ("cross", "last"): "the end of the source (EOS)",
}
_DISTANCES: Final[Mapping[Kind, Mapping[str, str]]] = {
    "encoder": {
        "-2": "the piece two before",
        "-1": "the piece before",
        "0": "the piece itself",
        "1": "the next piece",
        "2": "the next piece but one",
    },
    "decoder": {
        "-2": "the piece two before the last one",
        "-1": "the piece before the last one",
        "0": "the last piece written",
    },
}
_RARELY, _NEARLY_ALWAYS = 0.05, 0.95
_CERTAINTY = 3.0  # standard deviations
_NO_DIVERSITY = 1e-5  # nats, up to rounding: a single head, or heads that are all alike


def _get(measures: Measures, name: str) -> Values | None:
    """A measure's values, NaN where it has none; None if it is not there or has none at all."""
    if name not in measures:
        return None
    values = np.array(measures[name]["value"], dtype=np.float64)
    return None if np.isnan(values).all() else values


def _each_kind(measures: Measures, name: str) -> dict[Kind, Values]:
    return {kind: values for kind in KINDS if (values := _get(measures, f"{kind}.{name}")) is not None}


def _largest(values: Values) -> tuple[float, tuple[int, ...]]:
    place = np.unravel_index(int(np.nanargmax(values)), values.shape)
    return float(values[place]), tuple(int(index) for index in place)


def _clipped(strength: float) -> float:
    return min(1.0, max(0.0, strength))


def hallucination(measures: Measures) -> Iterator[Finding]:
    """Are pairs with shuffled targets recognised by their null rate, and surely not by chance?"""
    names = ("auc.mean", "null.real", "null.shuffled", "pairs")
    area, real, shuffled, pairs = (_get(measures, f"hallucinated.{name}") for name in names)
    if area is None or real is None or shuffled is None or pairs is None or area < 0.6:
        return
    rate, right_rate = float(np.nanmean(shuffled)), float(np.nanmean(real))
    by_chance = float(np.sqrt((pairs.sum() + 1) / (12 * pairs.prod())))  # the deviation of a random AUC
    if rate <= right_rate or area - 0.5 < _CERTAINTY * by_chance:
        return
    yield Finding(
        text=f"Wrong targets show: with targets shuffled between sentences, {percent(rate)} of "
        f"the cross-attention rows are null, with the right ones {percent(right_rate)}. Of a right and a "
        f"wrong pair, the wrong one has the higher null rate in {percent(float(area))} of the cases (the AUC).",
        strength=_clipped(2 * float(area) - 1),
        sort="hallucination",
        kind="cross",
    )


def alignment(measures: Measures) -> Iterator[Finding]:
    """Which head links words best?"""
    found: list[tuple[float, tuple[int, ...], str, str]] = []
    for shift in ("normal", "shifted"):
        for rule in ("merged", "any"):
            rates = _get(measures, f"cross.aer.{shift}.{rule}")
            if rates is not None:
                best, place = _largest(-rates)
                found.append((-best, place, shift, rule))
    if not found:
        return
    rate, (layer, head), shift, rule = min(found)
    row = "the row that has it as its input" if shift == "shifted" else "the row that predicts it"
    yield Finding(
        text=f"{head_name('cross', layer, head)} aligns words best of all heads: alignment error rate {percent(rate)}, "
        f"with a word linked by {row} ({shift}, {rule}).",
        strength=_clipped(1 - rate / 0.6),
        sort="alignment",
        kind="cross",
        layer=layer,
        head=head,
    )


def sparsity(measures: Measures) -> Iterator[Finding]:
    """How many weights are exactly zero, and where most?"""
    means: dict[Kind, float] = {
        kind: float(np.nanmean(values)) for kind, values in _each_kind(measures, "sparsity").items()
    }
    if not means or max(means.values()) < 0.05:
        return
    best = max(means, key=means.__getitem__)
    rest = ", ".join(f"{kind} {percent(mean)}" for kind, mean in means.items() if kind != best)
    yield Finding(
        text=f"{NAMES[best]} is the sparsest kind: on average over its heads, {percent(means[best])} of the weights "
        f"are exactly zero ({rest}).",
        strength=_clipped(0.8 * means[best]),
        sort="sparsity",
        kind=best,
    )


def switches(measures: Measures) -> Iterator[Finding]:
    """Are there heads that are nearly never null beside heads that nearly always are?"""
    for kind, rates in _each_kind(measures, "null").items():
        rarely, always = int((rates <= _RARELY).sum()), int((rates >= _NEARLY_ALWAYS).sum())
        rate, (layer, head) = _largest(rates)
        if rarely and always:
            yield Finding(
                text=f"Of {rates.size} heads of {NAMES[kind].lower()}, {rarely} are null at {percent(_RARELY)} of the "
                f"rows or fewer and {always} at {percent(_NEARLY_ALWAYS)} or more; the most, {percent(rate)}, is that "
                f"of layer {layer + 1} head {head}.",
                strength=_clipped(2 * float(np.sqrt(rarely * always)) / rates.size),
                sort="switches",
                kind=kind,
                layer=layer,
                head=head,
            )


def sinks(measures: Measures) -> Iterator[Finding]:
    """Which heads put their weight at one end of the sentence, whatever stands there?"""
    for (kind, end), name in _SINKS.items():
        shares = _get(measures, f"{kind}.sink_{end}")
        if shares is None:
            continue
        share, (layer, head) = _largest(shares)
        if share >= 0.5:
            yield Finding(
                text=f"{head_name(kind, layer, head)} is a sink: {percent(share)} of its weight goes to {name}.",
                strength=_clipped(0.9 * share),
                sort="sink",
                kind=kind,
                layer=layer,
                head=head,
            )


def distances(measures: Measures) -> Iterator[Finding]:
    """Which heads look at a fixed distance?"""
    for kind, names in _DISTANCES.items():
        shares = _get(measures, f"{kind}.distance")
        if shares is None:
            continue
        labels: list[str] = measures[f"{kind}.distance"]["labels"]["distance"]
        fixed = [place for place, label in enumerate(labels) if label in names]
        share, (layer, head, place) = _largest(shares[:, :, fixed])
        if share >= 0.5:
            yield Finding(
                text=f"{head_name(kind, layer, head)} looks at {names[labels[fixed[place]]]}: {percent(share)} of its "
                "weight is there.",
                strength=_clipped(0.9 * share),
                sort="distance",
                kind=kind,
                layer=layer,
                head=head,
            )


def causality(measures: Measures) -> Iterator[Finding]:
    """Does silencing a head matter exactly where it is not null?"""
    for kind, null in _each_kind(measures, "ablation.null").items():
        active = _get(measures, f"{kind}.ablation.active")
        if active is None:
            continue
        both = np.isfinite(null) & np.isfinite(active)
        if not both.any():
            continue
        there, elsewhere = float(active[both].mean()), float(null[both].mean())
        if there <= 0 or elsewhere > 0.5 * there:
            continue
        less = (
            f"{number(elsewhere)} where it is null, {number(there / elsewhere)} times less"
            if elsewhere > 0
            else ("nothing where it is null" if elsewhere == 0 else f"gains {number(-elsewhere)} where it is null")
        )
        yield Finding(
            text=f"Null means switched off: silencing one head of {NAMES[kind].lower()} costs {number(there)} nats a "
            f"piece where it is active, and {less} ({_heads(int(both.sum()))} at times).",
            strength=_clipped(0.9 * (1 - max(0.0, elsewhere) / there)),
            sort="causality",
            kind=kind,
        )


def _heads(count: int) -> str:
    return "the one head that is both" if count == 1 else f"mean over the {count} heads that are both"


def costliest_head(measures: Measures) -> Iterator[Finding]:
    """Which head does the model need most?"""
    loss = _get(measures, "loss")
    for kind, changes in _each_kind(measures, "ablation").items():
        change, (layer, head) = _largest(changes)
        if loss is not None and change > 0.1 * float(loss):
            yield Finding(
                text=f"{head_name(kind, layer, head)} matters most of its kind: without it the loss rises from "
                f"{float(loss):.2f} to {float(loss) + change:.2f} nats a piece.",
                strength=_clipped(change / (change + float(loss))),
                sort="ablation",
                kind=kind,
                layer=layer,
                head=head,
            )


def diversity(measures: Measures, others: Mapping[str, Measures]) -> Iterator[Finding]:
    """Do this model's heads disagree more than those of all others?"""
    for kind in KINDS:
        name = f"{kind}.diversity.mean"
        own = _get(measures, name)
        found = {other: _get(of_other, name) for other, of_other in others.items()}
        theirs = {other: float(value) for other, value in found.items() if value is not None and value > _NO_DIVERSITY}
        if own is None or not theirs or float(own) <= max(theirs.values()):
            continue
        next_best = max(theirs, key=theirs.__getitem__)
        yield Finding(
            text=f"Its {kind} heads disagree the most: diversity {number(float(own))} nats, against "
            f"{number(theirs[next_best])} of {next_best}{', the next' if len(theirs) > 1 else ''}.",
            strength=_clipped(1 - theirs[next_best] / float(own)),
            sort="diversity",
            kind=kind,
        )


FINDERS: Final[tuple[Callable[[Measures], Iterator[Finding]], ...]] = (
    hallucination,
    alignment,
    sparsity,
    switches,
    sinks,
    distances,
    causality,
    costliest_head,
)
