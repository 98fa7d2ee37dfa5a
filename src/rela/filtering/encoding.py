"""A window of sentence pairs as flat arrays, so that batches of it are made without a loop over sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rela.alignment.pairs import BATCH_PLACES, batches_of, ends_of
from rela.text.store import Tokenizers
from rela.text.vocabulary import BOS, EOS, PAD
from rela.text.words import split_words, words_of_pieces

Ints = NDArray[np.int64]


class Ragged(NamedTuple):
    """Rows of different length, one after the other: row ``i`` is ``values[ends[i]:ends[i + 1]]``."""

    values: Ints
    ends: Ints

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> Ragged:
        """Rows as they come."""
        ends = ends_of([len(row) for row in rows])
        return cls(np.fromiter((value for row in rows for value in row), np.int64, ends[-1]), ends)

    @property
    def lengths(self) -> Ints:
        """Of each row."""
        return np.diff(self.ends)

    def padded(self, places: Ints, width: int, fill: int, shift: int = 0) -> Ints:
        """These rows as an array ``[len(places), width]``; values begin at column ``shift``."""
        lengths = self.lengths[places]
        found = np.full((len(places), width), fill, np.int64)
        columns = np.arange(int(lengths.max(initial=0)))
        inside = columns < lengths[:, None]  # [B, longest]
        taken = self.values[(self.ends[places][:, None] + columns)[inside]]
        found[:, shift : shift + len(columns)][inside] = taken
        return found


class PaddedBatch(NamedTuple):
    """Some pairs of a window as padded ids: what a forced-decoding forward pass needs, and the words of the target."""

    places: Ints  # [B], in the window
    source: Ints  # [B, S], ends with EOS
    target_in: Ints  # [B, T], begins with BOS
    target_out: Ints  # [B, T], ends with EOS
    words: Ints  # [B, T]: to which word the piece in target_in belongs; -1: to none
    num_words: Ints  # [B]


@dataclass(frozen=True)
class EncodedWindow:
    """Pairs as pieces: ids of both sides, and for each target piece the word that it belongs to."""

    source: Ragged
    target: Ragged
    words: Ragged  # as long as target
    num_words: Ints

    @classmethod
    def encode(cls, tokenizers: Tokenizers, pairs: Sequence[tuple[str, str]]) -> EncodedWindow:
        """All pairs, whole."""
        source = Ragged.of(tokenizers.source.encode_batch([source for source, _ in pairs]))
        encoded = tokenizers.target.encode_batch_with_spans([target for _, target in pairs])
        words = [split_words(target) for _, target in pairs]
        target = Ragged.of([pieces.ids for pieces in encoded])
        belongs = words_of_pieces([pieces.spans for pieces in encoded], words)
        return cls(source, target, Ragged(belongs, target.ends), np.array([len(found) for found in words], np.int64))

    @property
    def longest(self) -> Ints:
        """Pieces of the longer side of each pair."""
        return np.maximum(self.source.lengths, self.target.lengths)

    def batches(self, kept: Ints, size: int = BATCH_PLACES) -> Iterator[PaddedBatch]:
        """The pairs at these places in batches of like length: a function of the window and of ``size`` alone."""
        source, target = self.source.lengths[kept] + 1, self.target.lengths[kept] + 1
        for chosen in batches_of(list(zip(target.tolist(), source.tolist(), strict=True)), size):
            yield self._padded(kept[np.array(chosen, np.int64)])

    def _padded(self, places: Ints) -> PaddedBatch:
        source_width = int(self.source.lengths[places].max()) + 1
        target_width = int(self.target.lengths[places].max()) + 1
        rows = np.arange(len(places))
        source = self.source.padded(places, source_width, PAD)
        source[rows, self.source.lengths[places]] = EOS
        target_in = self.target.padded(places, target_width, PAD, shift=1)
        target_in[:, 0] = BOS
        target_out = self.target.padded(places, target_width, PAD)
        target_out[rows, self.target.lengths[places]] = EOS
        words = self.words.padded(places, target_width, -1, shift=1)
        return PaddedBatch(places, source, target_in, target_out, words, self.num_words[places])
