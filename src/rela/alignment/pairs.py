"""Sentence pairs on their way through a model under forced decoding: encoded, grouped by length, padded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, islice
from typing import Final, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rela.text.batches import pad_rows
from rela.text.subwords import PairEncoding, SideEncoding, Subwords
from rela.text.vocabulary import BOS, EOS
from rela.text.worded import Worded, Wording
from rela.text.words import pieces_of_words, split_words, word_texts

T = TypeVar("T")

WINDOW: Final = 2048
"""Pairs that are in memory together, to be grouped by length."""

BATCH_PLACES: Final = 2048
"""Source or target places in a batch, padding among them: its weights stay in the processor's cache."""


class Side(NamedTuple):
    """One sentence: its words, its pieces (without BOS and EOS), and for each word its pieces."""

    words: list[str]
    ids: list[int]
    word_pieces: list[list[int]]


class EncodedPair(NamedTuple):
    """Source and target, and the line they stand in, from 1."""

    line: int
    source: Side
    target: Side


def encode_side(subwords: SideEncoding, worded: Worded) -> Side:
    """The pieces of a text, and which of them belong to which of its words."""
    encoded = subwords.encode_with_spans(worded.text)
    return Side(worded.words, encoded.ids, pieces_of_words(encoded.spans, worded.spans))


def cut_side(side: Side, most_pieces: int) -> Side:
    """The first pieces. All words are there, but those beyond the cut have no pieces."""
    inside = [[piece for piece in pieces if piece < most_pieces] for pieces in side.word_pieces]
    return Side(side.words, side.ids[:most_pieces], inside)


def cut_pair(pair: EncodedPair, most_pieces: int) -> EncodedPair:
    """Both sides cut."""
    return EncodedPair(pair.line, cut_side(pair.source, most_pieces), cut_side(pair.target, most_pieces))


def decoded_side(subwords: Subwords, ids: Sequence[int]) -> Side:
    """Just these pieces, and the words of their text, which might be encoded in other pieces."""
    text, spans = subwords.decode_with_spans(ids)
    words = split_words(text)
    return Side(word_texts(text, words), list(ids), pieces_of_words(spans, words))


def encode_pairs(
    tokenizers: PairEncoding, pairs: Iterable[tuple[int, str, str]], wording: Wording | None = None
) -> Iterator[EncodedPair]:
    """Pairs of line, source and target, encoded one by one as they are asked for."""
    read = (wording or Wording()).read
    for line, source, target in pairs:
        sides = encode_side(tokenizers.source, read(source)), encode_side(tokenizers.target, read(target))
        yield EncodedPair(line, *sides)


def windows(pairs: Iterable[T], size: int = WINDOW) -> Iterator[list[T]]:
    """So many neighbours at a time."""
    iterator = iter(pairs)
    while window := list(islice(iterator, size)):
        yield window


def by_length(window: Sequence[EncodedPair], places: int = BATCH_PLACES) -> Iterator[list[int]]:
    """Batches: places of pairs of like length in a window, from short ones to long ones."""
    return batches_of([(len(pair.target.ids) + 1, len(pair.source.ids) + 1) for pair in window], places)


def batches_of(lengths: Sequence[tuple[int, int]], places: int = BATCH_PLACES) -> Iterator[list[int]]:
    """The same, for pairs of which only the lengths of target and source are known, BOS and EOS among them."""
    longest = (0, 0)
    batch: list[int] = []
    for place in sorted(range(len(lengths)), key=lambda place: (max(lengths[place]), lengths[place])):
        grown = (max(longest[0], lengths[place][0]), max(longest[1], lengths[place][1]))
        if batch and (len(batch) + 1) * max(grown) > places:
            yield batch
            batch, grown = [], lengths[place]
        batch.append(place)
        longest = grown
    if batch:
        yield batch


class WordPieces(NamedTuple):
    """The pieces of all words of a batch, one after the other.

    Word w has ``pieces[starts[w]:starts[w + 1]]``, and the words of sentence b are ``words[b]`` to ``words[b + 1]``.
    """

    words: NDArray[np.int64]
    starts: NDArray[np.int64]
    pieces: NDArray[np.int64]


class PairBatch:
    """Pairs as padded tensors: what a forced-decoding forward pass needs, and the maps from pieces to words.

    Queries of the decoder are ``target_in``: BOS, then the target's pieces. Keys of the source end with EOS.
    """

    def __init__(self, pairs: Sequence[EncodedPair], device: torch.device | str = "cpu") -> None:
        self.pairs = pairs
        self.device = device
        sources = [np.array(pair.source.ids, np.int64) for pair in pairs]
        targets = [np.array(pair.target.ids, np.int64) for pair in pairs]
        self.source = self._tensor(pad_rows(sources, after=EOS))  # [B, S]
        self.target_in = self._tensor(pad_rows(targets, before=BOS))  # [B, T]
        self.target_out = self._tensor(pad_rows(targets, after=EOS))  # [B, T]
        self.source_lengths = self._tensor(np.array([len(ids) + 1 for ids in sources]))  # [B], EOS among them
        self.target_lengths = self._tensor(np.array([len(ids) + 1 for ids in targets]))  # [B], BOS (or EOS) among them

    @property
    def most_source_words(self) -> int:
        """Of a sentence of the batch."""
        return max(len(pair.source.words) for pair in self.pairs)

    @property
    def most_target_words(self) -> int:
        """Of a sentence of the batch."""
        return max(len(pair.target.words) for pair in self.pairs)

    @cached_property
    def source_word_pieces(self) -> WordPieces:
        """The pieces of the words of ``source``."""
        return word_pieces([pair.source.word_pieces for pair in self.pairs])

    @cached_property
    def target_word_pieces(self) -> WordPieces:
        """The pieces of the words of ``target_out``."""
        return word_pieces([pair.target.word_pieces for pair in self.pairs])

    @cached_property
    def source_words(self) -> Tensor:
        """``[B, S, words]``: 1 where a source piece belongs to a word. EOS belongs to none."""
        return self._word_map([pair.source for pair in self.pairs], self.source.shape[1])

    @cached_property
    def target_words(self) -> Tensor:
        """``[B, T, words]``: 1 where a target piece, as ``target_out`` has them, belongs to a word."""
        return self._word_map([pair.target for pair in self.pairs], self.target_out.shape[1])

    def _word_map(self, sides: Sequence[Side], places: int) -> Tensor:
        found = np.zeros((len(sides), places, max(len(side.words) for side in sides)), np.float32)
        ones = [
            (row, piece, word)
            for row, side in enumerate(sides)
            for word, pieces in enumerate(side.word_pieces)
            for piece in pieces
        ]
        if ones:
            found[tuple(np.array(ones).T)] = 1
        return self._tensor(found)

    def _tensor(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(self.device)


def word_pieces(sentences: Sequence[Sequence[Sequence[int]]]) -> WordPieces:
    """Of sentences of words of pieces."""
    words = list(chain.from_iterable(sentences))
    pieces = np.fromiter(chain.from_iterable(words), np.int64)
    return WordPieces(
        ends_of([len(sentence) for sentence in sentences]), ends_of([len(word) for word in words]), pieces
    )


def ends_of(counts: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
    """0, and then how many there are up to each."""
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
