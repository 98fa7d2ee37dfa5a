"""What the native operators give for tensors that have shapes but no numbers: torch.compile asks for it."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor

_TILE: Final = 64  # these two as in native.cpp
_NOTED_KEYS: Final = 128 * _TILE

# Each function takes what the operator takes; what does not decide about shapes is in the rest.


def _attention(query: Tensor, _key: Tensor, value: Tensor, *_: Any) -> Tensor:
    return _heads_last(query, value.shape[-1], torch.float32)


def _attention_noted(query: Tensor, key: Tensor, value: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    tiles = (min(key.shape[-2], _NOTED_KEYS) + _TILE - 1) // _TILE
    signs = query.new_empty(*query.shape[:2], tiles, query.shape[2], dtype=torch.int64)
    return _attention(query, key, value), signs


def _attention_shown(
    query: Tensor, key: Tensor, value: Tensor, _shifts: Tensor | None, need_weights: bool, *_: Any
) -> tuple[Tensor, Tensor]:
    places = (*query.shape[:-1], key.shape[-2]) if need_weights else (0,)
    return _attention(query, key, value), query.new_empty(places, dtype=torch.float32)


def _attention_backward(
    _grad: Tensor, query: Tensor, key: Tensor, value: Tensor, thresholds: Tensor | None, *_: Any, **_signs: Any
) -> tuple[Tensor, ...]:
    of_thresholds = query.new_empty(0 if thresholds is None else thresholds.shape, dtype=torch.float32)
    return (*(_heads_last(x, x.shape[-1], x.dtype) for x in (query, key, value)), of_thresholds)


def _attention_factors(query: Tensor, key: Tensor, *_: Any) -> Tensor:
    return query.new_empty(*query.shape[:-1], key.shape[-2], dtype=torch.float32)


def _norm(x: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), x.new_empty(x.shape[:-1])


def _norm_inplace(*_: Any) -> None:
    return None


def _norm_backward(_grad: Tensor, x: Tensor, weight: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    return x.new_empty(x.shape), weight.new_empty(weight.shape), weight.new_empty(weight.shape)


def _dropout_add(_x: Tensor | None, y: Tensor, *_: Any) -> Tensor:
    return y.new_empty(y.shape)


_SHAPES: Final[dict[str, Any]] = {
    "relu_attention": _attention,
    "relu_attention_noted": _attention_noted,
    "relu_attention_shown": _attention_shown,
    "relu_attention_backward": _attention_backward,
    "relu_attention_factors": _attention_factors,
    "rms_norm_forward": _norm,
    "rms_norm_": _norm_inplace,
    "rms_norm_backward": _norm_backward,
    "dropout_add": _dropout_add,
}


def describe_shapes() -> None:
    """Tell torch; once in a process, after the operators are loaded."""
    for name, shape in _SHAPES.items():
        torch.library.register_fake(f"rela::{name}", shape)


def _heads_last(like: Tensor, dim: int, dtype: torch.dtype) -> Tensor:
    num_batch, num_heads, length, _ = like.shape
    return like.new_empty(num_batch, length, num_heads, dim, dtype=dtype).transpose(1, 2)
