"""Learning rates as functions of the step and of the share of the budget that is spent."""

from __future__ import annotations

from typing import Literal

import msgspec

Schedule = Literal["noam", "linear"]


class RateConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the learning rate goes: up linearly for ``warmup`` updates, then down.

    ``noam`` goes down with the square root of the step, from ``peak``. ``linear`` goes down to 0 at the end of the
    budget, on the line that was at ``peak`` at its beginning. The peak, if none is given, is the original's
    ``(dim * warmup) ** -0.5``.
    """

    schedule: Schedule = "noam"
    warmup: int = 4000
    peak: float | None = None

    def __post_init__(self) -> None:
        if self.warmup < 1:
            raise ValueError(f"warmup: expected at least 1 update, got {self.warmup}")
        if self.peak is not None and not 0 < self.peak < 1:
            raise ValueError(f"peak: expected a learning rate above 0 and below 1, got {self.peak}")

    def peak_for(self, dim: int) -> float:
        """The highest rate."""
        return (dim * self.warmup) ** -0.5 if self.peak is None else self.peak


def learning_rate(config: RateConfig, dim: int, step: int, spent: float) -> float:
    """The rate of update ``step`` (from 1), with the share ``spent`` (0 to 1) of the budget used before it."""
    peak = config.peak_for(dim)
    rise = step / config.warmup
    if config.schedule == "noam":
        return peak * min(rise, (config.warmup / step) ** 0.5)
    return peak * min(rise, max(0.0, 1.0 - spent))
