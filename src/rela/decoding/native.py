"""The native decoder: a search whose steps are compiled. Float32 or int8 on the CPU."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Final, NamedTuple

import torch
from torch import Tensor

from rela.decoding.packing import Packed
from rela.text.vocabulary import BOS, EOS, PAD

_FEWEST_WEIGHTS: Final = 100_000  # fewer are multiplied before a second thread has begun
_MOST_THREADS: Final = 256


class Ended(NamedTuple):
    """A hypothesis of a sentence: its pieces without EOS, log-probability (with EOS), and whether it ended."""

    sentence: int
    pieces: list[int]
    log_probability: float
    finished: bool


class _Job(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("batch", "width", "beam", "min_length", "threads")),
        *((name, ctypes.c_int64) for name in ("pad", "bos", "eos")),
        *((name, ctypes.c_int64) for name in ("source", "longest", "positions", "logits")),
    ]


class _Found(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("sentence", "length", "is_finished")),
        ("log_probability", ctypes.c_double),
    ]


class NativeSearch:
    """One search; a context manager, since its memory is not Python's.

    ``logits`` ``[B * beam, V]``, if given, get those of each step as it is made.
    """

    def __init__(
        self,
        packed: Packed,
        source: Tensor,
        *,
        beam: int,
        min_length: int,
        longest: Sequence[int],
        logits: Tensor | None = None,
    ) -> None:
        self._packed, self._library = packed, packed.library
        self._source = source.contiguous()
        self._longest = torch.tensor(longest)
        self._positions = packed.positions(max(source.shape[1], max(longest) + 1))
        self._logits = logits
        batch, width = source.shape
        threads = 1 if packed.num_weights < _FEWEST_WEIGHTS else min(torch.get_num_threads(), _MOST_THREADS)
        job = _Job(batch, width, beam, min_length, threads, PAD, BOS, EOS)
        job.source, job.longest = self._source.data_ptr(), self._longest.data_ptr()
        job.positions, job.logits = self._positions.data_ptr(), 0 if logits is None else logits.data_ptr()
        begun: int | None = self._library.rela_search_begin(ctypes.byref(packed.model), ctypes.byref(job))
        if begun is None:
            raise MemoryError(f"expected memory for {batch} sentences of {width} pieces and {beam} beams, got none")
        self._search: int | None = begun
        self.length = 0
        """How many tokens each hypothesis has."""

    def __enter__(self) -> NativeSearch:
        return self

    def __exit__(self, *_: object) -> None:
        self._library.rela_search_end(self._search)
        self._search = None

    def step(self) -> int | None:
        """One more token for every row: how many sentences are left, or None if a probability is no number."""
        left: int = self._library.rela_search_step(self._search)
        self.length += 1
        return None if left < 0 else left

    def found(self) -> list[Ended]:
        """The hypotheses up to now, in the order in which they were found."""
        found, pieces = ctypes.POINTER(_Found)(), ctypes.POINTER(ctypes.c_int32)()
        stride = ctypes.c_int64()
        count: int = self._library.rela_search_found(
            self._search, ctypes.byref(found), ctypes.byref(pieces), ctypes.byref(stride)
        )
        return [
            Ended(
                one.sentence,
                pieces[place * stride.value : place * stride.value + one.length],
                one.log_probability,
                bool(one.is_finished),
            )
            for place, one in ((place, found[place]) for place in range(count))
        ]
