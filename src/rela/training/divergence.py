"""When a training counts as failed: as the paper's ReLU without a norm, whose loss did not decrease."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from rela.text.store import Sentences
from rela.text.vocabulary import EOS
from rela.training.config import DivergenceSection

_SAMPLE: Final = 10_000_000  # pieces; more would not change the frequencies by much


class DivergedError(ValueError):
    """The training diverged."""


def guessing_loss(sentences: Sentences, vocabulary_size: int, smoothing: float) -> float:
    """The lowest label-smoothed loss of a model that knows of the target only how frequent its pieces are."""
    pieces = sentences.tokens[:_SAMPLE]
    if not len(pieces):
        return math.inf
    counts = np.bincount(pieces, minlength=vocabulary_size).astype(np.float64)
    counts[EOS] += len(sentences) * len(pieces) / max(1, len(sentences.tokens))
    wanted = (1.0 - smoothing) * counts / counts.sum() + smoothing / vocabulary_size
    wanted = wanted[wanted > 0]
    return float(-(wanted * np.log(wanted)).sum())


@dataclass
class DivergenceWatch:
    """Looks at the loss of every update. Its state is saved with checkpoints, so a resumed run judges the same.

    ``guessing`` is the loss that shows that nothing but frequencies was learned.
    """

    config: DivergenceSection
    guessing: float = math.inf
    recent: list[float] = field(default_factory=list[float])
    first_mean: float | None = None
    lowest_mean: float = math.inf
    skipped: int = 0
    num_updates: int = 0

    def look(self, loss: float, gradient_norm: float) -> str | None:
        """Why the training has failed, or None. A loss or gradient that is no number must not be applied."""
        if not (math.isfinite(loss) and math.isfinite(gradient_norm)):
            self.skipped += 1
            if self.skipped >= self.config.max_skipped:
                what = "loss" if not math.isfinite(loss) else "gradient"
                return f"the {what} was not a finite number {self.skipped} times in a row"
            return None
        self.skipped = 0
        self.num_updates += 1
        self.recent = [*self.recent[-(self.config.window - 1) :], loss] if self.config.window > 1 else [loss]
        if len(self.recent) < self.config.window:
            return None
        mean = math.fsum(self.recent) / len(self.recent)
        self.first_mean = mean if self.first_mean is None else self.first_mean
        self.lowest_mean = min(self.lowest_mean, mean)
        if mean > self.lowest_mean + self.config.max_rise:
            return f"the loss rose from {self.lowest_mean:.2f} to {mean:.2f} (means of {self.config.window} updates)"
        if self.num_updates >= self.config.patience and self.lowest_mean > self.first_mean - self.config.min_drop:
            return (
                f"the loss did not decrease: {self.first_mean:.2f} at first, {self.lowest_mean:.2f} at best after "
                f"{self.num_updates:,} updates"
            )
        if self.num_updates >= self.config.stuck_after and self.lowest_mean > self.guessing - self.config.min_drop:
            return (
                f"the loss stays at {self.lowest_mean:.2f} after {self.num_updates:,} updates; to guess pieces by how "
                f"frequent they are gives {self.guessing:.2f}"
            )
        return None

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {
            "recent": self.recent,
            "first_mean": self.first_mean,
            "lowest_mean": None if math.isinf(self.lowest_mean) else self.lowest_mean,
            "skipped": self.skipped,
            "num_updates": self.num_updates,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what a checkpoint kept."""
        self.recent, self.first_mean = list(state["recent"]), state["first_mean"]
        self.lowest_mean = math.inf if state["lowest_mean"] is None else state["lowest_mean"]
        self.skipped, self.num_updates = state["skipped"], state["num_updates"]
