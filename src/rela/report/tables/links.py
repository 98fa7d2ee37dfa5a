"""Tables of word alignment: the paper's table 5, single heads, layers, two directions made one."""

from __future__ import annotations

from itertools import product
from typing import Final

import numpy as np

from rela.report.choice import with_heads, with_measure
from rela.report.results import Entry, Results
from rela.report.tables import paper as papers
from rela.report.tables.rows import Shown, count_layers, is_empty, layer_columns, share, text_row
from rela.report.tables.table import NOTHING, Cell, Column, Row, Table, mark_best, number_cell

_SHIFTS: Final = ("normal", "shifted")
_RULES: Final = ("merged", "any")
_SCORES: Final = {"aer": "AER", "precision": "precision", "recall": "recall", "f1": "F1"}
_GOLD: Final = "alignment needs gold links"
_RULE_NOTE: Final = (
    "Words merged: weights summed over a source word's pieces, averaged over a target word's; any: two words are "
    "linked if any of their pieces are."
)


def make_aer(results: Results, paper: bool = False) -> Table:
    """The paper's table 5: AER of the layer attention (AoL) and of the best head (AoH), means over layers."""
    entries = with_measure(results, "cross.aol.normal.merged", _GOLD)
    shown = Shown(results)
    rows: list[Row] = []
    for rule in _RULES:
        for place, entry in enumerate(entries):
            names = [f"cross.{what}.{shift}.{rule}" for shift in _SHIFTS for what in ("aol", "aoh")]
            cells = [shown.number(entry, name, percent=True) for name in names]
            rows.append(text_row([entry.name, rule], cells, rule=place == 0, contest=rule))
    notes = [_RULE_NOTE]
    if paper:
        for place, (name, values) in enumerate(papers.AER.items()):
            cells = [number_cell(value, digits=2) for value in values]
            rows.append(text_row([name + papers.MARK, NOTHING], cells, rule=place == 0))
        notes.append(papers.NOTE.format(5, "; gold links of the RWTH set, rule of words not told"))
    scores = [Column(what, shift) for shift in _SHIFTS for what in ("AoL", "AoH")]
    columns = (Column("model", is_text=True), Column("words", is_text=True), *scores)
    title = "Alignment error rate in percent, mean over layers. AoL: layer attention; AoH: the best head of each layer"
    return Table("aer", title, columns, mark_best(rows, range(2, 6), least=True), tuple(notes), tuple(shown.signatures))


def make_best_heads(results: Results, paper: bool = False) -> Table:  # noqa: ARG001 (the paper has none)
    """The best single head of each model, and its best layer attention."""
    with_heads(results, "cross.aer.normal.merged", _GOLD)
    shown = Shown(results)
    rows: list[Row] = []
    for model in results.models:
        first = True
        for shift, rule, whole in product(_SHIFTS, _RULES, (False, True)):
            found = _best_place(shown, model, f"{shift}.{rule}", whole=whole)
            if found is None:
                continue
            texts = [model.name, shift, rule, str(found[0] + 1), "all" if whole else str(found[-1])]
            cells: list[Cell] = []
            for score in _SCORES:
                measure = shown.find(model, f"cross.{score}.{shift}.{rule}{'.layer_attention' if whole else ''}")
                value = float("nan") if measure is None else share(measure.value[found])
                cells.append(number_cell(value, digits=2, percent=True))
            rows.append(text_row(texts, cells, rule=first))
            first = False
    names = ("model", "shift", "words", "layer", "head")
    columns = (*(Column(name, is_text=True) for name in names), *(Column(name) for name in _SCORES.values()))
    title = "The head, and the layer attention (head: all), with the least alignment error rate; in percent"
    notes = ("Chosen by the gold links that they are scored with. " + _RULE_NOTE,)
    return Table("best-heads", title, columns, tuple(rows), notes, tuple(shown.signatures))


def _best_place(shown: Shown, model: Entry, name: str, *, whole: bool) -> tuple[int, ...] | None:
    measure = shown.find(model, f"cross.aer.{name}{'.layer_attention' if whole else ''}")
    if measure is None:
        return None
    errors = np.where(np.isfinite(measure.value), measure.value, np.inf)
    return tuple(int(index) for index in np.unravel_index(errors.argmin(), errors.shape))


def make_layers(results: Results, paper: bool = False) -> Table:  # noqa: ARG001 (the paper has curves only)
    """AER, precision, recall and F1 of the layer attention, by layer."""
    names = [
        f"cross.{score}.{shift}.{rule}.layer_attention" for score in _SCORES for shift in _SHIFTS for rule in _RULES
    ]
    entries = with_measure(results, names[0], _GOLD)
    shown = Shown(results)
    count = count_layers(entries, names)
    rows: list[Row] = []
    for score, shift, rule in product(_SCORES, _SHIFTS, _RULES):
        for place, entry in enumerate(entries):
            cells = shown.layers(entry, f"cross.{score}.{shift}.{rule}.layer_attention", count)
            contest = f"{score} {shift} {rule}"
            row = text_row([_SCORES[score], shift, rule, entry.name], cells, rule=place == 0, contest=contest)
            if not is_empty(row):
                rows.append(row)
    places = range(4, 5 + count)
    errors = mark_best([row for row in rows if row.cells[0].text == "AER"], places, least=True)
    others = mark_best([row for row in rows if row.cells[0].text != "AER"], places)
    heads = (*(Column(name, is_text=True) for name in ("score", "shift", "words", "model")), *layer_columns(count))
    title = "Word alignment by the layer attention, in percent"
    return Table("alignment-layers", title, heads, (*errors, *others), (_RULE_NOTE,), tuple(shown.signatures))


def make_symmetrised(results: Results, paper: bool = False) -> Table:  # noqa: ARG001 (the paper has none)
    """Alignments of two models of opposite directions, made one."""
    why = "it takes gold links and a model of the opposite direction"
    entries = with_measure(results, "symmetrised.aer", why)
    shown = Shown(results)
    rows: list[Row] = []
    for entry in entries:
        methods = entry.measures["symmetrised.aer"].labels["method"]
        found = [shown.find(entry, f"symmetrised.{score}") for score in _SCORES]
        for place, method in enumerate(methods):
            cells = [
                number_cell(
                    float("nan") if measure is None else share(measure.value[place]),
                    None if measure is None or measure.spread is None else share(measure.spread[place]),
                    digits=2,
                    percent=True,
                )
                for measure in found
            ]
            rows.append(text_row([entry.name, method], cells, rule=place == 0, contest="all"))
    marked = mark_best(mark_best(rows, [2], least=True), [3, 4, 5])
    columns = (Column("model", is_text=True), Column("method", is_text=True), *(Column(s) for s in _SCORES.values()))
    title = "Word alignment of both directions made one, in percent"
    return Table("symmetrised", title, columns, marked, (), tuple(shown.signatures))
