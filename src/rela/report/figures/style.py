"""How all figures look: sizes, fonts, colours; and how they get onto disk."""

from __future__ import annotations

import contextlib
import io
import re
import unicodedata
import warnings
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import matplotlib
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rela._files import write_bytes
from rela.report.palette import looks_of

WIDTH: Final = 4.6
"""Inches of a figure for one column: letters of 9 points are still over 6 when it is printed 8 cm wide."""
WIDE: Final = 6.9
"""Inches of a figure across both columns."""

INK: Final = "#1f2937"
FAINT: Final = "#6b7280"
LINES: Final = "#d1d5db"
ACCENT: Final = "#D55E00"
BLUE: Final = "#0072B2"

_FONTS: Final = ("DejaVu Sans", "Noto Sans CJK SC", "Noto Sans CJK JP", "WenQuanYi Zen Hei", "Noto Sans", "Unifont")
"""The first comes with matplotlib; the others, where they are installed, have letters that it lacks."""

_RC: Final[dict[Any, Any]] = {
    "figure.dpi": 100,
    "savefig.dpi": 300,
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e5e7eb",
    "grid.linewidth": 0.6,
    "axes.linewidth": 0.7,
    "lines.linewidth": 1.5,
    "lines.markersize": 4.5,
    "text.parse_math": False,  # a $ in a sentence is a $
    "axes.unicode_minus": True,
    "svg.fonttype": "path",
    "svg.hashsalt": "rela",  # ids of elements; else they differ from run to run
    "path.simplify": False,
    "axes.formatter.use_mathtext": False,
}


@dataclass(frozen=True)
class LineStyle:
    """How a model is drawn in all figures: told apart by colour, by marker and by dashes."""

    color: str
    marker: str
    dashes: Any  # a name of matplotlib's, or (offset, lengths)


def line_styles(names: Sequence[str]) -> dict[str, LineStyle]:
    """A style for each model: that of the page."""
    return {
        name: LineStyle(look.color, look.marker, (0, look.dashes) if look.dashes else "solid")
        for name, look in looks_of(names).items()
    }


@contextlib.contextmanager
def drawing() -> Generator[list[str]]:
    """matplotlib with our settings and nobody else's, restored afterwards; gathers the signs that no font has."""
    installed = {font.name for font in font_manager.fontManager.ttflist}
    missing: list[str] = []
    with matplotlib.rc_context(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        matplotlib.rcdefaults()
        fonts: dict[Any, Any] = {"font.family": [name for name in _FONTS if name in installed]}
        matplotlib.rcParams.update(_RC | fonts)
        yield missing
        others: list[warnings.WarningMessage] = []
        for warning in caught:
            found = re.search(r"Glyph (\d+) .*missing from font", str(warning.message))
            if found is None:
                others.append(warning)
            elif (sign := chr(int(found[1]))) not in missing:
                missing.append(sign)
    for warning in others:
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure as SVG and as PNG: the same bytes for the same numbers."""
    metadata: dict[str, dict[str, Any]] = {"svg": {"Date": None, "Creator": None}, "png": {"Software": None}}
    written: list[Path] = []
    for form in ("svg", "png"):
        buffer = io.BytesIO()
        figure.savefig(buffer, format=form, metadata=metadata[form])
        path = folder / f"{name}.{form}"
        write_bytes(path, buffer.getvalue())
        written.append(path)
    return written


def text_inches(text: str, size: float) -> float:
    """About how wide a text of so many points is; rather more than less."""
    ems = sum(1.02 if unicodedata.east_asian_width(sign) in "WF" else 0.74 if sign.isupper() else 0.62 for sign in text)
    return ems * size / 72


def frameless(axes: Axes) -> None:
    """No frame, no ticks, no grid."""
    axes.set_xticks([])
    axes.set_yticks([])
    axes.grid(False)
    for spine in axes.spines.values():
        spine.set_visible(False)
