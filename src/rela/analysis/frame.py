"""Which places of an attention count, for a batch: padding never does, nor the future of a decoder's query."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rela.alignment.pairs import PairBatch, Side
from rela.attention.spec import Kind


class Units(NamedTuple):
    """The units of all sentences of a batch, one after the other: words, and BOS before or EOS behind them.

    Unit ``u`` has the pieces ``pieces[starts[u]:starts[u + 1]]``; those of sentence ``b`` are ``units[b]`` to
    ``units[b + 1]``.
    """

    units: NDArray[np.int64]
    starts: NDArray[np.int64]
    pieces: NDArray[np.int64]

    def maps(self, places: int) -> Tensor:
        """``[B, places, units]``: 1 where a piece belongs to a unit."""
        counts = np.diff(self.units)
        found = np.zeros((len(counts), places, int(counts.max())), np.float32)
        for row, first in enumerate(self.units[:-1]):
            for unit in range(counts[row]):
                start, end = self.starts[first + unit : first + unit + 2]
                found[row, self.pieces[start:end], unit] = 1
        return torch.from_numpy(found)


class Frame:
    """One kind of attention in a batch: rows are queries, columns keys."""

    def __init__(self, kind: Kind, batch: PairBatch) -> None:
        self.kind: Kind = kind
        self.is_causal = kind == "decoder"
        self.batch = batch
        self.query_lengths = batch.source_lengths if kind == "encoder" else batch.target_lengths  # [B]
        self.key_lengths = batch.target_lengths if kind == "decoder" else batch.source_lengths  # [B]
        self.num_queries = batch.source.shape[1] if kind == "encoder" else batch.target_in.shape[1]
        self.num_keys = batch.target_in.shape[1] if kind == "decoder" else batch.source.shape[1]

    @cached_property
    def valid_queries(self) -> Tensor:
        """``[B, Tq]``: False at padding."""
        return torch.arange(self.num_queries, device=self.query_lengths.device) < self.query_lengths[:, None]

    @cached_property
    def query_units(self) -> Units:
        """Which queries belong together: those whose input is a word, or in cross-attention those that predict it."""
        if self.kind == "encoder":
            return self.key_units
        return self._inputs if self.kind == "decoder" else _units([pair.target for pair in self.batch.pairs])

    @cached_property
    def key_units(self) -> Units:
        """Which keys belong together."""
        return self._inputs if self.kind == "decoder" else _units([pair.source for pair in self.batch.pairs])

    @cached_property
    def _inputs(self) -> Units:
        return _units([pair.target for pair in self.batch.pairs], first=True)


def _units(sides: Sequence[Side], *, first: bool = False) -> Units:
    """Words, and as one unit more the piece after the last, or before the ``first``.

    A word without pieces (all its characters are unknown) is in no weight: it is left out.
    """
    units, starts, pieces = [0], [0], list[int]()
    for side in sides:
        words = [word for word in side.word_pieces if word]
        groups = [[0], *([piece + 1 for piece in word] for word in words)] if first else [*words, [len(side.ids)]]
        for group in groups:
            pieces += group
            starts.append(len(pieces))
        units.append(len(starts) - 1)
    return Units(*(np.array(values, np.int64) for values in (units, starts, pieces)))
