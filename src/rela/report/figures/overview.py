"""Figure 1: softmax attention and ReLA side by side; what differs is in another colour."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from rela.report.choice import has_nulls
from rela.report.figures.heatmap import Grid, draw_grid
from rela.report.figures.style import ACCENT, FAINT, INK, frameless
from rela.report.results import Entry, Examples, Results, Weights

_SIZE: Final = (5.6, 3.5)
_SIDE: Final = 1.0  # of a grid, in inches
_MOST: Final = 9  # rows and columns of a grid
_ROWS: Final = (2.62, 0.94)  # where the middles of both lie

_Box = tuple[str, float, bool]
"""What stands in it, how wide it is, and whether this is where the two differ."""


def draw_overview(results: Results) -> Figure:
    """Both attentions as chains of operations, with the weights of real heads where there are examples."""
    figure = Figure(figsize=_SIZE)
    axes = figure.add_axes((0, 0, 1, 1))
    frameless(axes)
    axes.set_xlim(0, _SIZE[0])
    axes.set_ylim(0, _SIZE[1])
    examples = results.examples
    real = None if examples is None else _real_weights(results, examples)
    (softmax, of_softmax), (rela, of_rela) = real or _made_up_weights()
    scores: _Box = ("scores\nQKᵀ / √d", 0.78, False)
    values: _Box = ("\u00d7 V", 0.4, False)
    end: _Box = ("Wₒ", 0.38, False)
    gate: _Box = ("RMSNorm\nand gate", 0.82, True)
    _chain(axes, _ROWS[0], "softmax attention", [scores, ("softmax", 0.72, False)], [values, end], softmax, of_softmax)
    _chain(
        axes, _ROWS[1], "rectified linear attention", [scores, ("ReLU", 0.72, True)], [values, gate, end], rela, of_rela
    )
    return figure


def _chain(
    axes: Axes, middle: float, title: str, before: list[_Box], after: list[_Box], weights: Weights, of_what: str
) -> None:
    axes.text(0.1, middle + _SIDE / 2 + 0.12, title, fontsize=10.5, fontweight="bold", va="bottom")
    left = 0.1
    for box in before:
        left = _box(axes, left, middle, box)
    side = _SIDE / max(weights.shape)
    figure = axes.figure
    assert isinstance(figure, Figure)
    high, wide = (count * side for count in weights.shape)
    grid = figure.add_axes((left / _SIZE[0], (middle - high / 2) / _SIZE[1], wide / _SIZE[0], high / _SIZE[1]))
    draw_grid(grid, Grid(weights, [], []), rows=False, columns=False, size=7.5)
    nulls = int((weights == 0).all(1).sum())
    zeros = float((weights == 0).mean())
    told = (
        f"{zeros:.0%} exactly 0" + (f", {nulls} null rows ∅" if nulls != 1 else ", 1 null row ∅")
        if zeros
        else "all > 0"
    )
    below = middle - _SIDE / 2
    centre = left + wide / 2
    axes.text(centre, below - 0.06, told, fontsize=8.5, ha="center", va="top", color=INK)
    axes.text(centre, below - 0.21, of_what, fontsize=7.5, ha="center", va="top", color=FAINT)
    left += wide + 0.16  # the marks of null rows
    _arrow(axes, left, middle)
    left += 0.22
    for place, box in enumerate(after):
        left = _box(axes, left, middle, box, arrow=place + 1 < len(after))


def _box(axes: Axes, left: float, middle: float, box: _Box, *, arrow: bool = True) -> float:
    """Draw a box and an arrow after it; returns where the next one begins."""
    text, width, differs = box
    color = ACCENT if differs else FAINT
    style: dict[str, Any] = {"facecolor": "#fdf1e8" if differs else "white", "edgecolor": color}
    shape = "round,pad=0,rounding_size=0.07"
    axes.add_patch(FancyBboxPatch((left, middle - 0.23), width, 0.46, boxstyle=shape, linewidth=1.1, **style))
    weight = "bold" if differs else "normal"
    axes.text(left + width / 2, middle, text, fontsize=9, ha="center", va="center", fontweight=weight, linespacing=1.25)
    if arrow:
        _arrow(axes, left + width + 0.02, middle)
    return left + width + 0.22


def _arrow(axes: Axes, left: float, middle: float) -> None:
    ends = ((left, middle), (left + 0.18, middle))
    axes.add_patch(
        FancyArrowPatch(*ends, arrowstyle="-|>", mutation_scale=8, color=FAINT, linewidth=1, shrinkA=0, shrinkB=0)
    )


def _real_weights(results: Results, examples: Examples) -> list[tuple[Weights, str]] | None:
    """Cross-attention of a softmax model and of one with null rows, on the shortest sentence that both have."""
    known = [model for model in results.models if model.name in examples.models]
    dense = next((model for model in known if model.info.get("attention") == "softmax"), None)
    sparse = next((model for model in known if has_nulls(model)), None)
    if dense is None or sparse is None:
        return None
    places = [examples.models.index(model.name) for model in (dense, sparse)]
    shared = [
        number
        for number, sentence in enumerate(examples.sentences)
        if sentence["role"] in ("pair", "good")
        and all(examples.weights(place, "cross", number) is not None for place in places)
    ]
    if not shared:
        return None
    number = min(shared, key=lambda number: len(examples.sentences[number]["target_words"]))
    return [_head(examples, model, place, number) for model, place in zip((dense, sparse), places, strict=True)]


def _head(examples: Examples, model: Entry, place: int, number: int) -> tuple[Weights, str]:
    """The model's best alignment head or, if none is known, the one whose weights vary most."""
    weights = examples.weights(place, "cross", number)
    assert weights is not None
    best: list[dict[str, Any]] = [found for found in (model.info.get("best") or {}).values() if found]
    if best:
        chosen = min(best, key=lambda found: found["aer"])
        layer, head = chosen["layer"] - 1, chosen["head"]
    else:
        spread = weights.std((2, 3)) / np.maximum(weights.mean((2, 3)), 1e-9)
        layer, head = (int(index) for index in np.unravel_index(spread.argmax(), spread.shape))
    return weights[layer, head, :_MOST, :_MOST], f"{model.name}, layer {layer + 1} head {head}"


def _made_up_weights() -> list[tuple[Weights, str]]:
    """The same made-up scores under both maps."""
    scores = np.random.default_rng(12).normal(-0.8, 1.4, (8, 8))
    scores[[2, 5]] -= 3
    powers = np.exp(scores - scores.max(1, keepdims=True))
    maps = (powers / powers.sum(1, keepdims=True), np.maximum(scores, 0))
    return [(weights.astype(np.float32), "of made-up scores") for weights in maps]
