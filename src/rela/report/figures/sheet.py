"""Several grids on one sheet, laid out in inches: cells as large as the page allows, and never too small to read."""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from matplotlib.figure import Figure

from rela.report.figures.heatmap import Grid, draw_grid, draw_key, key_inches, key_parts, needs_raster
from rela.report.figures.style import FAINT, INK, WIDE, text_inches

_LARGEST: Final = 0.2
_GAP: Final = 0.22  # between panels: there is the mark of a null row
_APART: Final = 0.14  # between titles
_TITLE: Final = 0.22
_TITLE_SIZE: Final = 8.5
_LINE: Final = 0.125
_KEY: Final = 0.34
_TALL: Final = 6.5  # inches of a page that a figure may fill


@dataclass(frozen=True)
class Panel:
    """A grid with a title, and a sentence or two under that."""

    grid: Grid
    title: str
    text: str = ""


def draw_sheet(panels: Sequence[Panel], *, least: float, columns: int | None = None) -> Figure:
    """All panels, ``columns`` beside each other or as many as make them largest on a printed page.

    Cells have ``least`` inches or more: with long sentences the sheet gets larger than a page. A panel whose neighbour
    to the left, or above, has the same labels has none of its own.
    """
    num_columns = columns or max(range(1, len(panels) + 1), key=lambda count: _printed_cell(panels, count, least))
    cell = max(least, min(_LARGEST, _cell(panels, num_columns)))
    size = min(8.0, cell * 72 * 0.82)
    rows = [panels[start : start + num_columns] for start in range(0, len(panels), num_columns)]
    margin = _label_inches([label for row in rows for label in row[0].grid.rows], size)
    in_columns = [[row[place] for row in rows if place < len(row)] for place in range(num_columns)]
    grids = [max(panel.grid.weights.shape[1] for panel in column) * cell for column in in_columns]
    titles = [max(_title_inches(panel) for panel in column) for column in in_columns]
    gap = _gap(rows, size)
    steps = [max(grid + gap, title + _APART) for grid, title in zip(grids, titles, strict=True)]
    lefts = [margin + sum(steps[:place]) for place in range(num_columns)]
    parts = key_parts(panel.grid for panel in panels)
    taken = lefts[-1] + max(grids[-1] + 0.2, titles[-1] + 0.04)
    width = max(taken, key_inches(parts) + 0.1)
    lefts = [left + (width - taken) / 2 for left in lefts]
    heads = [_head(row, rows[place - 1] if place else None, cell, size) for place, row in enumerate(rows)]
    heights = [max(panel.grid.weights.shape[0] for panel in row) * cell for row in rows]
    height = sum(heads) + sum(heights) + 0.14 * (len(rows) - 1) + _KEY
    figure = Figure(figsize=(width, height))
    raster = needs_raster(panel.grid for panel in panels)
    top = height
    for number, (row, head, tall) in enumerate(zip(rows, heads, heights, strict=True)):
        above = rows[number - 1] if number else None
        top -= head
        for place, panel in enumerate(row):
            high, wide = (count * cell for count in panel.grid.weights.shape)
            axes = figure.add_axes((lefts[place] / width, (top - high) / height, wide / width, high / height))
            own_columns = _has_columns(panel, above, place)
            own_rows = place == 0 or panel.grid.rows != row[place - 1].grid.rows
            draw_grid(axes, panel.grid, rows=own_rows, columns=own_columns, size=size, raster=raster)
            base = top + head - _TITLE  # the titles of a row are at one height, whatever stands under them
            text = "\n".join(_wrapped(panel, cell))
            x = lefts[place] / width
            figure.text(
                x, (base + 0.03) / height, panel.title, fontsize=_TITLE_SIZE, fontweight="bold", va="bottom", color=INK
            )
            figure.text(x, base / height, text, fontsize=7, va="top", linespacing=1.15, color=FAINT)
        top -= tall + 0.14
    draw_key(figure, parts)
    return figure


def _cell(panels: Sequence[Panel], columns: int) -> float:
    """Inches that a cell has when so many panels stand beside each other."""
    widest = sum(sorted((panel.grid.weights.shape[1] for panel in panels), reverse=True)[:columns])
    return (WIDE - 0.9 - (columns - 1) * _GAP) / widest


def _printed_cell(panels: Sequence[Panel], columns: int, least: float) -> float:
    """Inches of a cell when the sheet is printed on a page; less, if the last row has gaps."""
    cell = max(least, min(_LARGEST, _cell(panels, columns)))
    rows = math.ceil(len(panels) / columns)
    high, wide = (max(panel.grid.weights.shape[axis] for panel in panels) for axis in (0, 1))
    step = max(wide * cell + _GAP, max(_title_inches(panel) for panel in panels) + _APART)
    scale = min(1, WIDE / (columns * step + 0.9), _TALL / (rows * (high * cell + 0.4) + 0.6))
    return cell * scale * (1 if len(panels) % columns == 0 else 0.8)


def _gap(rows: Sequence[Sequence[Panel]], size: float) -> float:
    """Between panels; wider where panels have row labels of their own."""
    own = [
        panel.grid.rows for row in rows for left, panel in itertools.pairwise(row) if panel.grid.rows != left.grid.rows
    ]
    return _GAP + (max(_label_inches(labels, size) for labels in own) if own else 0)


def _has_columns(panel: Panel, above: Sequence[Panel] | None, place: int) -> bool:
    return above is None or place >= len(above) or panel.grid.columns != above[place].grid.columns


def _head(row: Sequence[Panel], above: Sequence[Panel] | None, cell: float, size: float) -> float:
    """Inches over a row of grids: title, text and labels."""
    return max(
        _TITLE
        + len(_wrapped(panel, cell)) * _LINE
        + (_label_inches(panel.grid.columns, size) if _has_columns(panel, above, place) else 0.05)
        for place, panel in enumerate(row)
    )


def _wrapped(panel: Panel, cell: float) -> list[str]:
    letters = max(16, int((panel.grid.weights.shape[1] * cell + 0.1) / 0.057))
    return textwrap.wrap(panel.text, letters)


def _title_inches(panel: Panel) -> float:
    return text_inches(panel.title, _TITLE_SIZE)


def _label_inches(labels: Sequence[str], size: float) -> float:
    return max((text_inches(label, size) for label in labels), default=0) + 0.08
