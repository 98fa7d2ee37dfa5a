"""Two numbers that describe weights: how many are exactly zero, and how many queries see nothing."""

from __future__ import annotations

import torch
from torch import Tensor


def sparsity_rate(weights: Tensor, allowed: Tensor | None = None) -> Tensor:
    """Share of weights that are exactly 0 among the valid (query, key) places: a scalar, 0 if there are none.

    ``allowed`` is True at valid places and broadcasts to the weights: padding (of keys and of queries) and the future
    never count.
    """
    valid = _valid(weights, allowed)
    return ((weights == 0) & valid).sum().double() / valid.sum().clamp_min(1)


def null_rate(weights: Tensor, allowed: Tensor | None = None) -> Tensor:
    """Share of queries whose weights are all 0, among those with a valid key: a scalar, 0 if there are none."""
    valid = _valid(weights, allowed).any(-1)
    return ((weights == 0).all(-1) & valid).sum().double() / valid.sum().clamp_min(1)


def _valid(weights: Tensor, allowed: Tensor | None) -> Tensor:
    allowed = torch.ones((), dtype=torch.bool, device=weights.device) if allowed is None else allowed
    return allowed.expand_as(weights)
