"""What `rela bench noise` found, as tables in Markdown and as curves over training time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final

import numpy as np

Found = Mapping[str, Any]

_OF_NULL: Final = ("quality", "null_rate", "null_rate_matching", "coverage", "cross_entropy", "attention_penalty")
_OF_OTHERS: Final = ("quality", "cross_entropy", "attention_penalty")
_LAST: Final = "length_ratio"
_SMALLEST: Final = 0.35
"""Where the axis of areas begins, or lower: below a half, noise has the better score."""
_MANY: Final = 10
"""So many runs stand four in a row."""


def noise_table(found: Found, which: str = "auc") -> str:
    """Markdown: a row for each kind of noise, a column for each score of each model; the best of a row is bold.

    ``which`` is ``auc`` or ``precision``. The length ratio needs no model, so it stands there once.
    """
    models: Sequence[Found] = found["models"]
    columns = [(model, score) for model in models for score in _scores_of(model)] + [(models[0], _LAST)]
    names = [f"`{model['attention']}` {score}" for model, score in columns[:-1]] + [_LAST]
    lines = [f"| noise | {' | '.join(name.replace('_', ' ') for name in names)} |", f"|---|{'--:|' * len(columns)}"]
    for noise in models[0]["noises"]:
        values = [float(model["noises"][noise][which][score]) for model, score in columns]
        best = max(round(value, 3) for value in values)
        cells = [f"**{value:.3f}**" if round(value, 3) == best else f"{value:.3f}" for value in values]
        lines.append(f"| {noise.replace('-', ' ')} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", *(f"`{model['signature']}`  " for model in models)])


def _scores_of(model: Found) -> tuple[str, ...]:
    """Those that can differ: what never attends to nothing has no null rate."""
    null = any(noise["auc"]["null_rate"] != 0.5 for noise in model["noises"].values())
    return _OF_NULL if null else _OF_OTHERS


def ends_table(found: Found) -> str:
    """Markdown: where the curves of each run end. The strongest head is that furthest from chance, on either side."""
    lines = [
        "| run | null rate | strongest layer | strongest head | coverage | cross-entropy | "
        "null rows, good pairs | null rows, noise |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for run in found["runs"]:
        end = run["moments"][-1]
        areas = (
            end["null_rate"],
            _strongest(end["layers"]),
            _strongest([area for layer in end["heads"] for area in layer]),
            end["coverage"],
            end["cross_entropy"],
        )
        rates = f"{end['clean']:.0%} | {end['noisy']:.0%}"
        lines.append(f"| {name_of(run)} | {' | '.join(f'{area:.3f}' for area in areas)} | {rates} |")
    signatures = dict.fromkeys(run["signature"] for run in found["runs"])
    return "\n".join([*lines, "", *(f"`{signature}`  " for signature in signatures)])


def _strongest(areas: Sequence[float]) -> float:
    return max(areas, key=lambda area: abs(area - 0.5))


def name_of(run: Found) -> str:
    """The last part of a run's folder."""
    return PurePath(run["run"]).name


def draw_over_time(found: Found) -> Any:
    """A panel for each run: the area under the curve of each head's null rate over updates, a colour for each layer;
    the null rate of all heads together, coverage and cross-entropy, as thick lines."""
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from rela.report.figures.style import ACCENT, BLUE, FAINT, INK, WIDE

    runs: Sequence[Found] = found["runs"]
    columns = min(3 if len(runs) < _MANY else 4, len(runs))
    rows = -(-len(runs) // columns)
    figure = Figure(figsize=(WIDE, 1.75 * rows + 0.6), layout="constrained")
    panels = figure.subplots(rows, columns, sharex=False, sharey=True, squeeze=False).reshape(-1)
    most_layers = max(len(run["moments"][0]["layers"]) for run in runs)
    colors = matplotlib.colormaps["viridis"](np.linspace(0.0, 0.85, most_layers))
    lowest = min(area for run in runs for moment in run["moments"] for layer in moment["heads"] for area in layer)
    for axes, run in zip(panels, runs, strict=False):
        moments: Sequence[Found] = run["moments"]
        steps = [moment["step"] for moment in moments]
        heads = np.array([moment["heads"] for moment in moments])  # [moments, L, H]
        for layer in range(heads.shape[1]):
            axes.plot(steps, heads[:, layer], color=colors[layer], linewidth=0.8, alpha=0.8)
        axes.plot(steps, [moment["cross_entropy"] for moment in moments], color=FAINT, linewidth=1.8, linestyle="--")
        axes.plot(steps, [moment["coverage"] for moment in moments], color=BLUE, linewidth=1.8, linestyle=":")
        axes.plot(steps, [moment["null_rate"] for moment in moments], color=ACCENT, linewidth=2.4)
        axes.axhline(0.5, color=INK, linewidth=0.6)
        axes.set_title(name_of(run))
        axes.set_ylim(min(_SMALLEST, lowest - 0.02), 1.01)
        axes.set_xlim(0, None)
    for axes in panels[len(runs) :]:
        axes.set_visible(False)
    for axes in panels[::columns]:
        axes.set_ylabel("AUC")
    for axes in panels[max(0, len(runs) - columns) : len(runs)]:
        axes.set_xlabel("updates")
    handles = [
        Line2D([], [], color=ACCENT, linewidth=2.4, label="null rate, all heads"),
        Line2D([], [], color=FAINT, linewidth=1.8, linestyle="--", label="cross-entropy"),
        Line2D([], [], color=BLUE, linewidth=1.8, linestyle=":", label="coverage"),
        *(Line2D([], [], color=colors[layer], label=f"heads of layer {layer + 1}") for layer in range(most_layers)),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=4, handlelength=2.0, columnspacing=1.2)
    return figure
