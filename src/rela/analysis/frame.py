"""Which places of an attention count, for a batch: padding never does, nor the future of a decoder's query."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rela.alignment.pairs import PairBatch, WordPieces, ends_of
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


class BatchUnits:
    """The units of a batch's sources, of its targets as the decoder predicts them, and as it gets them."""

    def __init__(self, batch: PairBatch) -> None:
        self._batch = batch

    @cached_property
    def sources(self) -> Units:
        """Words, then EOS."""
        return _units(self._batch.source_word_pieces, self._batch.source_lengths.cpu().numpy() - 1)

    @cached_property
    def outputs(self) -> Units:
        """Words, then EOS."""
        return _units(self._batch.target_word_pieces, self._batch.target_lengths.cpu().numpy() - 1)

    @cached_property
    def inputs(self) -> Units:
        """BOS, then words."""
        return _units(self._batch.target_word_pieces, None)


class Frame:
    """One kind of attention in a batch: rows are queries, columns keys.

    Queries belong together whose input is one word, or in cross-attention those that predict it.
    """

    def __init__(self, kind: Kind, batch: PairBatch, units: BatchUnits | None = None) -> None:
        self.kind: Kind = kind
        self.is_causal = kind == "decoder"
        self.batch = batch
        self._units = units or BatchUnits(batch)
        self.query_lengths = batch.source_lengths if kind == "encoder" else batch.target_lengths  # [B]
        self.key_lengths = batch.target_lengths if kind == "decoder" else batch.source_lengths  # [B]
        self.num_queries = batch.source.shape[1] if kind == "encoder" else batch.target_in.shape[1]
        self.num_keys = batch.target_in.shape[1] if kind == "decoder" else batch.source.shape[1]

    @cached_property
    def valid_queries(self) -> Tensor:
        """``[B, Tq]``: False at padding."""
        return torch.arange(self.num_queries, device=self.query_lengths.device) < self.query_lengths[:, None]

    @property
    def query_units(self) -> Units:
        """Which queries belong together."""
        by_kind = {"encoder": "sources", "decoder": "inputs", "cross": "outputs"}
        return getattr(self._units, by_kind[self.kind])

    @property
    def key_units(self) -> Units:
        """Which keys belong together."""
        return self._units.inputs if self.kind == "decoder" else self._units.sources


def _units(words: WordPieces, lengths: NDArray[np.int64] | None) -> Units:
    """Words, and behind them as one unit more the piece at a sentence's length; without lengths, BOS before them.

    Pieces move up by one then. A word without pieces (all its characters are unknown) is in no weight: it is left out.
    """
    sizes = np.diff(words.starts)
    is_there = sizes > 0
    num_before = np.concatenate([[0], np.cumsum(is_there)])[words.words]  # of words, before each sentence
    if lengths is None:
        places, from_piece, pieces = num_before[:-1], words.starts[words.words[:-1]], words.pieces + 1
    else:
        places, from_piece, pieces = num_before[1:], words.starts[words.words[1:]], words.pieces
    return Units(
        num_before + np.arange(len(num_before)),
        ends_of(np.insert(sizes[is_there], places, 1)),
        np.insert(pieces, from_piece, 0 if lengths is None else lengths),
    )
