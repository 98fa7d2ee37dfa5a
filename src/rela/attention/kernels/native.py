"""The native kernels behind torch tensors: addresses and strides in, tensors out. Float32 on the CPU."""

from __future__ import annotations

import ctypes
from typing import ClassVar, Final

import torch
from torch import Tensor

from rela.attention.kernels.relu import Inputs, Options

MAX_HEAD_DIM: Final = 128


class _Strided(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in ("data", "batch", "head", "row", "col")]


class _Call(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("num_batch", "num_heads", "num_queries", "num_keys")),
        *((name, ctypes.c_int64) for name in ("key_dim", "value_dim")),
        *((name, _Strided) for name in ("query", "key", "value", "output", "weights")),
        *((name, _Strided) for name in ("d_query", "d_key", "d_value")),
        *((name, _Strided) for name in ("allowed", "bias")),
        ("shifts", ctypes.c_int64 * 3),
        *((name, ctypes.c_int64) for name in ("thresholds", "d_thresholds")),
        *((name, ctypes.c_int64) for name in ("causal_offset", "is_causal", "dropout_seed", "num_threads")),
        *((name, ctypes.c_double) for name in ("scale", "threshold", "dropout_p")),
    ]


class NativeKernel:
    """ReLU attention by the compiled library."""

    takes_shifts: ClassVar[bool] = True
    gives_weights: ClassVar[bool] = True

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    def forward(self, inputs: Inputs, options: Options, weights: Tensor | None = None) -> Tensor:
        """The output ``[B, H, Tq, d]``, laid out ``[B, Tq, H, d]`` so that the heads concatenate for free."""
        inputs = _dense(inputs)
        output = _heads_last(inputs.query, inputs.value.shape[-1])
        call = _call(inputs, options)
        if inputs.shifts is not None:
            start, step = inputs.shifts.data_ptr(), inputs.shifts.stride(0) * inputs.shifts.element_size()
            call.shifts[:] = [start, start + step, start + 2 * step]
        call.output = _strided(output)
        if weights is not None:
            call.weights = _strided(weights)
        _check(self._library.rela_relu_forward(ctypes.byref(call)))
        return output

    def backward(self, grad: Tensor, inputs: Inputs, options: Options) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Gradients of query, key, value and threshold."""
        inputs = _dense(inputs)
        grad = _unit_stride(grad)
        query, key, value, threshold = inputs[:4]
        grads = [_heads_last(t, t.shape[-1]) for t in (query, key, value)]
        d_thresholds = torch.zeros(query.shape[:2], dtype=torch.float64)
        call = _call(inputs, options)
        call.output = _strided(grad)
        call.d_query, call.d_key, call.d_value = (_strided(t) for t in grads)
        call.d_thresholds = 0 if threshold is None else d_thresholds.data_ptr()
        _check(self._library.rela_relu_backward(ctypes.byref(call)))
        d_threshold = None if threshold is None else d_thresholds.sum(0).view_as(threshold).to(threshold.dtype)
        return grads[0], grads[1], grads[2], d_threshold

    def dropout_factors(self, inputs: Inputs, options: Options) -> Tensor:
        """What the weights were multiplied by."""
        factors = inputs.query.new_empty(*inputs.query.shape[:-1], inputs.key.shape[-2])
        call = _call(_dense(inputs), options)
        call.output = _strided(factors)
        self._library.rela_dropout_factors(ctypes.byref(call))
        return factors


class NativeNorm:
    """RMSNorm, plain or gated, by the compiled library."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    def forward(
        self, x: Tensor, weight: Tensor, gate: Tensor | None, eps: float, inplace: bool = False
    ) -> tuple[Tensor, Tensor]:
        """The output (in the memory of x, if that is contiguous), and the inverse root mean square of each row."""
        x, weight, gate = x.contiguous(), weight.contiguous(), None if gate is None else gate.contiguous()
        output = x if inplace else torch.empty_like(x)
        inverse = x.new_empty(x.shape[:-1])
        self._library.rela_rms_norm_forward(
            *_addresses(x, weight, gate, output, inverse), *_sizes(x), ctypes.c_double(eps), _num_threads()
        )
        return output, inverse

    def backward(
        self, grad: Tensor, x: Tensor, weight: Tensor, gate: Tensor | None, inverse: Tensor
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Gradients of x, weight and gate."""
        grad, x, weight = _with_memory(grad).contiguous(), x.contiguous(), weight.contiguous()
        gate = None if gate is None else gate.contiguous()
        d_x = torch.empty_like(x)
        partial = x.new_zeros(torch.get_num_threads(), 2, x.shape[-1])
        self._library.rela_rms_norm_backward(
            *_addresses(grad, x, weight, gate, inverse, d_x, partial), *_sizes(x), _num_threads()
        )
        d_weight, d_gate = partial.sum(0).unbind(0)
        return d_x, d_weight, None if gate is None else d_gate


class NativeDropout:
    """Dropout on residual connections by the compiled library."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    def dropout_add(self, x: Tensor | None, y: Tensor, p: float, seed: int) -> Tensor:
        """``x + dropout(y)``, or the dropout alone."""
        x, y = None if x is None else _with_memory(x).contiguous(), _with_memory(y).contiguous()
        output = torch.empty_like(y)
        self._library.rela_dropout_add(
            *_addresses(x, y, output),
            ctypes.c_int64(y.numel()),
            ctypes.c_uint64(seed),
            ctypes.c_double(p),
            _num_threads(),
        )
        return output


def _check(failed: int) -> None:
    if failed:
        raise MemoryError("native attention kernel: expected a few hundred KiB of scratch memory a thread, got none")


def _call(inputs: Inputs, options: Options) -> _Call:
    query, key, value, threshold, allowed, bias, _ = inputs
    call = _Call()
    call.num_batch, call.num_heads, call.num_queries, call.key_dim = query.shape
    call.num_keys, call.value_dim = value.shape[-2:]
    call.query, call.key, call.value = _strided(query), _strided(key), _strided(value)
    if allowed is not None:
        call.allowed = _strided(allowed)
    if bias is not None:
        call.bias = _strided(bias)
    call.thresholds = 0 if threshold is None else threshold.data_ptr()
    call.is_causal = options.causal_offset is not None
    call.causal_offset = options.causal_offset or 0
    call.dropout_seed, call.dropout_p = options.dropout_seed, options.dropout_p
    call.scale, call.threshold = options.scale, options.threshold
    call.num_threads = torch.get_num_threads()
    return call


def _strided(tensor: Tensor) -> _Strided:
    """Address and strides; a dimension of size 1 repeats."""
    strides = (stride if size > 1 else 0 for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return _Strided(tensor.data_ptr(), *strides)


def _dense(inputs: Inputs) -> Inputs:
    """Inputs as the library reads them: unit stride inside a head, masks as bytes and float32."""
    query, key, value, threshold, allowed, bias, shifts = inputs
    return Inputs(
        _unit_stride(query),
        _unit_stride(key),
        _unit_stride(value),
        None if threshold is None else threshold.detach().contiguous(),
        allowed,
        None if bias is None else bias.to(query.dtype),
        None if shifts is None else shifts.detach().contiguous(),
    )


def _unit_stride(tensor: Tensor) -> Tensor:
    tensor = _with_memory(tensor)
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


def _with_memory(tensor: Tensor) -> Tensor:
    """A tensor whose numbers stand in its memory: torch may leave out a minus sign, or all the zeros of a gradient."""
    return tensor.clone() if tensor._is_zerotensor() else tensor.resolve_neg()


def _heads_last(like: Tensor, dim: int) -> Tensor:
    num_batch, num_heads, length, _ = like.shape
    return like.new_empty(num_batch, length, num_heads, dim).transpose(1, 2)


def _addresses(*tensors: Tensor | None) -> list[ctypes.c_void_p]:
    return [ctypes.c_void_p(None if tensor is None else tensor.data_ptr()) for tensor in tensors]


def _sizes(x: Tensor) -> tuple[ctypes.c_int64, ctypes.c_int64]:
    return ctypes.c_int64(x.numel() // x.shape[-1]), ctypes.c_int64(x.shape[-1])


def _num_threads() -> ctypes.c_int64:
    return ctypes.c_int64(torch.get_num_threads())
