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
    """The first model with examples of each group that has null rows."""
    examples = results.examples
    if examples is None:
        raise AbsentError("no weights of example sentences: there is no attention.npz beside the results")
    groups = [entry for entry in entries_of(results) if has_nulls(entry)]
    if not groups:
        raise AbsentError("no head of any model ever attends to nothing")
    cases: list[Case] = []
    for group in groups:
        model = next((model for model in models_of(results, group) if model.name in examples.models), None)
        if model is not None:
            place = examples.models.index(model.name)
            cases.append(Case(group.name, model, place, examples, specialists(model)))
    if not cases:
        raise AbsentError("attention.npz has no weights of a model with null rows")
    return cases


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
        Panel(_grid(case, strongest["kind"], strongest["layer"], head, sentence), _title(case, strongest, head=head))
        for head in range(weights.shape[1])
    ]
    return draw_sheet(panels, least=0.075)


def draw_null_clauses(case: Case) -> Figure:
    """Figure 9: the two most specialised heads on sentences of several clauses."""
    heads = _specialised(case)[:2]
    kind = heads[0]["kind"]
    taken = _sentence_for(case, heads)
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
            f"line {case.examples.sentences[number]['line']}" if found is heads[0] else "",
        )
        for number in chosen
        for found in heads
    ]
    return draw_sheet(panels, least=0.1, columns=len(heads))


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
        panels.append(Panel(grid, f"{text}: null {grid.nulls.mean():.0%}"))
    return draw_sheet(panels, least=0.09, columns=len(panels))


def _specialised(case: Case) -> list[dict[str, Any]]:
    """The findings of different heads, all of the kind that the strongest one is about."""
    found: dict[tuple[int, int], dict[str, Any]] = {}
    for finding in case.findings:
        kind = case.findings[0]["kind"]
        if finding["kind"] == kind and _with_weights(case, kind):
            found.setdefault((finding["layer"], finding["head"]), finding)
    if not found:
        raise AbsentError(f"no head of {case.name} is a specialist by the findings: that takes tags")
    return list(found.values())[:_MOST_HEADS]


def _sentence_for(case: Case, heads: Sequence[dict[str, Any]]) -> int:
    """The sentence of the strongest finding that is not too long; else the shortest of them."""
    there = _with_weights(case, heads[0]["kind"])
    named = [found["sentence"] for found in heads if found.get("sentence") in there] or there
    short = [number for number in named if _length(case, number) <= _MOST_PIECES]
    return short[0] if short else min(named, key=lambda number: _length(case, number))


def _with_weights(case: Case, kind: str, role: str = "pair") -> list[int]:
    """The numbers of the sentences with this role that have this model's weights."""
    numbers = (number for number, sentence in enumerate(case.examples.sentences) if sentence["role"] == role)
    return [number for number in numbers if case.examples.weights(case.place, kind, number) is not None]


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


def _title(case: Case, found: dict[str, Any], head: int | None = None) -> str:
    """The layer, the head, and how often it is null over all of the data."""
    kind, layer = found["kind"], found["layer"]
    number = found["head"] if head is None else head
    measure = case.model.measures.get(f"{kind}.null")
    rate = np.nan if measure is None else float(measure.value[layer - 1, number])
    return f"layer {layer} head {number}" + (f": null {rate:.0%}" if np.isfinite(rate) else "")
