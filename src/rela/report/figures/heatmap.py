"""The weights of one head as a grid: exact zeros are told from small weights, and rows without weight stand out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from rela.report.figures.style import ACCENT, FAINT, INK, frameless
from rela.report.results import Weights

_ZERO: Final = "#f3f4f6"
_DOT: Final = "#9ca3af"
_NULL: Final = "#fbe3d3"
_WEIGHTS: Final = LinearSegmentedColormap.from_list("weights", ["#b9d9ee", "#4f9fd0", "#0072B2", "#00304d"])
_RASTER: Final = 6000
"""Cells in a figure from which on they are drawn as pixels, or the SVG would be many megabytes."""
_LONGEST: Final = 16
"""Letters of a label; longer ones end in an ellipsis."""
BOS: Final = "⟨s⟩"


@dataclass(frozen=True)
class Grid:
    """Weights ``[query, key]`` and what to write beside them. ``gold`` has places that gold links join."""

    weights: Weights
    rows: list[str]
    columns: list[str]
    causal: bool = False
    gold: frozenset[tuple[int, int]] = frozenset()

    @property
    def nulls(self) -> NDArray[np.bool_]:
        """Which rows have no weight at all."""
        return (self.weights == 0).all(1)


def label_pieces(pieces: Sequence[str], owners: Sequence[Sequence[int]]) -> list[str]:
    """Pieces as people read them: a dot before one that goes on with the word of the piece before it."""
    labels: list[str] = []
    for place, piece in enumerate(pieces):
        goes_on = place > 0 and bool(set(owners[place]) & set(owners[place - 1]))
        text = "".join(sign if sign.isprintable() else "\ufffd" for sign in piece.strip()) or "␣"
        labels.append(("·" if goes_on else "") + (text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"))
    return labels


def grid_of(
    sentence: dict[str, Any], model: int, weights: Weights, kind: str, *, predicting: bool = False, gold: bool = False
) -> Grid:
    """A head's weights ``[query, key]`` with the pieces they are between; with ``gold``, the links of their words too.

    Rows of the decoder are named by their input, the piece just produced; ``predicting``: by the piece they predict.
    """
    of_model = sentence["models"][model]
    source = label_pieces(of_model["source_pieces"], of_model["source_piece_words"])
    target = label_pieces(of_model["target_pieces"], of_model["target_piece_words"])
    fed = [BOS, *target[:-1]]
    if kind == "encoder":
        return Grid(weights, source, source)
    if kind == "decoder":
        return Grid(weights, fed, fed, causal=True)
    rows = range(len(target))
    row_words = of_model["target_piece_words"] if predicting else [[], *of_model["target_piece_words"][:-1]]
    links = {tuple(link) for link in (sentence["possible"] if gold else None) or []}
    joined = frozenset(
        (row, column)
        for row in rows
        for column, source_words in enumerate(of_model["source_piece_words"])
        if any((first, second) in links for first in source_words for second in row_words[row])
    )
    return Grid(weights, target if predicting else fed, source, gold=joined)


def draw_grid(
    axes: Axes, grid: Grid, *, rows: bool = True, columns: bool = True, size: float = 7, raster: bool = False
) -> None:
    """Draw a grid; ``rows`` and ``columns``: with labels. The darkest cell is the grid's largest weight."""
    height, width = grid.weights.shape
    frameless(axes)
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    axes.set_aspect("equal")
    forbidden = ~np.tri(height, width, dtype=bool) if grid.causal else np.zeros((height, width), bool)
    largest = float(grid.weights.max(initial=0)) or 1.0
    shown = np.ma.masked_where((grid.weights == 0) | forbidden, grid.weights / largest)
    nulls = grid.nulls
    background = np.where(nulls[:, None], 1.0, 0.0) * np.ones((1, width))
    plain = LinearSegmentedColormap.from_list("zeros", [_ZERO, _NULL])
    lines: dict[str, Any] = {"edgecolors": "white", "linewidth": 0.35, "rasterized": raster}
    axes.pcolormesh(np.ma.masked_where(forbidden, background), cmap=plain, vmin=0, vmax=1, **lines)
    axes.pcolormesh(shown, cmap=_WEIGHTS, vmin=0, vmax=1, **lines)
    zero_rows, zero_columns = np.nonzero((grid.weights == 0) & ~forbidden & ~nulls[:, None])
    axes.scatter(zero_columns + 0.5, zero_rows + 0.5, s=(size / 5) ** 2, color=_DOT, linewidths=0, rasterized=raster)
    for row, column in sorted(grid.gold):
        axes.add_patch(Rectangle((column + 0.08, row + 0.08), 0.84, 0.84, fill=False, edgecolor="black", linewidth=0.7))
    for row in np.flatnonzero(nulls):
        axes.text(width + 0.25, row + 0.5, "∅", va="center", ha="left", fontsize=size, color=ACCENT)
    if rows:
        axes.set_yticks(np.arange(height) + 0.5, grid.rows, fontsize=size)
        for tick, null in zip(axes.get_yticklabels(), nulls, strict=True):
            tick.set_color(ACCENT if null else INK)
    if columns:
        axes.set_xticks(np.arange(width) + 0.5, grid.columns, fontsize=size, rotation=90)
        axes.xaxis.tick_top()
    axes.tick_params(length=0, pad=2)


def key_parts(grids: Iterable[Grid]) -> dict[str, str]:
    """What the key of these grids has to explain."""
    parts = {"weight": "small to largest weight", "zero": "exactly 0", "null": "null row: all weights 0"}
    for grid in grids:
        if grid.gold:
            parts["gold"] = "gold link"
        if grid.causal:
            parts["none"] = "not allowed"
    return parts


def key_inches(parts: dict[str, str]) -> float:
    """How wide the key is."""
    return sum(_key_inches(part, text) for part, text in parts.items())


def _key_inches(part: str, text: str) -> float:
    return 0.059 * len(text) + (0.67 if part == "weight" else 0.37)


def draw_key(figure: Figure, parts: dict[str, str]) -> None:
    """What the colours mean, in one line at the figure's lower edge."""
    width, height = figure.get_size_inches()
    axes = figure.add_axes((0, 0.02 / height, 1, 0.22 / height))
    frameless(axes)
    axes.set_xlim(0, width)
    axes.set_ylim(0, 0.22)
    left = max(0.05, (width - key_inches(parts)) / 2)
    for part, text in parts.items():
        wide = 0.45 if part == "weight" else 0.15
        if part == "weight":
            for step in range(6):
                color = _WEIGHTS(step / 5)
                axes.add_patch(Rectangle((left + step * wide / 6, 0.04), wide / 6, 0.14, color=color, linewidth=0))
        else:
            fill = {"zero": _ZERO, "null": _NULL, "gold": "#4f9fd0", "none": "white"}[part]
            edge = {"gold": "black", "none": "#d1d5db"}.get(part, "none")
            axes.add_patch(Rectangle((left, 0.04), wide, 0.14, facecolor=fill, edgecolor=edge, linewidth=1))
            if part == "zero":
                axes.scatter([left + wide / 2], [0.11], s=3, color=_DOT, linewidths=0)
            if part == "null":
                axes.text(left + wide / 2, 0.1, "∅", ha="center", va="center", fontsize=7, color=ACCENT)
        axes.text(left + wide + 0.06, 0.105, text, va="center", fontsize=7.5, color=FAINT)
        left += _key_inches(part, text)


def needs_raster(grids: Iterable[Grid]) -> bool:
    """Whether there are more cells than an SVG should have."""
    return sum(grid.weights.size for grid in grids) > _RASTER
