"""``x + dropout(y)`` as an autograd function: the places that are dropped come from a seed, and are never stored."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class DropoutKernel(Protocol):
    """What a way to compute residual dropout must offer."""

    def dropout_add(self, x: Tensor | None, y: Tensor, p: float, seed: int) -> Tensor:
        """``x + dropout(y)``, or the dropout alone; the same seed drops the same places."""
        ...


def dropout_add(kernel: DropoutKernel, x: Tensor | None, y: Tensor, p: float) -> Tensor:
    """``x + dropout(y)`` with a seed that torch's generator gives."""
    seed = int(torch.randint(2**62, ()).item())
    return _DropoutAdd.apply(kernel, x, y, p, seed)  # pyright: ignore[reportReturnType]


class _DropoutAdd(torch.autograd.Function):
    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, kernel: DropoutKernel, x: Tensor | None, y: Tensor, p: float, seed: int
    ) -> Tensor:
        ctx.kernel, ctx.p, ctx.seed, ctx.has_x = kernel, p, seed, x is not None
        return kernel.dropout_add(x, y, p, seed)

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, *grads: Tensor
    ) -> tuple[None, Tensor | None, Tensor, None, None]:
        d_y = ctx.kernel.dropout_add(None, grads[0], ctx.p, ctx.seed)
        return None, grads[0] if ctx.has_x else None, d_y, None, None
