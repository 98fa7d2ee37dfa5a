"""Figures 7 to 10: what single heads do on single sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from matplotlib.figure import Figure

from rela.report.choice import AbsentError, entries_of, has_nulls, models_of
from rela.report.figures.heatmap import Grid, grid_of
from rela.report.figures.sheet import Panel, draw_sheet
from rela.report.results import Entry, Examples, Results, specialists

ROLES: Final = {"good": "as it is", "inserted": "words inserted", "mismatched": "another target"}
_MOST_HEADS: Final = 4
_MOST_PIECES: Final = 40
"""Sentences with more pieces are shown only where there is no shorter one."""


@dataclass(frozen=True)
class Case:
    """A model whose heads are shown, its place in the file of examples, and its specialists, the strongest first."""

    name: str
    model: Entry
    place: int
    examples: Examples
    findings: list[dict[str, Any]]


def find_cases(results: Results) -> list[Case]:
    """Of each group that has null rows, the model with the strongest specialist among those with examples."""
    examples = results.examples
    if examples is None:
        raise AbsentError("no weights of example sentences: there is no attention.npz beside the results")
    groups = [entry for entry in entries_of(results) if has_nulls(entry)]
    if not groups:
        raise AbsentError("no head of any model ever attends to nothing")
    cases: list[Case] = []
    for group in groups:
        models = [model for model in models_of(results, group) if model.name in examples.models]
        if models:
            model = max(models, key=_strongest)
            place = examples.models.index(model.name)
            cases.append(Case(group.name, model, place, examples, specialists(model)))
    if not cases:
        raise AbsentError("attention.npz has no weights of a model with null rows")
    return cases


def _strongest(model: Entry) -> float:
    """How strong its strongest specialist is; 0 without any, so that the first such model is taken."""
    return max((found.get("strength") or 0.0 for found in specialists(model)), default=0.0)


def draw_null_heads(case: Case) -> Figure:
    """Figure 7: the most specialised heads on one sentence."""
    heads = _specialised(case)
    sentence = _sentence_for(case, heads)
    panels = [
        Panel(_grid(case, found["kind"], found["layer"], found["head"], sentence), _title(case, found), found["text"])
        for found in heads
    ]
    return draw_sheet(panels, least=0.11)


def draw_null_layer(case: Case) -> Figure:
    """Figure 8: all heads of the most specialised head's layer, on the same sentence."""
    heads = _specialised(case)
    strongest = heads[0]
    sentence = _sentence_for(case, heads)
    weights = case.examples.weights(case.place, strongest["kind"], sentence)
    assert weights is not None  # _sentence_for chose one that has them
    panels = [
        Panel(
            _grid(case, strongest["kind"], strongest["layer"], head, sentence),
            _title(case, strongest, head=head),
            _origin(case, strongest["kind"], sentence),
        )
        for head in range(weights.shape[1])
    ]
    return draw_sheet(panels, least=0.075)


def draw_null_clauses(case: Case) -> Figure:
    """Figure 9: the two most specialised heads on sentences of several clauses."""
    heads = _specialised(case)
    kind = heads[0]["kind"]
    taken = _sentence_for(case, heads)
    heads = heads[:2]
    others = [number for number in _with_weights(case, kind) if number != taken]
    if not others:
        raise AbsentError("only one example sentence has weights")

    def clauses(number: int) -> tuple[bool, int, int]:
        words = case.examples.sentences[number]["target_words"]
        return _length(case, number) > _MOST_PIECES, -sum(word in (",", ";", ":") for word in words), len(words)

    chosen = sorted(others, key=clauses)[:2]
    panels = [
        Panel(
            _grid(case, kind, found["layer"], found["head"], number),
            _title(case, found),
            _origin(case, kind, number),
        )
        for number in chosen
        for found in heads
    ]
    return draw_sheet(panels, least=0.1, columns=min(2, len(panels)))


def draw_quality(case: Case) -> Figure:
    """Figure 10: the best alignment head on a good pair, one with inserted words, and one that does not match."""
    best: dict[str, dict[str, Any]] = {
        shift: found for shift, found in (case.model.info.get("best") or {}).items() if found
    }
    if not best:
        raise AbsentError("no best alignment head: that takes gold links")
    shift = min(best, key=lambda name: best[name]["aer"])
    layer, head = best[shift]["layer"], best[shift]["head"]
    panels: list[Panel] = []
    for role, text in ROLES.items():
        number = next((number for number in _with_weights(case, "cross", role)), None)
        if number is None:
            raise AbsentError(f"no example with the role {role!r} in attention.npz")
        grid = _grid(case, "cross", layer, head, number, predicting=shift == "normal", gold=True)
        told = f"Layer {layer} head {head} (cross) aligns best; its null rate here is {grid.nulls.mean():.0%}."
        panels.append(Panel(grid, text, told))
    return draw_sheet(panels, least=0.09, columns=len(panels))


def _specialised(case: Case) -> list[dict[str, Any]]:
    """The findings of different heads of one kind: of cross-attention, or else of what the strongest one is about."""
    if not case.findings:
        tagged = any(name.endswith(".null.tag") for name in case.model.measures)
        why = "no null rate depends strongly enough on the tag" if tagged else "that takes tags (--tags or --tagger)"
        raise AbsentError(f"no head of {case.model.name} is a specialist by the findings: {why}")
    kinds = [found["kind"] for found in case.findings]
    kind = "cross" if "cross" in kinds else kinds[0]
    if not _with_weights(case, kind):
        raise AbsentError(f"attention.npz has no {kind} weights of {case.model.name}")
    found: dict[tuple[int, int], dict[str, Any]] = {}
    for finding in case.findings:
        if finding["kind"] == kind:
            found.setdefault((finding["layer"], finding["head"]), finding)
    return list(found.values())[:_MOST_HEADS]


def _sentence_for(case: Case, heads: Sequence[dict[str, Any]]) -> int:
    """Of those not too long, the one with words of as many of the heads' categories as can be; else the shortest.

    Where several have as many, it is the one that the strongest finding names.
    """
    there = _with_weights(case, heads[0]["kind"])
    short = [number for number in there if _length(case, number) <= _MOST_PIECES]
    named = [found.get("sentence") for found in heads]

    def worth(number: int) -> tuple[int, int, int]:
        covered = sum(_has_category(case.examples.sentences[number], found.get("category")) for found in heads)
        return -covered, named.index(number) if number in named else len(named), _length(case, number)

    return min(short, key=worth) if short else min(there, key=lambda number: _length(case, number))


def _has_category(sentence: dict[str, Any], category: str | None) -> bool:
    """Whether a target has a word of the category, which is a tag, or a tag and a punctuation mark: ``PUNCT ,``."""
    tags = sentence.get("target_tags")
    if tags is None:
        return False
    return any(category in (tag, f"{tag} {word}") for tag, word in zip(tags, sentence["target_words"], strict=True))


def _with_weights(case: Case, kind: str, role: str = "pair") -> list[int]:
    """The numbers of the sentences with this role that have this model's weights."""
    numbers = (number for number, sentence in enumerate(case.examples.sentences) if sentence["role"] == role)
    return [number for number in numbers if case.examples.has(case.place, kind, number)]


def _length(case: Case, number: int) -> int:
    of_model = case.examples.sentences[number]["models"][case.place]
    return max(len(of_model["source_pieces"]), len(of_model["target_pieces"]))


def _grid(
    case: Case, kind: str, layer: int, head: int, number: int, *, predicting: bool = False, gold: bool = False
) -> Grid:
    weights = case.examples.weights(case.place, kind, number)
    if weights is None or layer > weights.shape[0] or head >= weights.shape[1]:
        raise AbsentError(f"attention.npz has no weights of layer {layer} head {head} ({kind}) of {case.model.name}")
    sentence = case.examples.sentences[number]
    return grid_of(sentence, case.place, weights[layer - 1, head], kind, predicting=predicting, gold=gold)


def _origin(case: Case, kind: str, number: int) -> str:
    """What a panel shows, under a title with a rate that is not of this sentence alone."""
    return f"{kind}, line {case.examples.sentences[number]['line']}. The rate is that of all lines."


def _title(case: Case, found: dict[str, Any], head: int | None = None) -> str:
    """The layer, the head, and how often it is null over all of the data."""
    kind, layer = found["kind"], found["layer"]
    number = found["head"] if head is None else head
    measure = case.model.measures.get(f"{kind}.null")
    rate = np.nan if measure is None else float(measure.value[layer - 1, number])
    return f"layer {layer} head {number}" + (f": null {rate:.0%}" if np.isfinite(rate) else "")
