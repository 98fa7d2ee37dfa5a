"""The compiled way to the errors of a layer's links: one pass over the weights. Float32 on the CPU."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rela.alignment.batched import RULES, SHIFTS
from rela.alignment.pairs import PairBatch, WordPieces
from rela.attention.kernels import build

_SOURCE: Final = Path(__file__).with_name("links.c")
_COUNTS: Final = 3  # links, those that are sure, those that are possible


class _Words(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in ("words", "starts", "pieces")]


class _Call(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("num_batch", "num_heads", "num_rows", "num_columns")),
        *((name, ctypes.c_int64) for name in ("batch_stride", "head_stride", "row_stride")),
        *((name, ctypes.c_int64) for name in ("weights", "source_lengths", "target_lengths")),
        *((name, _Words) for name in ("source", "target")),
        *((name, ctypes.c_int64) for name in ("most_target_words", "most_source_words", "num_threads")),
        *((name, ctypes.c_int64) for name in ("sure", "possible", "counts")),
    ]


def native_library() -> ctypes.CDLL | None:
    """The compiled counter; None if this machine cannot make one."""
    return build.load(_SOURCE).library


def count_links(
    library: ctypes.CDLL, weights: Tensor, batch: PairBatch, sure: Tensor, possible: Tensor
) -> NDArray[np.int64]:
    """Of cross weights ``[B, H, T, S]`` and gold links ``[B, Wt, Ws]``: for each shift, rule and head, the mean over
    heads being the last, how many links there are, and how many of them are sure and possible."""
    weights = weights if weights.stride(-1) == 1 else weights.contiguous()
    num_batch, num_heads, num_rows, num_columns = weights.shape
    expected = (len(batch.pairs), batch.target_in.shape[1], batch.source.shape[1])  # beyond this nobody checks
    assert (num_batch, num_rows, num_columns, weights.dtype) == (*expected, torch.float32), "weights of another batch"
    assert sure.shape == possible.shape == (num_batch, batch.most_target_words, batch.most_source_words)
    assert sure.is_contiguous()
    assert possible.is_contiguous()
    num_threads = max(1, min(torch.get_num_threads(), num_batch))
    counts = np.zeros((num_threads, len(SHIFTS), len(RULES), num_heads + 1, _COUNTS), np.int64)
    call = _Call(num_batch, num_heads, num_rows, num_columns, *weights.stride()[:3], weights.data_ptr())
    call.source_lengths, call.target_lengths = batch.source_lengths.data_ptr(), batch.target_lengths.data_ptr()
    call.source, call.target = _addresses(batch.source_word_pieces), _addresses(batch.target_word_pieces)
    call.most_target_words, call.most_source_words = sure.shape[1:]
    call.num_threads = num_threads
    call.sure, call.possible, call.counts = sure.data_ptr(), possible.data_ptr(), counts.ctypes.data
    if library.rela_count_links(ctypes.byref(call)):
        raise MemoryError("native count of links: expected a few KiB of scratch memory a thread, got none")
    return counts.sum(0)


def _addresses(words: WordPieces) -> _Words:
    return _Words(*(array.ctypes.data for array in words))
