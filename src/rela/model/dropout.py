"""Dropout, as residual connections need it."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from rela.attention import kernels


class Dropout(nn.Module):
    """Dropout, alone or in the form of residual connections: ``x + dropout(y)``.

    On the CPU a kernel draws the random numbers, drops, scales and adds in one pass over the memory, and draws them
    again in the backward pass.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def extra_repr(self) -> str:
        return f"p={self.p}"

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        return kernels.dropout_add(None, x, self.p) if kernels.dropout_fits(x) else F.dropout(x, self.p)

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """``x + dropout(y)``."""
        if not self.training or self.p == 0:
            return x + y
        if x.shape == y.shape and kernels.dropout_fits(x, y):
            return kernels.dropout_add(x, y, self.p)
        return x + F.dropout(y, self.p)
