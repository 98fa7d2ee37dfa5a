"""Dropout on residual connections."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn


class Dropout(nn.Module):
    """Dropout, also in the form in which residual connections need it: ``x + dropout(y)``."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.p, self.training)

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """``x + dropout(y)``."""
        return x + self.forward(y)
