"""ReLU attention as an autograd function: the same gradients whichever kernel computes them."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Protocol

import torch
from torch import Tensor

from rela.attention.masks import Mask


class Options(NamedTuple):
    """The numbers of one call."""

    scale: float
    threshold: float
    causal_offset: int | None
    dropout_p: float
    dropout_seed: Tensor | None  # one int64

    @property
    def seed(self) -> int:
        """The seed of the dropout mask as a number."""
        return 0 if self.dropout_seed is None else int(self.dropout_seed)

    @property
    def dropout_gain(self) -> float:
        """What kept weights are multiplied by."""
        return 1.0 / (1.0 - self.dropout_p) if self.dropout_p < 1 else 0.0


class Inputs(NamedTuple):
    """The tensors of one call: ``[B, H, T, d]``; a threshold ``[H, 1, 1]``; masks of four dimensions.

    ``shifts`` ``[3, H, d]`` are added to query, key and value; only kernels that say so take them, and without
    gradients.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    threshold: Tensor | None
    allowed: Tensor | None
    bias: Tensor | None
    shifts: Tensor | None = None


class Kernel(Protocol):
    """What a way to compute ReLU attention must offer.

    ``takes_shifts`` says whether it adds ``Inputs.shifts`` while it reads, ``gives_weights`` whether it can show the
    weights.
    """

    takes_shifts: ClassVar[bool]
    gives_weights: ClassVar[bool]

    def attend(self, inputs: Inputs, options: Options, *, need_weights: bool = False) -> tuple[Tensor, Tensor | None]:
        """The output ``[B, H, Tq, d]``, with gradients; and on request, without, the weights before dropout."""
        ...


class Passes(Protocol):
    """The two passes of a kernel that leaves its gradients to :func:`with_gradients`."""

    def forward(self, inputs: Inputs, options: Options) -> Tensor:
        """The output ``[B, H, Tq, d]``."""
        ...

    def backward(self, grad: Tensor, inputs: Inputs, options: Options) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Gradients of query, key, value and threshold."""
        ...

    def dropout_factors(self, inputs: Inputs, options: Options) -> Tensor:
        """What the weights were multiplied by: 0 or the gain, ``[B, H, Tq, Tk]``."""
        ...


def relu_attention(
    kernel: Kernel,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Mask,
    *,
    scale: float,
    threshold: Tensor | float = 0.0,
    dropout_p: float = 0.0,
    shifts: Tensor | None = None,
    need_weights: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """``dropout(relu(scale * q k^T + bias - threshold), 0 where masked) v`` for ``[B, H, T, d]`` tensors.

    And on request the weights ``[B, H, Tq, Tk]`` before dropout, without gradients, by a kernel that gives them. A
    threshold tensor holds one number for each head, ``[H, 1, 1]``. ``mask.bias`` must not require a gradient. The
    dropout mask comes from a seed that torch's generator gives, and is made again in the backward pass.
    """
    seed = torch.randint(2**62, ()) if dropout_p > 0 else None
    learned = threshold if isinstance(threshold, Tensor) else None
    fixed = 0.0 if isinstance(threshold, Tensor) else threshold
    options = Options(scale, fixed, mask.causal_offset, dropout_p, seed)
    allowed, bias = (_four_dims(part) for part in (mask.allowed, mask.bias))
    inputs = Inputs(query, key, value, learned, allowed, bias, shifts)
    return kernel.attend(inputs, options, need_weights=need_weights)


def with_gradients(passes: Passes, inputs: Inputs, options: Options) -> Tensor:
    """The output of the forward pass; its gradients are those of the backward pass, or of formulas if they are to be
    derived once more.
    """
    return _ReluAttention.apply(passes, options, *inputs[:-1])  # pyright: ignore[reportReturnType]


class _ReluAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, passes: Passes, options: Options, *tensors: Tensor | None) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx.save_for_backward(*tensors)
        ctx.passes, ctx.options = passes, options
        return passes.forward(Inputs(*tensors), options)  # pyright: ignore[reportArgumentType]

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        inputs = Inputs(*ctx.saved_tensors)
        if torch.is_grad_enabled():
            grads = _differentiable_backward(ctx.passes, grad_outputs[0], inputs, ctx.options)
        else:
            grads = ctx.passes.backward(grad_outputs[0], inputs, ctx.options)
        return (None, None, *grads, None, None)


def _differentiable_backward(
    passes: Passes, grad: Tensor, inputs: Inputs, options: Options
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """The same gradients by formulas that autograd can follow once more, for second derivatives."""
    query, key, value = (tensor.to(grad.dtype) for tensor in inputs[:3])  # outputs of half precision may be float32
    threshold, allowed, bias = inputs[3:6]
    group = query.shape[1] // key.shape[1]  # query heads that share a key head
    if group > 1:
        key, value = (tensor.repeat_interleave(group, 1) for tensor in (key, value))
    scores = query @ key.transpose(-2, -1) * options.scale
    scores = scores if bias is None else scores + bias
    scores = scores - (options.threshold if threshold is None else threshold)
    valid = Mask(allowed, None, options.causal_offset).all_allowed(scores.shape[-2], scores.shape[-1], query.device)
    weights = scores.relu() if valid is None else scores.relu().masked_fill(~valid, 0.0)
    positive = (weights > 0).to(grad.dtype)
    d_weights = grad @ value.transpose(-2, -1)
    if options.dropout_p > 0:
        factors = passes.dropout_factors(inputs, options)
        weights, d_weights = weights * factors, d_weights * factors
    d_scores = d_weights * positive
    d_key, d_value = d_scores.transpose(-2, -1) @ query * options.scale, weights.transpose(-2, -1) @ grad
    if group > 1:
        d_key, d_value = (tensor.unflatten(1, (-1, group)).sum(2) for tensor in (d_key, d_value))
    return (
        d_scores @ key * options.scale,
        d_key,
        d_value,
        None if threshold is None else -d_scores.sum((0, 2, 3)).view_as(threshold),
    )


def _four_dims(mask: Tensor | None) -> Tensor | None:
    return None if mask is None else mask.detach()[(None,) * (4 - mask.dim())]
