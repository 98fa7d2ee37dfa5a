"""What was measured about a model, as its entry in results.json."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rela._version import __version__
from rela.alignment.batched import RULES, SHIFTS, Rule, Shift
from rela.alignment.pairs import WINDOW
from rela.alignment.tally import AlignmentErrors
from rela.analysis.measuring import Measuring
from rela.analysis.naming import NamedModel
from rela.analysis.results import Measures, measure
from rela.analysis.statistics import DISTANCES, TAUS
from rela.attention.spec import KINDS

SCORES: Final = ("aer", "precision", "recall", "f1")
_TAU_NAMES: Final = [f"{tau:g}" for tau in TAUS]
_LABELS: Final = {"distance": DISTANCES, "tau": _TAU_NAMES}
_AXES: Final[Mapping[str, tuple[str, ...]]] = {
    "distance": ("layer", "head", "distance"),
    "diversity": ("layer",),
    "diversity.word": ("layer",),
    "diversity.mean": (),
    "diversity.tau": ("tau", "layer"),
    "diversity.tau.word": ("tau", "layer"),
    "diversity.tau.mean": ("tau",),
}
"""The axes of statistics that are not ``layer, head``, or ``layer`` for means over heads and the like."""
_ENDINGS: Final[Mapping[str, str]] = {
    ".layer": "heads:mean",
    ".variance": "heads:variance",
    ".layer_attention": "weights:mean-over-heads",
    ".mean": "layers:mean",
}
"""What the end of a statistic's name says in its signature."""


class Signatures:
    """Signatures of one model's numbers on one corpus."""

    def __init__(self, measuring: Measuring, attention: str, name: str) -> None:
        self._data = f"data:{part(measuring.corpus.name)}|pairs:{measuring.num_pairs}"
        self._words = measuring.corpus.wording.signature()
        self._model = f"model:{part(name)}|attention:{attention}"

    def of(self, what: str, *parts: str, words: bool = False) -> str:
        """For one measure, with what is special about it."""
        level = ["level:word", self._words] if words else []
        return "|".join([what, self._data, self._model, *parts, *level, f"v{__version__}"])


def part(text: str) -> str:
    """A text as a part of a signature, whose parts are separated by bars."""
    return text.replace("|", "/")


def describe_model(
    named: NamedModel, measuring: Measuring, measures: Measures, signatures: Signatures
) -> dict[str, Any]:
    """The whole entry, but for the findings."""
    model, reading, ratio = measuring.model, measuring.reading, measuring.cost.ratio
    assert reading is not None
    return {
        "name": named.name,
        "group": named.group,
        "path": str(named.folder),
        "direction": f"{named.languages.source}-{named.languages.target}",
        "seed": named.seed,
        "attention": named.attention,
        "attentions": {kind: model.config.attention.spec(kind).name for kind in KINDS},
        "layers": {kind: len(found) for kind, found in model.attentions().items()},
        "heads": model.config.num_heads,
        "parameters": model.num_parameters(),
        "pairs": measuring.num_pairs,
        "source_pieces": int(measuring.pieces[0]),
        "target_pieces": int(measuring.pieces[1]),
        "skipped": reading.skipped,
        "cost": {
            "ratio": None if ratio is None else round(ratio, 3),
            "batches": len(measuring.cost.plain),
            "signature": signatures.of("cost", f"batches:{len(measuring.cost.plain)}", "against:forced-forward"),
        },
        "best": None if measuring.errors is None else best_heads(measuring.errors),
        "measures": measures,
    }


def describe_data(measuring: Measuring, named: NamedModel) -> dict[str, Any]:
    """The entry ``data`` of results.json; numbers of pairs and pieces are those of this model."""
    corpus, reading = measuring.corpus, measuring.reading
    assert reading is not None
    return {
        "source": str(corpus.source),
        "target": str(corpus.target),
        "source_language": named.languages.source,
        "target_language": named.languages.target,
        "pairs": measuring.num_pairs,
        "source_pieces": int(measuring.pieces[0]),
        "target_pieces": int(measuring.pieces[1]),
        "skipped": reading.skipped,
        "gold": None if reading.gold is None else reading.gold.to_json(),
        "tags": corpus.tags_name,
    }


def measures_of(measuring: Measuring, signatures: Signatures) -> Measures:
    """All measures of a model but those of ablation, and of links in both directions."""
    found: Measures = {
        "loss": measure(
            measuring.loss[0] / measuring.loss[1], (), signatures.of("loss", "unit:nats-per-piece", "decoding:forced")
        )
    }
    for kind in KINDS:
        has_taus = measuring.statistics[kind].has_taus
        for name, value in measuring.statistics[kind].values().items():
            found[f"{kind}.{name}"] = _statistic(f"kind:{kind}", name, value, has_taus, signatures)
    if measuring.errors is not None:
        found |= _alignment(measuring.errors, measuring, signatures)
    if measuring.hallucination is not None:
        counts = measuring.hallucination.num_pairs
        pairs = f"real:{counts[0]}|shuffled:{counts[1]}|shuffle:cycle-in-{WINDOW}|seed:{measuring.seed}|kind:cross"
        values = measuring.hallucination.values()
        if values:
            of_each = {"targets": ["real", "shuffled"]}
            found["hallucinated.pairs"] = measure(counts, ("targets",), signatures.of("pairs", pairs), of_each)
        for name, value in values.items():
            axes = () if value.ndim == 0 else ("layer",)
            found[name] = measure(value, axes, signatures.of(name, pairs))
    if measuring.tags is not None:
        found |= _tags(measuring, signatures)
    return found


def _statistic(
    kind: str, name: str, value: NDArray[np.float64], has_taus: bool, signatures: Signatures
) -> dict[str, Any]:
    words = ".word" in name
    ending = next((end for end in _ENDINGS if name.endswith(end)), None)
    axes = _AXES.get(name, ("layer", "head") if ending is None else ("layer",))
    parts = [kind, *([] if words else ["level:piece"]), *([] if ending is None else [_ENDINGS[ending]])]
    if name.startswith("diversity") and has_taus:
        parts.append("tau:by-axis" if "tau" in name else "tau:1")
    labels = {axis: labels for axis, labels in _LABELS.items() if axis in axes}
    return measure(value, axes, signatures.of(name.partition(".")[0], *parts, words=words), labels)


def _alignment(errors: AlignmentErrors, measuring: Measuring, signatures: Signatures) -> Measures:
    found: Measures = {}
    assert measuring.reading is not None
    reader = measuring.reading.gold
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
    assert measuring.corpus.tags_name is not None
    result = measuring.tags.result()
    tags = f"tags:{part(Path(measuring.corpus.tags_name).name)}"
    found: Measures = {}
    for name, value in result.measures().items():
        is_count = name.endswith(".count")
        axes = ("tag",) if is_count else ("tag", "layer", "head")
        kind = f"kind:{name.partition('.')[0]}"
        signature = signatures.of("rows" if is_count else "null", kind, tags, "row:after-word")
        found[name] = measure(value, axes, signature, {"tag": result.categories})
    return found


def best_heads(errors: AlignmentErrors, rule: Rule = "merged") -> dict[Shift, dict[str, Any] | None]:
    """For each shift the head with the lowest AER; layers count from 1, heads from 0. None: no head links any words."""
    found: dict[Shift, dict[str, Any] | None] = {}
    for shift in SHIFTS:
        aer = errors.counts(shift, rule).aer[:, :-1]
        if np.isnan(aer).all():
            found[shift] = None
            continue
        layer, head = np.unravel_index(int(np.nanargmin(aer)), aer.shape)
        found[shift] = {"layer": int(layer) + 1, "head": int(head), "aer": float(aer[layer, head])}
    return found


def ablation_measures(found: Mapping[str, NDArray[np.float64]], num_pairs: int, signatures: Signatures) -> Measures:
    """Of :class:`rela.analysis.ablation.AblationResult`."""
    measures: Measures = {}
    for name, value in found.items():
        kind, _, rest = name.partition(".")
        rows = {"ablation": "all", "ablation.null": "null", "ablation.active": "active"}[rest]
        parts = (f"kind:{kind}", f"silenced-on:{num_pairs}", f"rows:{rows}", "unit:nats-per-piece")
        measures[name] = measure(value, ("layer", "head"), signatures.of("ablation", *parts))
    return measures
