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
        kernel = kernels.dropout_kernel(x)
        return F.dropout(x, self.p) if kernel is None else kernels.dropout_add(kernel, None, x, self.p)

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """``x + dropout(y)``."""
        if not self.training or self.p == 0:
            return x + y
        kernel = kernels.dropout_kernel(x, y)
        if kernel is None or x.shape != y.shape:
            return x + F.dropout(y, self.p)
        return kernels.dropout_add(kernel, x, y, self.p)
