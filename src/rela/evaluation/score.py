"""A score, how sure it is, and the recipe that made it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A 95% confidence interval from bootstrap resampling: `mean` ± `half_width`, as sacrebleu prints it."""

    mean: float
    half_width: float
    num_samples: int

    def __str__(self) -> str:
        return f"{self.mean:.2f} ± {self.half_width:.2f}"


@dataclass(frozen=True, kw_only=True)
class Score:
    """What a metric says of a system's translations, between 0 and 100.

    The signature is the whole recipe: the same text under the same signature has the same score.
    """

    name: str
    score: float
    interval: Interval | None
    signature: str

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON has them."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class BleuScore(Score):
    """A BLEU score and its parts: n-gram precisions in percent, brevity penalty, lengths in tokens."""

    precisions: tuple[float, ...]
    brevity_penalty: float
    hypothesis_length: int
    reference_length: int

    @property
    def ratio(self) -> float:
        """Length of the hypotheses in lengths of the references; 0 if the references are empty."""
        return self.hypothesis_length / self.reference_length if self.reference_length else 0.0
