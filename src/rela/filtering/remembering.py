"""What a good pair is, learned when a model is finished and kept beside it: then any pair can be scored at once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rela.filtering.scorer import Scorer, TooFewPairsError

PAIRS: Final = 500
"""Enough to learn from, few enough to take seconds."""


def remember_quality(folder: Path, pairs: Sequence[tuple[str, str]]) -> Path | None:
    """Calibrate a model on the first of its validation pairs, in its folder; None if there are too few of them."""
    usable = [pair for pair in pairs if all(side.strip() for side in pair)][:PAIRS]
    try:
        return Scorer.load(folder).calibrated(usable).remember(folder)
    except TooFewPairsError:
        return None
