"""Figures of benchmarks, in the style of all others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from rela.report.benchmarks.read import Benchmark, Number
from rela.report.benchmarks.tables import MODES
from rela.report.figures.style import BLUE, FAINT, WIDE, LineStyle, line_styles

_CORE: Final = "relu_attention"
_TITLES: Final = {"forward": "forward", "forward+backward": "forward + backward"}
_METHOD_LOOKS: Final = {"sdpa": "softmax", "entmax15": "entmax15", "native": "rela-g", "blocked": "rela-i"}
"""Those that stand for an attention look as it does elsewhere."""


def draw_core(bench: Benchmark) -> Figure:
    """Speed over torch's kernel by length; a dashed line is what was asked for."""
    figure, panels = _panels(1, 2, height=2.7)
    looks = {"0.5": line_styles(["rela-g"])["rela-g"], "0.15": line_styles(["entmax15"])["entmax15"]}
    for axes, mode in zip(panels, MODES, strict=True):
        numbers = bench.numbers(_CORE, f"core.{mode}")
        for density, look in looks.items():
            found = _plain(numbers, density)
            places = [place for place, _ in found]
            values = [number.value for _, number in found]
            axes.plot(places, values, color=look.color, marker=look.marker, label=f"density {density}")
            lows = [number.low if number.low is not None else number.value for _, number in found]
            highs = [number.high if number.high is not None else number.value for _, number in found]
            axes.fill_between(places, lows, highs, color=look.color, alpha=0.15, linewidth=0)
            wanted = [(place, number.target) for place, number in found if number.target is not None]
            targets = [target for _, target in wanted]
            axes.plot([place for place, _ in wanted], targets, color=look.color, linestyle="dashed", linewidth=0.9)
        axes.axhline(1, color=FAINT, linewidth=0.8, zorder=1)
        axes.set_title(_TITLES[mode])
        axes.set_ylim(bottom=0)
        _log_lengths(axes, [place for place, _ in _plain(numbers, "0.5")])
        axes.set_xlabel("length T")
    panels[0].set_ylabel("speed, SDPA = 1")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure


def _plain(numbers: Sequence[Number], density: str) -> list[tuple[int, Number]]:
    """Length and number of the cases of eight heads without a mask."""
    found = [n for n in numbers if n.label.startswith("plain") and n.label.endswith(f" BH=8 density={density}")]
    return [(int(number.label.partition("T=")[2].partition(" ")[0]), number) for number in found]


def draw_scaling(bench: Benchmark) -> Figure:
    """Time and memory by length, both axes logarithmic."""
    figure, panels = _panels(2, 2, height=4.8)
    looks = _method_styles(list(bench.entries))
    rows = (("seconds", "time in ms", 1000.0), ("bytes", "peak memory in MiB", 2.0**-20))
    for row, (what, label, factor) in enumerate(rows):
        for column, mode in enumerate(MODES):
            axes = panels[2 * row + column]
            lengths: set[int] = set()
            for name, look in looks.items():
                # Less than a page cannot be seen.
                found = [n for n in bench.numbers(name, f"scaling.{mode}.{what}") if n.value > 0]
                places = [int(number.label) for number in found]
                values = [number.value * factor for number in found]
                axes.plot(places, values, color=look.color, marker=look.marker, linestyle=look.dashes, label=name)
                lengths |= set(places)
            axes.set_yscale("log")
            axes.yaxis.set_minor_locator(NullLocator())
            axes.yaxis.set_major_formatter(FuncFormatter(_plain_number))
            _log_lengths(axes, sorted(lengths)[::2])
            if row == 0:
                axes.set_title(_TITLES[mode])
            else:
                axes.set_xlabel("length T")
        panels[2 * row].set_ylabel(label)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))
    return figure


def _method_styles(names: list[str]) -> dict[str, LineStyle]:
    looks = line_styles([_METHOD_LOOKS.get(name, name) for name in names])
    return {name: looks[_METHOD_LOOKS.get(name, name)] for name in names}


def draw_steps(bench: Benchmark) -> Figure:
    """Milliseconds of a decoding step, one panel for each size of batch."""
    names = list(bench.entries)
    batches = [number.label for number in bench.numbers(names[0], "decode.step_ms")]
    figure, panels = _panels(1, len(batches), height=0.9 + 0.26 * len(names))
    for axes, batch in zip(panels, batches, strict=True):
        for place, name in enumerate(names):
            number = bench.number(name, "decode.step_ms", batch)
            if number is None:
                continue
            is_ours = bench.entries[name].get("ours", False)
            axes.barh(place, number.value, color=BLUE if is_ours else FAINT, height=0.7)
            axes.text(number.value, place, f" {number.value:.1f}", va="center", fontsize=8)
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        axes.set_title(f"batch {batch}")
        axes.set_xlabel("ms a step")
        axes.margins(x=0.15)
        axes.grid(False, axis="y")
    for axes in panels[1:]:
        axes.set_yticklabels([])
    return figure


def _panels(rows: int, columns: int, *, height: float) -> tuple[Figure, list[Axes]]:
    layout = ConstrainedLayoutEngine(w_pad=0.03, h_pad=0.03, wspace=0.04, hspace=0.05)
    figure = Figure(figsize=(WIDE, height), layout=layout)
    return figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def _log_lengths(axes: Axes, lengths: Sequence[int]) -> None:
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(list(lengths)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(_length_name))
    axes.tick_params(axis="x", labelsize=8)


def _plain_number(value: float, _: object = None) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def _length_name(value: float, _: object = None) -> str:
    length = int(value)
    return f"{length // 1024}k" if length >= 1024 and length % 1024 == 0 else str(length)
