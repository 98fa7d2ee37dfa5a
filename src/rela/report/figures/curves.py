"""Figures 2 to 6: curves by length and by layer, one for each group of models; the band is the spread over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, PercentFormatter

from rela.report.choice import (
    AbsentError,
    entries_of,
    has_nulls,
    has_numbers,
    of_heads,
    over_models,
    with_heads,
    with_measure,
)
from rela.report.figures.style import FAINT, WIDTH, LineStyle, line_styles
from rela.report.results import KINDS, Entry, Measure, Results, Values

_TITLES: Final = {"encoder": "encoder self", "decoder": "decoder self", "cross": "cross"}
_SHIFTS: Final = ("normal", "shifted")
_RULE: Final = "merged"


def draw_speed(bench: Results | None) -> Figure:
    """Figure 2: decoding speed by source length, beside softmax."""
    if bench is None:
        raise AbsentError("no benchmark was given")
    entries = with_measure(bench, "decode.speed", "expected a benchmark of decoding")
    styles = _styles(bench)
    figure, (axes,) = _panels(1, 1, height=2.3)
    labels: list[str] = []
    for entry in entries:
        measure = entry.measures["decode.speed"]
        labels = max(labels, measure.labels.get("length", []), key=len)
        _curve(axes, measure.value, measure.spread, styles[entry.name], entry.name, first=0)
    axes.axhline(1, color=FAINT, linewidth=0.8, zorder=1)
    axes.set_ylim(0, 1.04 * axes.get_ylim()[1])
    places = range(len(labels) or max(len(entry.measures["decode.speed"].value) for entry in entries))
    turned = sum(map(len, labels)) > 40
    axes.set_xticks(places, labels or [str(place + 1) for place in places], rotation=45 if turned else 0)
    axes.set_xlabel("source length in pieces" if labels else "group of source length, from short to long")
    axes.set_ylabel("speed, softmax = 1")
    _legend(figure, [entry.name for entry in entries], styles)
    return figure


def draw_sparsity(results: Results) -> Figure:
    """Figure 3: the share of weights that are exactly zero."""
    for kind in KINDS:
        with_measure(results, f"{kind}.sparsity.layer", "`rela analyze` measures it")
    figure, panels = _panels(1, 3, height=2.15, share_y=True)
    entries, styles = entries_of(results), _styles(results)
    for axes, kind in zip(panels, KINDS, strict=True):
        for entry in entries:
            _layer_curve(axes, entry.measures.get(f"{kind}.sparsity.layer"), styles[entry.name], entry.name)
        _layers(axes, _TITLES[kind])
    _percent(panels, "weights exactly 0")
    _legend(figure, [entry.name for entry in entries], styles)
    return figure


def draw_aer(results: Results) -> Figure:
    """Figure 4: alignment error rate of the best head and of the layer attention, normal and shifted."""
    name = f"cross.aer.{{}}.{_RULE}"
    why = "alignment needs gold links"
    groups = with_heads(results, name.format(_SHIFTS[0]), why)
    figure, panels = _panels(2, 2, height=3.5, share_y=True)
    styles = _styles(results)
    for column, shift in enumerate(_SHIFTS):
        for entry in groups:
            best = over_models(results, entry, lambda model, shift=shift: _best_head(model, name.format(shift)))
            if best is not None:
                _curve(panels[column], *best, styles[entry.name], entry.name)
            layer = entry.measures.get(f"{name.format(shift)}.layer_attention")
            _layer_curve(panels[2 + column], layer, styles[entry.name], entry.name)
        _layers(panels[column], f"{shift}: best head", label=False)
        _layers(panels[2 + column], f"{shift}: layer attention")
    _percent(panels[::2], "AER", whole=False)
    _legend(figure, [entry.name for entry in groups], styles)
    return figure


def draw_diversity(results: Results) -> Figure:
    """Figure 5: how much heads differ, by layer and, as the mean over layers, by tau."""
    for kind in KINDS:
        with_measure(results, f"{kind}.diversity", "`rela analyze` measures it")
    entries, styles = entries_of(results), _styles(results)
    with_taus = any(has_numbers(e.measures.get(f"{kind}.diversity.tau.mean")) for e in entries for kind in KINDS)
    figure, panels = _panels(1 + with_taus, 3, height=3.9 if with_taus else 2.15, share_y=True)
    for place, kind in enumerate(KINDS):
        for entry in entries:
            _layer_curve(panels[place], entry.measures.get(f"{kind}.diversity"), styles[entry.name], entry.name)
            if with_taus:
                _tau_curve(panels[3 + place], entry, kind, styles[entry.name])
        _layers(panels[place], _TITLES[kind])
        if with_taus:
            panels[3 + place].set_xlabel("τ")
    for first in panels[::3]:  # when all is drawn: a limit that is set ends the scaling to what comes
        first.set_ylim(bottom=0)
    panels[0].set_ylabel("diversity in nats")
    if with_taus:
        panels[3].set_ylabel("mean of layers")
    _legend(figure, [entry.name for entry in entries], styles)
    return figure


def draw_null(results: Results) -> Figure:
    """Figure 6: how often heads attend to nothing; dashed on shuffled targets, a dot for each head of each model."""
    for kind in KINDS:
        with_measure(results, f"{kind}.null.layer", "`rela analyze` measures it")
    entries = [entry for entry in entries_of(results) if has_nulls(entry)]
    if not entries:
        raise AbsentError("no head of any model ever attends to nothing: all null rates are 0")
    never = [entry.name for entry in entries_of(results) if not has_nulls(entry)]
    figure, panels = _panels(1, 3, height=2.3, share_y=True)
    styles = {name: LineStyle(style.color, style.marker, "solid") for name, style in _styles(results).items()}
    for axes, kind in zip(panels, KINDS, strict=True):
        for place, entry in enumerate(entries):
            style, aside = styles[entry.name], 0.16 * (place - (len(entries) - 1) / 2)
            for measure in of_heads(results, entry, f"{kind}.null"):
                _head_dots(axes, measure, style, aside)
            _layer_curve(axes, entry.measures.get(f"{kind}.null.layer"), style, entry.name)
            if kind == "cross":
                shuffled = entry.measures.get("hallucinated.null.shuffled")
                dashed = LineStyle(style.color, style.marker, "dashed")
                _layer_curve(axes, shuffled, dashed, f"{entry.name}, shuffled targets", hollow=True)
        _layers(axes, _TITLES[kind])
    _percent(panels, "null rate")
    handles = [_handle(styles[entry.name], entry.name) for entry in entries]
    if any(has_numbers(entry.measures.get("hallucinated.null.shuffled")) for entry in entries):
        handles.append(Line2D([], [], color=FAINT, linestyle="dashed", label="targets shuffled"))
    handles.append(Line2D([], [], color=FAINT, marker=".", linestyle="", alpha=0.5, label="single heads"))
    if never:
        figure.supxlabel(f"always 0: {', '.join(never)}", fontsize=8, color=FAINT)
    _place_legend(figure, handles)
    return figure


def _best_head(model: Entry, name: str) -> Values | None:
    """The least error among the heads of each layer."""
    measure = model.measures.get(name)
    if measure is None or not has_numbers(measure):
        return None
    found = np.where(np.isfinite(measure.value), measure.value, np.inf).min(1)
    return np.where(np.isfinite(found), found, np.nan)


def _styles(results: Results) -> dict[str, LineStyle]:
    return line_styles([entry.name for entry in entries_of(results)])


def _panels(rows: int, columns: int, *, height: float, share_y: bool = False) -> tuple[Figure, list[Axes]]:
    layout = ConstrainedLayoutEngine(w_pad=0.03, h_pad=0.03, wspace=0.04, hspace=0.05)
    figure = Figure(figsize=(WIDTH, height), layout=layout)
    made = figure.subplots(rows, columns, squeeze=False, sharey="row" if share_y else False)
    return figure, list(made.flat)


def _curve(
    axes: Axes,
    values: Values,
    spread: Values | None,
    style: LineStyle,
    label: str,
    *,
    first: int = 1,
    at: Sequence[float] | Values | None = None,
    hollow: bool = False,
) -> None:
    places = np.arange(first, first + len(values)) if at is None else np.asarray(at)
    filled: dict[str, Any] = {"markerfacecolor": "white"} if hollow else {}
    axes.plot(places, values, color=style.color, marker=style.marker, linestyle=style.dashes, label=label, **filled)
    if spread is not None:
        axes.fill_between(places, values - spread, values + spread, color=style.color, alpha=0.15, linewidth=0)


def _layer_curve(axes: Axes, measure: Measure | None, style: LineStyle, label: str, *, hollow: bool = False) -> None:
    if measure is not None and has_numbers(measure):
        _curve(axes, measure.value, measure.spread, style, label, hollow=hollow)


def _tau_curve(axes: Axes, entry: Entry, kind: str, style: LineStyle) -> None:
    """Against tau; a level line for maps that give a distribution, and so have no tau."""
    measure = entry.measures.get(f"{kind}.diversity.tau.mean")
    if measure is not None and has_numbers(measure):
        taus = np.array([float(tau) for tau in measure.labels["tau"]])
        order = np.argsort(taus)
        spread = None if measure.spread is None else measure.spread[order]
        _curve(axes, measure.value[order], spread, style, entry.name, at=np.log(taus[order]))
        axes.set_xticks(np.log(taus[order]), [f"{tau:g}".removeprefix("0") for tau in taus[order]])
    elif has_numbers(mean := entry.measures.get(f"{kind}.diversity.mean")) and mean is not None:
        axes.axhline(float(mean.value), color=style.color, linestyle=style.dashes, label=entry.name)


def _head_dots(axes: Axes, measure: Measure, style: LineStyle, aside: float) -> None:
    layers, heads = measure.value.shape
    places = np.repeat(np.arange(1, layers + 1) + aside, heads)
    axes.scatter(places, measure.value.reshape(-1), s=9, color=style.color, alpha=0.35, linewidths=0, zorder=1.5)


def _layers(axes: Axes, title: str, *, label: bool = True) -> None:
    axes.set_title(title)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=7, integer=True, min_n_ticks=1))
    left, right = axes.dataLim.intervalx
    if np.isfinite([left, right]).all():
        axes.set_xlim(min(left, 1) - 0.3, right + 0.3)
    if label:
        axes.set_xlabel("layer")


def _percent(panels: Sequence[Axes], label: str, *, whole: bool = True) -> None:
    """A share between 0 and 1 as percent; ``whole`` shows all of that range."""
    for axes in panels:
        axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        if whole:
            axes.set_ylim(-0.03, 1.03)
            axes.set_yticks([0, 0.25, 0.5, 0.75, 1])
        elif axes.get_ylim()[0] < 0:  # a band may reach there
            axes.set_ylim(bottom=0)
    for axes in panels if not whole else panels[:1]:
        axes.set_ylabel(label)


def _handle(style: LineStyle, name: str) -> Line2D:
    return Line2D([], [], color=style.color, marker=style.marker, linestyle=style.dashes, label=name)


def _legend(figure: Figure, names: Sequence[str], styles: dict[str, LineStyle]) -> None:
    _place_legend(figure, [_handle(styles[name], name) for name in names])


def _place_legend(figure: Figure, handles: list[Line2D]) -> None:
    """Above all panels, as many names a row as fit."""
    sizes = [0.45 + 0.074 * len(str(handle.get_label())) for handle in handles]

    def inches(columns: int) -> float:
        rows = -(-len(sizes) // columns)  # a legend fills column after column
        return sum(max(sizes[start : start + rows]) + 0.12 for start in range(0, len(sizes), rows))

    columns = next((count for count in range(len(sizes), 1, -1) if inches(count) <= WIDTH), 1)
    figure.legend(handles=handles, loc="outside upper center", ncols=columns, handlelength=2.3, columnspacing=1.1)
