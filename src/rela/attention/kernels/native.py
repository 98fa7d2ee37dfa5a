"""The native kernels behind torch tensors: operators of torch in the namespace ``rela``, on the CPU.

They have their own gradients, first by kernels and then, for second derivatives, by formulas; the functions here choose
the operator.
"""

from __future__ import annotations

import functools
from typing import Any, ClassVar, Final

import torch
from torch import Tensor

from rela.attention.kernels import build
from rela.attention.kernels.relu import Inputs, Options
from rela.attention.kernels.rms import Formula
from rela.attention.kernels.shapes import describe_shapes

MAX_HEAD_DIM: Final = 128

_ops: Final[Any] = torch.ops.rela


@functools.cache
def load() -> build.Built:
    """The operators, or the reason why there are none. A process registers them once."""
    built = build.load_operators()
    if built.library is not None:
        describe_shapes()
    return built


class NativeKernel:
    """ReLU attention by the operators."""

    takes_shifts: ClassVar[bool] = True
    gives_weights: ClassVar[bool] = True

    def attend(self, inputs: Inputs, options: Options, *, need_weights: bool = False) -> tuple[Tensor, Tensor | None]:
        """The output ``[B, H, Tq, d]`` in float32, laid out ``[B, Tq, H, d]`` so that heads concatenate for free."""
        query, key, value, thresholds, allowed, bias, shifts = inputs
        thresholds = None if thresholds is None else thresholds.contiguous()
        numbers = (options.scale, options.threshold, options.causal_offset, options.dropout_p)
        rest = (thresholds, allowed, bias, options.dropout_seed, *numbers)
        if shifts is None and not need_weights:
            return _ops.relu_attention(query, key, value, *rest), None
        shifts = None if shifts is None else shifts.contiguous()
        output, weights = _ops.relu_attention_shown(query, key, value, shifts, need_weights, *rest)
        return output, weights if need_weights else None


def plain_relu_attention(query: Tensor, key: Tensor, value: Tensor, scale: float | None) -> Tensor | None:
    """Without mask, dropout and threshold: the operator that has no such arguments; None if it refuses."""
    try:
        return _ops.relu_attention_plain.default(query, key, value, scale)
    except RuntimeError as error:
        return _if_ours(error)


def quick_relu_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    allowed: Tensor | None,
    seed: Tensor | None,
    scale: float,
    threshold: float,
    is_causal: bool,
    dropout_p: float,
) -> Tensor | None:
    """The operator itself, which looks at shapes and dtypes; None if it refuses them."""
    offset = 0 if is_causal else None
    try:
        return _ops.relu_attention.default(
            query, key, value, None, allowed, None, seed, scale, threshold, offset, dropout_p
        )
    except RuntimeError as error:
        return _if_ours(error)


def _if_ours(error: RuntimeError) -> None:
    """What an operator of ours refuses, the long way can do, or say what is wrong; what others raise is theirs."""
    if "rela::" not in str(error):
        raise error


class NativeNorm:
    """RMSNorm, plain or gated, by the operators."""

    def norm(
        self, x: Tensor, weight: Tensor, gate: Tensor | None, eps: float, *, formula: Formula, inplace: bool = False
    ) -> Tensor:
        """As :meth:`rela.attention.kernels.rms.NormKernel.norm`; the operator has a formula of its own."""
        del formula
        if inplace and x.is_contiguous():
            _ops.rms_norm_(x, weight, gate, eps)
            return x
        return _ops.rms_norm(x, weight, gate, eps)


def dropout_add(x: Tensor | None, y: Tensor, p: float) -> Tensor:
    """``x + dropout(y)``, or the dropout alone, with a seed that torch's generator gives."""
    return _ops.dropout_add(x, y, torch.randint(2**62, ()), p)
