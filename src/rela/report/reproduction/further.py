"""Figures that the paper does not have: what the norm does along a training, and all of table 1 as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from rela.report.choice import AbsentError
from rela.report.figures.style import ACCENT, BLUE, FAINT, WIDE, line_styles
from rela.report.tables import paper

TRAINING: Final = "training"
DIFFERENCES: Final = "differences"
TITLES: Final = {
    TRAINING: "What the norm is for: loss and gradient along the training (not in the paper)",
    DIFFERENCES: "Table 1 as a picture: BLEU over softmax (not in the paper)",
}
_AT_ONCE: Final = 2
_BASELINE: Final = "softmax"


def draw_training(curves: Mapping[str, Sequence[Mapping[str, Any]]]) -> Figure:
    """By system, the facts of its trainings: validations, and a curve of norms. One that diverged ends early."""
    drawn = {name: found for name, found in curves.items() if any(one["curve"]["step"] for one in found)}
    if len(drawn) < _AT_ONCE:
        raise AbsentError("there are no trainings to compare")
    figure = Figure(figsize=(WIDE, 2.6), layout=ConstrainedLayoutEngine(w_pad=0.03, h_pad=0.03, wspace=0.06))
    left, right = figure.subplots(1, 2)
    styles = line_styles(list(drawn))
    for name, found in drawn.items():
        style = styles[name]
        for one in found:
            for axes, what, key in ((left, "validations", "loss"), (right, "curve", "gradient_norm")):
                values = np.array([np.nan if value is None else value for value in one[what][key]], np.float64)
                axes.plot(one[what]["step"], values, color=style.color, linestyle=style.dashes, linewidth=1, alpha=0.8)
    left.set_ylabel("validation loss, nats a token")
    right.set_ylabel("norm of the gradient")
    right.set_yscale("log")
    right.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    right.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    right.yaxis.set_minor_formatter(NullFormatter())
    for axes in (left, right):
        axes.set_xlabel("update")
    handles = [Line2D([], [], color=style.color, linestyle=style.dashes, label=name) for name, style in styles.items()]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), handlelength=2.3, columnspacing=1.1)
    return figure


def draw_differences(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Of each row of table 1 its BLEU over softmax with the 95% interval, and the paper's beside it."""
    shown = [row for row in rows if row["difference"] is not None]
    if not shown:
        raise AbsentError("there are no translations to compare with softmax's")
    height = 0.75 + 0.21 * len(shown)
    figure = Figure(figsize=(WIDE, height), layout=ConstrainedLayoutEngine(w_pad=0.03, h_pad=0.03))
    axes = figure.subplots()
    names: list[str] = []
    for place, row in enumerate(shown):
        found = row["difference"]
        seeds = len(row["bleu"]["values"])
        names.append(f"{row['system']} ({seeds} seed{'s' if seeds > 1 else ''})")
        axes.plot([found["low"], found["high"]], [place, place], color=BLUE, linewidth=2, solid_capstyle="butt")
        axes.plot([found["delta"]], [place], color=BLUE, marker="o", linestyle="")
        published, base = paper.ABLATION.get(row["system"]), paper.ABLATION[_BASELINE]
        if published is not None and base is not None:
            axes.plot(
                [published[0] - base[0]], [place], color=ACCENT, marker="D", linestyle="", markerfacecolor="white"
            )
    axes.axvline(0, color=FAINT, linewidth=0.8, zorder=1)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("BLEU over softmax")
    handles = [
        Line2D([], [], color=BLUE, marker="o", linewidth=2, label="here, with its 95% interval"),
        Line2D([], [], color=ACCENT, marker="D", markerfacecolor="white", linestyle="", label="paper, WMT14 en-de"),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=2, handlelength=2.3)
    return figure
