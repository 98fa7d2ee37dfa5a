"""Two numbers that describe weights: how many are exactly zero, and how many queries see nothing."""

from __future__ import annotations

from torch import Tensor


def sparsity_rate(weights: Tensor, allowed: Tensor | None = None) -> Tensor:
    """Share of weights that are exactly 0 among the valid (query, key) places: a scalar.

    ``allowed`` is True at valid places and broadcasts to the weights; padding and the future never count.
    """
    zero = weights == 0
    if allowed is None:
        return zero.double().mean()
    valid = allowed.expand_as(weights)
    return (zero & valid).sum().double() / valid.sum().clamp_min(1)


def null_rate(weights: Tensor, allowed: Tensor | None = None) -> Tensor:
    """Share of queries whose weights are all 0, among the queries with at least one valid key: a scalar."""
    null = (weights == 0).all(-1)
    if allowed is None:
        return null.double().mean()
    valid = allowed.expand_as(weights).any(-1)
    return (null & valid).sum().double() / valid.sum().clamp_min(1)
