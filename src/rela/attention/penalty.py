"""Steering a model to a wanted sparsity rate."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor, nn

from rela.attention.heads import Heads, Observation
from rela.attention.spec import RECTIFIED_MAPS

_TEMPERATURE: Final = 0.5


class SparsityPenalty:
    """A loss term ``(sparsity rate - target)^2`` over all ReLU attention in a model.

    The rate counts exact zeros over valid places, pooled over layers, heads and queries, so heads stay free to differ.
    A count has no gradient; each place's is that of ``sigmoid((threshold - score) / temperature)`` instead, a soft
    "is zero" (straight-through: the loss you see is of the exact rate). It reaches queries, keys and the threshold.

    >>> penalty = rela.SparsityPenalty(model, target=0.8)
    >>> loss = criterion(model(x), y) + penalty()   # reads, and forgets, the forward passes since the last call

    Only passes in training mode and with gradients count. :meth:`close` stops watching; while watched, weights are
    computed in full.
    """

    def __init__(self, model: nn.Module, target: float, *, temperature: float = _TEMPERATURE) -> None:
        if not 0.0 <= target <= 1.0:
            raise ValueError(f"target: expected a sparsity rate between 0 and 1, got {target}")
        if not temperature > 0:
            raise ValueError(f"temperature: expected a positive number, got {temperature}")
        found = [m for m in model.modules() if isinstance(m, Heads)]
        watched = [m for m in found if m.attention.map in RECTIFIED_MAPS]
        if not watched:
            maps = sorted({m.attention.map for m in found}) or "none"
            raise ValueError(
                f"model: expected at least one rela.MultiheadAttention with a map of {sorted(RECTIFIED_MAPS)}, whose "
                f"zeros can be steered; found maps: {maps}"
            )
        self.target = target
        self.temperature = temperature
        self._handles = [module.register_observer(self._observe) for module in watched]
        self._zeros: list[Tensor] = []
        self._places: list[Tensor] = []

    def __call__(self) -> Tensor:
        """The loss of the forward passes since the last call."""
        rate = self.rate()
        self._zeros, self._places = [], []
        return (rate - self.target).square()

    def rate(self) -> Tensor:
        """The exact sparsity rate of the forward passes since the last call, with its surrogate gradient."""
        if not self._zeros:
            raise RuntimeError(
                "expected a forward pass of the watched model, in training mode and with gradients, before the penalty "
                "is read; got none: call model.train() and the model outside torch.no_grad()"
            )
        return torch.stack(self._zeros).sum() / torch.stack(self._places).sum().clamp_min(1)

    def close(self) -> None:
        """Stop watching the model."""
        for handle in self._handles:
            handle.remove()

    def _observe(self, module: Heads, seen: Observation) -> None:
        if not module.training or not torch.is_grad_enabled():
            return
        threshold = module.attention.threshold if module.threshold is None else module.threshold[:, None, None]
        assert seen.scores is not None
        soft = torch.sigmoid((threshold - seen.scores) / self.temperature)
        exact = (seen.weights == 0).to(soft.dtype)
        zeros = soft + (exact - soft).detach()
        if seen.allowed is None:
            self._zeros.append(zeros.sum())
            self._places.append(zeros.new_tensor(zeros.numel()))
        else:
            valid = seen.allowed.expand_as(zeros)
            self._zeros.append(zeros.masked_fill(~valid, 0.0).sum())
            self._places.append(valid.sum().to(zeros.dtype))
