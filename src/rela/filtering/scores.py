"""The scores of a pair: their names, what they mean, and which end is the good one."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, NamedTuple


class Score(NamedTuple):
    """What a score is, for people; ``good`` is the end at which good pairs are (``middle``: far from both)."""

    meaning: str
    good: Literal["low", "high", "middle"]


SCORES: Final[dict[str, Score]] = {
    "null_rate": Score("share of rows of cross-attention that attend to nothing, over all layers and heads", "low"),
    "null_rate_matching": Score("the same, over the heads that answer to whether source and target match", "low"),
    "cross_entropy": Score("loss of a target piece under forced decoding, in nats, EOS among them", "low"),
    "surprise": Score("the largest such loss over 4 pieces side by side", "low"),
    "coverage": Score("largest weight that a source piece gets, last layer, mean over pieces and heads", "high"),
    "null_run": Score("target words side by side at which all matching heads attend to nothing, at most", "low"),
    "length_ratio": Score("characters of the target for each character of the source", "middle"),
    "quality": Score("probability of being a good pair, learned from the corpus and from spoiled pairs of it", "high"),
}
"""By name, in the order of the columns."""

COLUMNS: Final = tuple(SCORES)


@dataclass(frozen=True, kw_only=True)
class PairScore:
    """The scores of one pair.

    ``problem`` says why a pair could not be scored; its scores are then NaN and its quality is 0. ``suspicious`` are
    places of target words, from 0, if they were asked for.
    """

    null_rate: float
    null_rate_matching: float
    cross_entropy: float
    surprise: float
    coverage: float
    null_run: float
    length_ratio: float
    quality: float
    problem: str | None = None
    suspicious: tuple[int, ...] | None = None

    def to_json(self) -> dict[str, Any]:
        """For machines: numbers that are none are null."""
        return {name: None if value != value else value for name, value in asdict(self).items()}
