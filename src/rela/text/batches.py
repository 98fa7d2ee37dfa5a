"""Batches by target tokens: sentences of like length together, in an order that a seed decides.

Everything about a batch follows from the seed and its place, so the state of a stream is three numbers, and a stream
that is restored from them goes on exactly as the first one would have.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rela.text.store import Sentences, Split
from rela.text.subwords import Subwords
from rela.text.vocabulary import BOS, EOS, PAD

_POOL_BATCHES: Final = 200
"""Batches that are sorted by length together. Large enough for little padding, small enough to keep memory constant."""

_CHUNK: Final = 2**20

Ids = NDArray[np.int64]


class Batch(NamedTuple):
    """Padded ids. The source ends with EOS; of the target there is what goes in, BOS first, and what must come out."""

    source: Ids  # [B, S]
    target_in: Ids  # [B, T]
    target_out: Ids  # [B, T]
    indices: NDArray[np.int64]  # [B], places in the split

    @property
    def num_tokens(self) -> int:
        """Target tokens, EOS among them and padding not: what losses are divided by."""
        return int((self.target_out != PAD).sum())


@dataclass(frozen=True)
class Position:
    """How far a stream has come: all of its state."""

    epoch: int = 0
    pool: int = 0
    batch: int = 0


@dataclass(frozen=True, kw_only=True)
class BatchOptions:
    """How batches are made.

    Attributes:
        tokens: at most this many target places, padding among them, in a batch (and source places alike).
        max_pieces: pairs with a longer side are left out of a stream.
        seed: decides the order.
        subword_dropout: probability of leaving out a merge; 0 takes the pieces as they were prepared. With it,
            sentences have more pieces than those that ``tokens`` counts.
    """

    tokens: int
    max_pieces: int = 256
    seed: int = 1
    subword_dropout: float = 0.0

    def __post_init__(self) -> None:
        for name, least in (("tokens", 1), ("max_pieces", 1), ("seed", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}: expected at least {least}, got {getattr(self, name)}")
        if not 0 <= self.subword_dropout <= 1:
            raise ValueError(f"subword_dropout: expected 0 to 1, got {self.subword_dropout}")


class BatchStream:
    """An endless stream of batches, epoch after epoch. ``position`` may be saved after any batch and set again."""

    def __init__(
        self,
        split: Split,
        options: BatchOptions,
        subwords: tuple[Subwords, Subwords] | None = None,
        position: Position | None = None,
    ) -> None:
        if len(split) == 0:
            raise ValueError("expected at least one pair to train on, got an empty split")
        if options.subword_dropout > 0 and subwords is None:
            raise ValueError("subword_dropout: expected the encodings of both sides as well")
        self._split, self.options, self._subwords = split, options, subwords
        self._is_kept = _short_enough(split, options.max_pieces)
        self.num_left_out = int((~self._is_kept).sum())
        """Pairs of an epoch that have too many pieces."""
        if self.num_left_out == len(split):
            raise ValueError(
                f"max_pieces: expected at least one pair of at most {options.max_pieces} pieces a side, got none among "
                f"{len(split):,}; choose a greater number"
            )
        self.position = Position() if position is None else position
        self._order: tuple[int, NDArray[np.integer[Any]]] | None = None  # an epoch and its order
        self._pool: tuple[tuple[int, int], list[NDArray[np.int64]]] | None = None
        self._pool_size = _pool_size(split, options)

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        epoch, pool, place = self.position.epoch, self.position.pool, self.position.batch
        batches = self._batches(epoch, pool)
        if not 0 <= place < len(batches):
            raise ValueError(
                f"expected a position in the batches of this stream, got {self.position}; it was saved with other "
                "options or another corpus"
            )
        batch = self._load(batches[place], epoch)
        if place + 1 < len(batches):
            self.position = Position(epoch, pool, place + 1)
        elif (pool + 1) * self._pool_size < self.num_pairs:
            self.position = Position(epoch, pool + 1)
        else:
            self.position = Position(epoch + 1)
        return batch

    @property
    def num_pairs(self) -> int:
        """Pairs of an epoch."""
        return len(self._split) - self.num_left_out

    def padding_share(self) -> float:
        """The share of target and source places in the first batches that are padding: a sample of the first epoch."""
        order = _epoch_order(self._is_kept, self.options.seed, 0)[: 10 * self._pool_size].astype(np.int64)
        places = filled = 0
        for start in range(0, len(order), self._pool_size):
            for batch in make_batches(self._split, order[start : start + self._pool_size], self.options):
                for side in self._split:
                    lengths = side.lengths(batch) + 1
                    places += int(lengths.max()) * len(lengths)
                    filled += int(lengths.sum())
        return 1 - filled / places

    def _batches(self, epoch: int, pool: int) -> list[NDArray[np.int64]]:
        if self._pool is None or self._pool[0] != (epoch, pool):
            if self._order is None or self._order[0] != epoch:
                self._order = None  # two at a time would be twice the memory
                self._order = (epoch, _epoch_order(self._is_kept, self.options.seed, epoch))
            indices = self._order[1][pool * self._pool_size : (pool + 1) * self._pool_size].astype(np.int64)
            batches = make_batches(self._split, indices, self.options)
            shuffle = np.random.default_rng((self.options.seed, epoch, pool, 1)).permutation(len(batches))
            self._pool = ((epoch, pool), [batches[i] for i in shuffle])
        return self._pool[1]

    def _load(self, indices: NDArray[np.int64], epoch: int) -> Batch:
        dropout = self.options.subword_dropout
        if dropout == 0 or self._subwords is None:
            return load_batch(self._split, indices, self.options.max_pieces)
        sides: list[list[NDArray[np.int64]]] = []
        for number, (side, subwords) in enumerate(zip(self._split, self._subwords, strict=True)):
            drawn: list[NDArray[np.int64]] = []
            for index in indices:
                generator = np.random.default_rng((self.options.seed, epoch, int(index), number))
                side.check(ids := side[index])
                text = subwords.decode(ids.tolist())
                pieces = np.array(subwords.encode_with_dropout(text, dropout, generator), np.int64)
                fits = len(pieces) <= self.options.max_pieces
                drawn.append(pieces if fits else ids.astype(np.int64))  # whole rather than dropped and cut
            sides.append(drawn)
        return pad_batch(sides[0], sides[1], indices, self.options.max_pieces)


def make_batches(split: Split, indices: NDArray[np.int64], options: BatchOptions) -> list[NDArray[np.int64]]:
    """Group sentences of like length. The order of ``indices`` decides between sentences of the same lengths."""
    source = np.minimum(split.source.lengths(indices), options.max_pieces) + 1
    target = np.minimum(split.target.lengths(indices), options.max_pieces) + 1
    longer = np.maximum(source, target)
    # Sentences whose longer side is alike, from those with a short source to those with a short target and back again:
    # neighbours are alike on both sides, also where the longer side grows by one.
    order = np.lexsort((np.where(longer % 2, target - source, source - target), longer))
    batches: list[NDArray[np.int64]] = []
    start = 0
    for place, length in enumerate(longer[order].tolist()):  # ascending: the last of a batch is its longest
        if (place - start + 1) * length > options.tokens and place > start:
            batches.append(indices[order[start:place]])
            start = place
    if len(order):
        batches.append(indices[order[start:]])
    return batches


def load_batch(split: Split, indices: NDArray[np.int64], max_pieces: int) -> Batch:
    """Read these sentences and pad them."""
    batch = pad_batch(_read(split.source, indices), _read(split.target, indices), indices, max_pieces)
    split.source.check(batch.source)
    split.target.check(batch.target_out)
    return batch


def _read(sentences: Sentences, indices: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    return [sentences[index].astype(np.int64) for index in indices]


def pad_batch(
    sources: list[NDArray[np.int64]], targets: list[NDArray[np.int64]], indices: NDArray[np.int64], max_pieces: int
) -> Batch:
    """Cut, frame with BOS and EOS, and pad."""
    sources = [ids[:max_pieces] for ids in sources]
    targets = [ids[:max_pieces] for ids in targets]
    return Batch(pad_rows(sources, after=EOS), pad_rows(targets, before=BOS), pad_rows(targets, after=EOS), indices)


def pad_rows(rows: list[NDArray[np.int64]], *, before: int | None = None, after: int | None = None) -> Ids:
    """Rows of different length as one array, with an id before or after each."""
    first = 0 if before is None else 1
    extra = first + (0 if after is None else 1)
    padded = np.full((len(rows), max(len(row) for row in rows) + extra), PAD, np.int64)
    for place, row in enumerate(rows):
        if before is not None:
            padded[place, 0] = before
        padded[place, first : first + len(row)] = row
        if after is not None:
            padded[place, first + len(row)] = after
    return padded


def _short_enough(split: Split, max_pieces: int) -> NDArray[np.bool_]:
    """Which pairs have at most so many pieces on either side; looked at in chunks, to keep memory constant."""
    found = np.ones(len(split), np.bool_)
    for start in range(0, len(split), _CHUNK):
        places = np.arange(start, min(start + _CHUNK, len(split)))
        found[places] = np.maximum(split.source.lengths(places), split.target.lengths(places)) <= max_pieces
    return found


def _epoch_order(is_kept: NDArray[np.bool_], seed: int, epoch: int) -> NDArray[np.integer[Any]]:
    """All kept places in the order of an epoch: 4 bytes for each, unless there are more than 2 billion."""
    order = np.arange(len(is_kept), dtype=np.int32 if len(is_kept) <= 2**31 else np.int64)
    np.random.default_rng((seed, epoch)).shuffle(order)
    return order if is_kept.all() else order[is_kept[order]]


def _pool_size(split: Split, options: BatchOptions) -> int:
    mean = max(1.0, len(split.target.tokens) / len(split) + 1)
    return max(1, int(_POOL_BATCHES * options.tokens / mean))
