"""Warnings that point at the user's line, not at ours."""

from __future__ import annotations

import inspect
import warnings
from typing import Final

_INSIDE: Final = ("rela", "torch")


def warn(message: str) -> None:
    """A UserWarning located at the nearest caller outside rela and torch."""
    frame, level = inspect.currentframe(), 1
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in _INSIDE:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)
