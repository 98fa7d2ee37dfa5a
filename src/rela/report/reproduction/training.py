"""Not in the paper: loss and norm of the gradient along trainings, with and without a norm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D

from rela.report.choice import AbsentError
from rela.report.figures.style import WIDE, line_styles

STEM: Final = "figure-training"
TITLE: Final = "Along the training: what the norm is for (not in the paper)"
_AT_ONCE: Final = 2


def draw_training(curves: Mapping[str, Sequence[Mapping[str, Any]]]) -> Figure:
    """By system, of each training a curve of ``step``, ``nll`` and ``gradient_norm``; one that diverged ends early."""
    drawn = {name: found for name, found in curves.items() if any(curve["step"] for curve in found)}
    if len(drawn) < _AT_ONCE:
        raise AbsentError("there are no trainings to compare")
    figure = Figure(figsize=(WIDE, 2.6), layout=ConstrainedLayoutEngine(w_pad=0.03, h_pad=0.03, wspace=0.06))
    left, right = figure.subplots(1, 2)
    styles = line_styles(list(drawn))
    for name, found in drawn.items():
        style = styles[name]
        for curve in found:
            for axes, key in ((left, "nll"), (right, "gradient_norm")):
                values = np.array([np.nan if value is None else value for value in curve[key]], np.float64)
                axes.plot(curve["step"], values, color=style.color, linestyle=style.dashes, linewidth=1, alpha=0.8)
    left.set_ylabel("loss in nats a token")
    right.set_ylabel("norm of the gradient")
    right.set_yscale("log")
    for axes in (left, right):
        axes.set_xlabel("update")
    handles = [Line2D([], [], color=style.color, linestyle=style.dashes, label=name) for name, style in styles.items()]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), handlelength=2.3, columnspacing=1.1)
    return figure
