"""RMSNorm, plain or gated, as an autograd function: one pass over rows in the cache, forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

import torch
from torch import Tensor

# Elements that one step of the PyTorch version works on: 512 KiB of float32.
CHUNK_ELEMENTS: Final = 1 << 17
# The squares of longer rows come near float32's limits: they are summed in float64.
LONGEST_ROW: Final = 1e12

Formula = Callable[[Tensor, Tensor, Tensor | None, float], Tensor]


class NormKernel(Protocol):
    """What a way to compute the norm must offer."""

    def norm(
        self, x: Tensor, weight: Tensor, gate: Tensor | None, eps: float, *, formula: Formula, inplace: bool = False
    ) -> Tensor:
        """``x / sqrt(mean(x^2) + eps) * weight``, times ``sigmoid(gate * x)`` if there is a gate, for a CPU tensor.

        ``formula`` says the same in plain operations, for second derivatives. ``inplace`` may overwrite x, and is for
        calls without gradients only.
        """
        ...


class _RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, kernel: ChunkedNorm, formula: Formula, eps: float, x: Tensor, weight: Tensor, gate: Tensor | None
    ) -> Tensor:
        output, inverse = kernel.forward(x, weight, gate, eps)
        ctx.save_for_backward(x, weight, gate, inverse)
        ctx.kernel, ctx.formula, ctx.eps = kernel, formula, eps
        return output

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, gate, inverse = ctx.saved_tensors
        if torch.is_grad_enabled():
            output = ctx.formula(x, weight, gate, ctx.eps)
            wanted = [t for t in (x, weight, gate) if t is not None and t.requires_grad]
            found = iter(torch.autograd.grad(output, wanted, grad_outputs[0], create_graph=True))
            grads = [next(found) if t is not None and t.requires_grad else None for t in (x, weight, gate)]
        else:
            grads = ctx.kernel.backward(grad_outputs[0], x, weight, gate, inverse)
        return (None, None, None, *grads)


class ChunkedNorm:
    """PyTorch operations on a few rows at a time."""

    def norm(
        self, x: Tensor, weight: Tensor, gate: Tensor | None, eps: float, *, formula: Formula, inplace: bool = False
    ) -> Tensor:
        """As :meth:`NormKernel.norm`; never in place, since each step reads x again."""
        del inplace
        return _RMSNorm.apply(self, formula, eps, x, weight, gate)  # pyright: ignore[reportReturnType]

    def forward(self, x: Tensor, weight: Tensor, gate: Tensor | None, eps: float) -> tuple[Tensor, Tensor]:
        """The output, and the inverse root mean square of each row."""
        output = torch.empty_like(x, memory_format=torch.contiguous_format)
        norms = torch.linalg.vector_norm(x, dim=-1)
        if not bool(norms.amax() < LONGEST_ROW):
            norms = torch.linalg.vector_norm(x.double(), dim=-1)
        inverse = norms.square_().div_(x.shape[-1]).add_(eps).rsqrt_().to(x.dtype)
        for out, rows, inv in _chunks(output, x, inverse.unsqueeze(-1)):
            if gate is None:
                torch.mul(rows, weight, out=out).mul_(inv)
            else:
                torch.mul(rows, gate, out=out).sigmoid_().mul_(rows).mul_(weight).mul_(inv)
        return output, inverse

    def backward(
        self, grad: Tensor, x: Tensor, weight: Tensor, gate: Tensor | None, inverse: Tensor
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """With s = sigmoid(gate x), or 1, and u = x inverse, t = grad s u weight:

        d_x = grad s weight inverse - x inverse^2 mean(t) + t (1 - s) gate;  d_weight = sum grad s u;
        d_gate = sum t (1 - s) x.
        """
        d_x = torch.empty_like(x, memory_format=torch.contiguous_format)
        d_weight, d_gate = torch.zeros_like(weight), None if gate is None else torch.zeros_like(gate)
        for out, dy, rows, inv in _chunks(d_x, grad, x, inverse.unsqueeze(-1)):
            s = None if gate is None else (rows * gate).sigmoid_()
            out.copy_(dy) if s is None else torch.mul(dy, s, out=out)
            t = rows * inv
            t.mul_(out)
            d_weight += t.sum(0)
            t.mul_(weight)
            mean = t.mean(-1, keepdim=True).mul_(inv)
            out.mul_(weight).mul_(inv).addcmul_(rows * inv, mean, value=-1)
            if gate is not None and s is not None and d_gate is not None:
                t.mul_(s.neg_().add_(1))
                out.addcmul_(t, gate)
                d_gate += t.mul_(rows).sum(0)
        return d_x, d_weight, d_gate


def _chunks(*tensors: Tensor) -> list[tuple[Tensor, ...]]:
    """The tensors' rows, a cache-sized group at a time."""
    rows = max(1, CHUNK_ELEMENTS // tensors[0].shape[-1])
    return list(zip(*(t.reshape(-1, t.shape[-1]).split(rows) for t in tensors), strict=True))
