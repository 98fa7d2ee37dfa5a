"""What was measured about a model, as its entry in results.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rela._version import __version__
from rela.alignment.batched import RULES, SHIFTS, Rule, Shift
from rela.alignment.tally import AlignmentErrors
from rela.analysis.measuring import Measuring
from rela.analysis.results import Measures, measure
from rela.analysis.statistics import DISTANCES, TAUS
from rela.attention.spec import KINDS

SCORES: Final = ("aer", "precision", "recall", "f1")
_TAU_NAMES: Final = [f"{tau:g}" for tau in TAUS]
_LABELS: Final = {"distance": DISTANCES, "tau": _TAU_NAMES}
_AXES: Final = {
    "distance": ("layer", "head", "distance"),
    "diversity": ("layer",),
    "diversity.word": ("layer",),
    "diversity.mean": (),
    "diversity.tau": ("tau", "layer"),
    "diversity.tau.word": ("tau", "layer"),
    "diversity.tau.mean": ("tau",),
}
"""The axes of statistics that are not ``layer, head``, or ``layer`` for means over heads and the like."""
_OVER_HEADS: Final = (".layer", ".variance", ".layer_attention")


class Signatures:
    """Signatures of one model's numbers on one corpus."""

    def __init__(self, measuring: Measuring, attention: str, name: str) -> None:
        wording = measuring.corpus.wording
        self._data = f"data:{measuring.corpus.name}|pairs:{measuring.num_pairs}"
        words = "blanks" if wording.tokenised else "split"
        replaced = ",".join(f"{old}={new}" for old, new in wording.replacements.items())
        self._words = f"words:{words}" + (f"|replaced:{replaced}" if replaced else "")
        self._model = f"model:{name}|attention:{attention}"

    def of(self, what: str, *parts: str, words: bool = False) -> str:
        """For one measure, with what is special about it."""
        level = ["level:word", self._words] if words else []
        return "|".join([what, self._data, self._model, *parts, *level, f"v{__version__}"])


def measures_of(measuring: Measuring, signatures: Signatures) -> Measures:
    """All measures of a model but those of ablation."""
    found: Measures = {}
    if measuring.loss[1]:
        found["loss"] = measure(
            measuring.loss[0] / measuring.loss[1], (), signatures.of("loss", "unit:nats-per-piece", "decoding:forced")
        )
    for kind in KINDS:
        for name, value in measuring.statistics[kind].values().items():
            words = ".word" in name
            parts = [f"kind:{kind}"] if words else [f"kind:{kind}", "level:piece"]
            axes = _AXES.get(name) or (("layer",) if name.endswith(_OVER_HEADS) else ("layer", "head"))
            axes = () if name == "diversity.mean" else axes
            if name.startswith("diversity") and measuring.statistics[kind].has_taus:
                parts.append("tau:by-axis" if "tau" in name else "tau:1")
            labels = {axis: labels for axis, labels in _LABELS.items() if axis in axes}
            signature = signatures.of(name.partition(".")[0], *parts, words=words)
            found[f"{kind}.{name}"] = measure(value, axes, signature, labels)
    if measuring.errors is not None:
        found |= _alignment(measuring.errors, measuring, signatures)
    if measuring.hallucination is not None:
        counts = measuring.hallucination.num_pairs
        pairs = f"real:{counts[0]}|shuffled:{counts[1]}|shuffle:cycle-in-2048|seed:{measuring.seed}|kind:cross"
        for name, value in measuring.hallucination.values().items():
            axes = () if value.ndim == 0 else ("layer",)
            found[name] = measure(value, axes, signatures.of(name, pairs))
    if measuring.tags is not None:
        found |= _tags(measuring, signatures)
    return found


def _alignment(errors: AlignmentErrors, measuring: Measuring, signatures: Signatures) -> Measures:
    found: Measures = {}
    reader = measuring.corpus.gold_reader
    assert reader is not None
    for shift in SHIFTS:
        for rule in RULES:
            table = errors.counts(shift, rule)
            parts = [reader.signature(), f"shift:{'yes' if shift == 'shifted' else 'no'}", f"rule:{rule}"]
            for score in SCORES:
                values: NDArray[np.float64] = getattr(table, score)
                signature = signatures.of(score.upper(), *parts, words=True)
                found[f"cross.{score}.{shift}.{rule}"] = measure(values[:, :-1], ("layer", "head"), signature)
                layers = signatures.of(score.upper(), *parts, "head:mean", words=True)
                found[f"cross.{score}.{shift}.{rule}.layer_attention"] = measure(values[:, -1], ("layer",), layers)
            aer = table.aer
            for name, value in (("aol", aer[:, -1].mean()), ("aoh", aer[:, :-1].min(1).mean())):
                signature = signatures.of(name.upper(), *parts, words=True)
                found[f"cross.{name}.{shift}.{rule}"] = measure(value, (), signature)
    return found


def _tags(measuring: Measuring, signatures: Signatures) -> Measures:
    assert measuring.tags is not None
    result = measuring.tags.result()
    tags = measuring.corpus.describe(("", ""))["tags"]
    found: Measures = {}
    for name, value in result.measures().items():
        axes = ("tag",) if name.endswith(".count") else ("tag", "layer", "head")
        signature = signatures.of("null", f"kind:{name.partition('.')[0]}", f"tags:{tags}", "row:after-word")
        found[name] = measure(value, axes, signature, {"tag": result.categories})
    return found


def best_heads(errors: AlignmentErrors, rule: Rule = "merged") -> dict[Shift, dict[str, Any]]:
    """For each shift the head with the lowest AER; layers count from 1, heads from 0."""
    found: dict[Shift, dict[str, Any]] = {}
    for shift in SHIFTS:
        aer = errors.counts(shift, rule).aer[:, :-1]
        layer, head = np.unravel_index(int(np.argmin(aer)), aer.shape)
        found[shift] = {"layer": int(layer) + 1, "head": int(head), "aer": float(aer[layer, head])}
    return found


def ablation_measures(found: Mapping[str, NDArray[np.float64]], num_pairs: int, signatures: Signatures) -> Measures:
    """Of :class:`rela.analysis.ablation.AblationResult`."""
    return {
        name: measure(
            value,
            ("layer", "head"),
            signatures.of(
                "ablation", f"kind:{name.partition('.')[0]}", f"silenced-on:{num_pairs}", "unit:nats-per-piece"
            ),
        )
        for name, value in found.items()
    }
