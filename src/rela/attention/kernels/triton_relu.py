"""The Triton kernels behind torch tensors. Importing this file imports triton."""

from __future__ import annotations

from typing import Any, ClassVar, Final, NamedTuple

import torch
from torch import Tensor

from rela.attention.kernels import triton_blocks
from rela.attention.kernels.relu import Inputs, Options, with_gradients

# What Triton makes of a function has no type that a checker knows.
_device: Final[Any] = triton_blocks
INTERPRETED: Final[bool] = triton_blocks.INTERPRETED
MIXED: Final[bool] = triton_blocks.MIXED


class Blocks(NamedTuple):
    """How many queries and keys one block has, how many warps work on it, how many loads are under way."""

    rows: int
    cols: int
    warps: int
    stages: int


# Fixed sizes, no tuning at run time: that could choose otherwise in the next run, and other blocks are another order of
# sums. These keep registers and shared memory, as the compiler counts them for sm_80 and sm_90, within what a GPU has;
# no speed was ever measured. By the bytes of an element and whether heads are larger than NARROW: forward, backward.
NARROW: Final = 64
_BLOCKS: Final[dict[tuple[int, bool], tuple[Blocks, Blocks]]] = {
    (4, False): (Blocks(64, 32, 8, 1), Blocks(64, 32, 8, 1)),
    (4, True): (Blocks(64, 32, 8, 1), Blocks(32, 32, 4, 1)),
    (2, False): (Blocks(128, 64, 8, 2), Blocks(64, 32, 8, 1)),
    (2, True): (Blocks(64, 64, 8, 2), Blocks(32, 64, 8, 1)),
}
_INTERPRETED_BLOCKS: Final = Blocks(32, 32, 1, 1)
_DTYPES: Final = (torch.float32, torch.bfloat16, torch.float16)
_MAX_HEAD_DIM: Final = 128


def fits(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """True if the kernels take tensors of these dtypes and head sizes."""
    same = query.dtype == key.dtype == value.dtype
    return same and query.dtype in _DTYPES and max(key.shape[-1], value.shape[-1]) <= _MAX_HEAD_DIM


class TritonKernel:
    """ReLU attention by Triton, float32, bfloat16 or float16; what it sums, and its output, is float32.

    Products of float32 are in full precision ("ieee"), not in tf32, so that they equal the plain formulas'. Weights and
    gradients of scores are rounded to bfloat16 for their products with such inputs; with float16 inputs, whose range
    weights may leave, those products are in tf32, which has the same number of digits.

    With ``grouped``, key and value may have fewer heads than the query: each serves a group of neighbouring ones.
    """

    takes_shifts: ClassVar[bool] = False
    gives_weights: ClassVar[bool] = False

    def __init__(self, *, grouped: bool = False) -> None:
        self._grouped = grouped

    def attend(self, inputs: Inputs, options: Options, *, need_weights: bool = False) -> tuple[Tensor, Tensor | None]:
        """The output ``[B, H, Tq, d]`` with gradients; never the weights, which are not written anywhere."""
        assert not need_weights
        assert inputs.shifts is None
        return with_gradients(self, inputs, options), None

    def forward(self, inputs: Inputs, options: Options) -> Tensor:
        """The output ``[B, H, Tq, d]``, laid out ``[B, Tq, H, d]`` so that the heads concatenate for free."""
        self._check_heads(inputs)
        query, key, value = inputs[:3]
        output = _heads_last(query, value.shape[-1], torch.float32)
        blocks = _blocks(query, value)[0]
        num_programs = query.shape[0] * query.shape[1] * _num_blocks(query.shape[2], blocks.rows)
        with torch.cuda.device_of(query):
            _device.forward[(num_programs,)](
                _strided(query), _strided(key), _strided(value), _strided(output), **_call(inputs, options, blocks)
            )
        return output

    def backward(self, grad: Tensor, inputs: Inputs, options: Options) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Gradients of query, key, value and threshold."""
        self._check_heads(inputs)
        query, key, value, threshold = inputs[:4]
        tensors = [_strided(tensor) for tensor in (query, key, value, _with_memory(grad))]
        d_query, d_key, d_value = (_heads_last(t, t.shape[-1], t.dtype) for t in (query, key, value))
        blocks = _blocks(query, value)[1]
        call = _call(inputs, options, blocks)
        num_blocks = _num_blocks(query.shape[2], blocks.rows)
        shares = None
        if threshold is not None:
            shares = query.new_empty(*query.shape[:2], num_blocks, dtype=torch.float32)
        with torch.cuda.device_of(query):
            _device.backward_queries[(query.shape[0] * query.shape[1] * num_blocks,)](
                *tensors, _strided(d_query), shares, **call
            )
            num_programs = key.shape[0] * key.shape[1] * _num_blocks(key.shape[2], blocks.cols)
            _device.backward_keys[(num_programs,)](*tensors, _strided(d_key), _strided(d_value), **call)
        if threshold is None or shares is None:
            return d_query, d_key, d_value, None
        return d_query, d_key, d_value, shares.double().sum((0, 2)).view_as(threshold).to(threshold.dtype)

    def dropout_factors(self, inputs: Inputs, options: Options) -> Tensor:
        """What the weights were multiplied by."""
        query, key = inputs[:2]
        factors = query.new_empty(*query.shape[:-1], key.shape[-2], dtype=torch.float32)
        blocks = _INTERPRETED_BLOCKS
        num_programs = query.shape[0] * query.shape[1] * _num_blocks(query.shape[2], blocks.rows)
        with torch.cuda.device_of(query):
            _device.dropout_factors[(num_programs,)](
                _strided(factors),
                _sizes(inputs),
                _numbers(options),
                options.seed,
                ROWS=blocks.rows,
                COLS=blocks.cols,
            )
        return factors

    def _check_heads(self, inputs: Inputs) -> None:
        num_heads, num_shared = inputs.query.shape[1], inputs.key.shape[1]
        assert num_heads == num_shared or (self._grouped and num_heads % num_shared == 0), (num_heads, num_shared)


def _call(inputs: Inputs, options: Options, blocks: Blocks) -> dict[str, Any]:
    """The arguments that the kernels share."""
    query, _, value, threshold, allowed, bias, _ = inputs
    is_bfloat16 = query.dtype == torch.bfloat16
    # AMD's compiler knows tf32 for some devices only.
    has_tf32 = query.dtype == torch.float16 and torch.version.hip is None
    return {
        "masks": (
            None if allowed is None else _strided(allowed.view(torch.uint8)),
            None if bias is None else _strided(bias),
            None if threshold is None else threshold.detach().float().contiguous(),
        ),
        "sizes": _sizes(inputs),
        "numbers": _numbers(options),
        "causal_offset": options.causal_offset or 0,
        "seed": options.seed,
        "KEY_DIM": query.shape[-1],
        "VALUE_DIM": value.shape[-1],
        "KEY_WIDTH": _width(query.shape[-1]),
        "VALUE_WIDTH": _width(value.shape[-1]),
        "CAUSAL": options.causal_offset is not None,
        "DROPOUT": options.dropout_p > 0,
        "DTYPE": _device.tl.bfloat16 if is_bfloat16 else _device.tl.float32,
        "PRECISION": "tf32" if has_tf32 else "ieee",
        "ROWS": blocks.rows,
        "COLS": blocks.cols,
        "num_warps": blocks.warps,
        "num_stages": blocks.stages,
    }


def _sizes(inputs: Inputs) -> tuple[int, int, int, int]:
    _, num_heads, num_queries, _ = inputs.query.shape
    return num_heads, num_heads // inputs.key.shape[1], num_queries, inputs.key.shape[2]


def _numbers(options: Options) -> tuple[float, float, float, float]:
    return float(options.scale), float(options.threshold), float(options.dropout_p), options.dropout_gain


def _blocks(query: Tensor, value: Tensor) -> tuple[Blocks, Blocks]:
    """For the forward pass and for the backward pass."""
    if INTERPRETED:
        return _INTERPRETED_BLOCKS, _INTERPRETED_BLOCKS
    return _BLOCKS[query.element_size(), max(query.shape[-1], value.shape[-1]) > NARROW]


def _num_blocks(length: int, size: int) -> int:
    return -(-length // size)


def _width(dim: int) -> int:
    """Sides of blocks are powers of two, and 16 at least where they are multiplied."""
    return max(16, 1 << (dim - 1).bit_length())


def _strided(tensor: Tensor) -> tuple[Tensor, tuple[int, ...]]:
    """A tensor and its strides; a dimension of size 1 repeats."""
    strides = (stride if size > 1 else 0 for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.detach(), tuple(strides)


def _heads_last(like: Tensor, dim: int, dtype: torch.dtype) -> Tensor:
    num_batch, num_heads, length, _ = like.shape
    return like.new_empty(num_batch, length, num_heads, dim, dtype=dtype).transpose(1, 2)


def _with_memory(tensor: Tensor) -> Tensor:
    """A tensor whose numbers stand in its memory: torch may leave out a minus sign, or all the zeros of a gradient."""
    return tensor.clone() if tensor._is_zerotensor() else tensor.resolve_neg()
