"""How models are told apart, on the page as in the figures: by colour, by marker and by dashes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Look:
    """What a model looks like everywhere.

    Attributes:
        color: in the figures.
        light: on the light page: the same, or darker where thin lines would be too pale.
        dark: on the dark page.
        marker: a letter, as matplotlib names markers.
        dashes: lengths of dashes and gaps, in widths of the line; none for a solid line.
    """

    color: str
    light: str
    dark: str
    marker: str
    dashes: tuple[float, ...]


# The palette of Okabe and Ito, told apart by colour-blind readers too; yellow is too pale for a line on white.
_COLORS: Final = (
    ("#000000", "#000000", "#e6e9ed"),
    ("#E69F00", "#c48200", "#e69f00"),
    ("#009E73", "#009e73", "#2fc295"),
    ("#0072B2", "#0072b2", "#4aa0e6"),
    ("#CC79A7", "#c2689b", "#d98fb9"),
    ("#56B4E9", "#3d98ca", "#a6dcff"),
    ("#D55E00", "#d55e00", "#ff7f2e"),
    ("#8C6D1F", "#8c6d1f", "#c2a04a"),
)
MARKERS: Final = ("s", "^", "v", "o", "D", "P", "X", "*", "<", ">", "p", "h")
_DASHES: Final[tuple[tuple[float, ...], ...]] = ((1, 1), (4, 1.5), (5, 1.2, 1, 1.2), ())
_OWN_PLACE: Final = {"softmax": 0, "sparsemax": 1, "entmax15": 2, "rela-g": 3, "rela-i": 4}


def looks_of(names: Sequence[str]) -> dict[str, Look]:
    """A look for each model; those that the paper compares always have the same one."""
    taken = {_OWN_PLACE[name] for name in names if name in _OWN_PLACE}
    free = (place for place in range(len(_OWN_PLACE) + len(names)) if place not in taken)
    places = [_OWN_PLACE[name] if name in _OWN_PLACE else next(free) for name in names]
    return {
        name: Look(*_COLORS[place % len(_COLORS)], MARKERS[place % len(MARKERS)], _DASHES[place % len(_DASHES)])
        for name, place in zip(names, places, strict=True)
    }
