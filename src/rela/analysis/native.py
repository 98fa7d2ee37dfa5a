"""The compiled way to the sums: one pass over the weights. Float32 on the CPU."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from rela.analysis.frame import Frame, Units
from rela.analysis.sums import BY_HEAD, BY_LAYER, FARTHEST, Sums
from rela.attention.kernels import build

_SOURCE: Final = Path(__file__).with_name("meter.c")


class _Units(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in ("units", "starts", "pieces")]


class _Call(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("num_batch", "num_heads", "num_queries", "num_keys")),
        *((name, ctypes.c_int64) for name in ("batch_stride", "head_stride", "row_stride", "is_causal")),
        *((name, ctypes.c_int64) for name in ("weights", "query_lengths", "key_lengths")),
        *((name, _Units) for name in ("query_units", "key_units")),
        *((name, ctypes.c_int64) for name in ("farthest", "num_threads", "taus")),
        *((name, ctypes.c_int64) for name in ("null", "by_head", "by_layer", "distances", "diversity")),
    ]


def native_library() -> ctypes.CDLL | None:
    """The compiled meter; None if this machine cannot make one."""
    return build.load(_SOURCE).library


def native_sums(library: ctypes.CDLL, weights: Tensor, frame: Frame, taus: Sequence[float]) -> Sums:
    """As :func:`rela.analysis.sums.plain_sums`, with four taus or none."""
    weights = weights if weights.stride(-1) == 1 else weights.contiguous()
    num_batch, num_heads, num_queries, num_keys = weights.shape
    expected = (len(frame.batch.pairs), frame.num_queries, frame.num_keys)  # beyond this nobody checks
    assert (num_batch, num_queries, num_keys, weights.dtype) == (*expected, torch.float32), "weights of another batch"
    num_threads = max(1, min(torch.get_num_threads(), num_batch))
    numbers = torch.tensor(taus, dtype=torch.float32)
    null = torch.zeros(num_batch, num_heads, num_queries, dtype=torch.bool)
    sums = [
        torch.zeros(num_threads, *sizes, dtype=torch.float64)
        for sizes in (
            (num_heads, len(BY_HEAD)),
            (len(BY_LAYER),),
            (num_heads, 2 * FARTHEST + 1),
            (2, max(1, len(taus))),
        )
    ]
    call = _Call(
        num_batch, num_heads, num_queries, num_keys, *weights.stride()[:3], frame.is_causal, weights.data_ptr()
    )
    call.query_lengths, call.key_lengths = frame.query_lengths.data_ptr(), frame.key_lengths.data_ptr()
    call.query_units, call.key_units = _addresses(frame.query_units), _addresses(frame.key_units)
    call.farthest, call.num_threads = FARTHEST, num_threads
    call.taus = numbers.data_ptr() if taus else 0
    call.null = null.data_ptr()
    call.by_head, call.by_layer, call.distances, call.diversity = (tensor.data_ptr() for tensor in sums)
    if library.rela_measure(ctypes.byref(call)):
        raise MemoryError("native meter: expected a few KiB of scratch memory a thread, got none")
    by_head, by_layer, distances, diversity = (tensor.sum(0) for tensor in sums)
    return Sums(by_head, by_layer, distances, diversity, null)


def _addresses(units: Units) -> _Units:
    return _Units(*(array.ctypes.data for array in units))
