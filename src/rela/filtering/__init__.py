"""Scoring and cleaning parallel corpora of any size."""

from typing import TYPE_CHECKING

from rela._lazy import attach

if TYPE_CHECKING:
    from rela.filtering.scorer import Scorer
    from rela.filtering.scores import PairScore
else:
    __getattr__, __dir__ = attach(__name__, {"PairScore": "rela.filtering.scores", "Scorer": "rela.filtering.scorer"})

__all__ = ["PairScore", "Scorer"]
