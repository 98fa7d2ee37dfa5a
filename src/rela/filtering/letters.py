"""How strange a text looks among the texts of its side: a language that few of them are in looks strange.

A model that was trained on a crawl has learned the third language that some of its targets are in, and even translates
into it. What gives such a pair away is its letters: three neighbouring bytes at a time, as the corpus has them. Most
of them are rare in another language's text; a name in a sentence has some that are very rare. So beyond what a quarter
of the corpus's own letters cost, rarer is not stranger. Numbers and signs are of no language, and do not count; and of
few letters little can be said, so that a short text is not strange by chance.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_BUCKETS: Final = 1 << 14
_STEPS: Final = np.array([1, 257, 66_049], np.int64)  # of three bytes a number, before it is brought into a bucket
_PRIME: Final = 1_000_003
_RARE: Final = 0.75
"""Of the corpus's letters, the share that cost less than the most that letters can cost."""
_USUAL: Final = 15
"""A text counts as if it had so many letters more, of the usual cost."""


@dataclass(frozen=True)
class Letters:
    """For each bucket of three bytes, the negative logarithm of its probability, or that of a rare one if that is less;
    in half precision, as in files. ``usual`` is the mean over the corpus."""

    costs: NDArray[np.float16]
    usual: float

    @classmethod
    def learn(cls, texts: Sequence[str]) -> Letters:
        """Count those of some texts; one more of each, for those that are missing."""
        buckets, _ = _buckets(texts)
        counts = np.bincount(buckets, minlength=_BUCKETS) + 1.0
        costs = np.log(counts.sum()) - np.log(counts)
        most = np.quantile(costs[buckets], _RARE) if len(buckets) else np.inf
        kept = np.minimum(costs, most).astype(np.float16)
        return cls(kept, float(kept[buckets].mean(dtype=np.float64)) if len(buckets) else 0.0)

    def strangeness(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Of each text, how much more than usual its letters cost: the mean over these and some of the usual cost."""
        buckets, ends = _buckets(texts)
        sums = np.concatenate([[0.0], np.cumsum(self.costs[buckets].astype(np.float64) - self.usual)])
        return (sums[ends[1:]] - sums[ends[:-1]]) / (np.diff(ends) + _USUAL)

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {"usual": self.usual, "costs": base64.b64encode(self.costs.tobytes()).decode()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Letters:
        """From plain data."""
        costs = np.frombuffer(base64.b64decode(data["costs"]), np.float16)
        if len(costs) != _BUCKETS:
            raise ValueError(f"expected {_BUCKETS} numbers, got {len(costs)}")
        return cls(costs, float(data["usual"]))


def _buckets(texts: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The buckets of all texts one after the other, a blank before and behind each, and where each text ends.

    Of three bytes, two at least belong to letters: a to z, or what is not ASCII.
    """
    parts = [f" {text.lower()} ".encode() for text in texts]
    lengths = np.array([len(part) for part in parts], np.int64)
    data = np.frombuffer(b"".join([*parts, b"\0\0"]), np.uint8).astype(np.int64)
    numbers = data[:-2] * _STEPS[0] + data[1:-1] * _STEPS[1] + data[2:] * _STEPS[2]
    starts = np.concatenate([[0], np.cumsum(lengths)])
    letters = ((data >= ord("a")) & (data <= ord("z"))) | (data > 127)
    inside = letters[:-2].astype(np.int8) + letters[1:-1] + letters[2:] >= 2
    for back in (1, 2):  # not where the three bytes reach into the next text
        inside[starts[1:] - back] = False
    return (numbers * _PRIME % _BUCKETS)[inside], np.concatenate([[0], np.cumsum(inside)])[starts]
