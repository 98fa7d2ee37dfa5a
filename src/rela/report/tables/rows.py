"""What the tables share: cells out of measures, rows by layer, and the signatures of what was shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from rela.report.choice import has_numbers, mean_without_nan, over_models
from rela.report.results import Entry, Measure, Results, Values
from rela.report.tables.table import NOTHING, Cell, Column, Row, number_cell


@dataclass
class Shown:
    """Makes cells of a result's measures and remembers the signatures of all that it showed."""

    results: Results
    signatures: list[str] = field(default_factory=list[str])

    def number(self, entry: Entry, name: str, *, digits: int = 2, percent: bool = False) -> Cell:
        """A measure that is one number."""
        measure = self.find(entry, name)
        if measure is None:
            return Cell(NOTHING)
        spread = None if measure.spread is None else float(measure.spread)
        return number_cell(float(measure.value), spread, digits=digits, percent=percent)

    def layers(self, entry: Entry, name: str, count: int, *, digits: int = 1, percent: bool = True) -> list[Cell]:
        """A measure by layer: a cell for each of ``count`` layers, and for their mean."""
        measure = self.find(entry, name)
        if measure is None:
            return [Cell(NOTHING)] * (count + 1)
        spreads = [None] * len(measure.value) if measure.spread is None else measure.spread.tolist()
        cells = [
            number_cell(value, spread, digits=digits, percent=percent)
            for value, spread in zip(measure.value.tolist(), spreads, strict=True)
        ]
        return [*cells, *[Cell(NOTHING)] * (count - len(cells)), self.mean(entry, name, digits=digits, percent=percent)]

    def mean(self, entry: Entry, name: str, *, place: int | None = None, digits: int = 1, percent: bool = True) -> Cell:
        """The mean over layers, worked out for each model; ``place``: of one place along the first axis."""

        def of_model(model: Entry) -> Values | None:
            measure = model.measures.get(name)
            if measure is None:
                return None
            return mean_without_nan(measure.value if place is None else measure.value[place])

        self.find(entry, name)
        found = over_models(self.results, entry, of_model)
        if found is None:
            return Cell(NOTHING)
        spread = None if found[1] is None else float(found[1])
        return number_cell(float(found[0]), spread, digits=digits, percent=percent)

    def find(self, entry: Entry, name: str) -> Measure | None:
        """A measure with a number in it, which is then part of the table."""
        measure = entry.measures.get(name)
        if measure is None or not has_numbers(measure):
            return None
        if measure.signature not in self.signatures:
            self.signatures.append(measure.signature)
        return measure


def layer_columns(count: int, *, mean: bool = True) -> tuple[Column, ...]:
    """A column for each layer, and for the mean."""
    return (*(Column(str(number + 1), "layer") for number in range(count)), *([Column("mean")] if mean else []))


def count_layers(entries: Sequence[Entry], names: Sequence[str]) -> int:
    """The layers of the deepest model."""
    return max((len(e.measures[name].value) for e in entries for name in names if name in e.measures), default=0)


def text_row(texts: Sequence[str], cells: Sequence[Cell], *, rule: bool = False, contest: str | None = None) -> Row:
    """A row that begins with words."""
    return Row((*(Cell(text) for text in texts), *cells), rule, contest)


def is_empty(row: Row) -> bool:
    """Whether a row has no number."""
    return all(cell.value is None for cell in row.cells)


def share(value: float) -> float:
    """A number that may be NaN, as Python's own."""
    return float(value) if np.isfinite(value) else float("nan")
