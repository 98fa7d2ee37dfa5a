"""Batches: every pair once an epoch, little padding, and a stream that can be taken up anywhere."""

import itertools
import tracemalloc
from dataclasses import asdict
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.text.stores import random_split, sentences, split

from rela.text.batches import (
    Batch,
    BatchOptions,
    BatchStream,
    Position,
    load_batch,
    make_batches,
    pad_batch,
    pad_rows,
)
from rela.text.store import Sentences, Split
from rela.text.subwords import Subwords
from rela.text.vocabulary import BOS, EOS, PAD

LENGTHS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=60)
TOKENS = st.integers(1, 120)


def split_of(lengths: list[tuple[int, int]]) -> Split:
    return split([source for source, _ in lengths], [target for _, target in lengths])


def epoch(stream: BatchStream) -> list[Batch]:
    """All batches up to the end of an epoch."""
    number, batches = stream.position.epoch, [next(stream)]
    while stream.position.epoch == number:
        batches.append(next(stream))
    return batches


def order(stream: BatchStream, count: int) -> list[list[int]]:
    return [batch.indices.tolist() for batch in itertools.islice(stream, count)]


def same(left: Batch, right: Batch) -> bool:
    return all(np.array_equal(one, other) for one, other in zip(left, right, strict=True))


@cache
def few_merges() -> Subwords:
    return Subwords.train(["abc abc abd"], 4)


class TestStream:
    @given(LENGTHS, TOKENS, st.integers(0, 5))
    def test_every_pair_once_an_epoch(self, lengths: list[tuple[int, int]], tokens: int, seed: int) -> None:
        stream = BatchStream(split_of(lengths), BatchOptions(tokens=tokens, seed=seed))
        for _ in range(3):
            indices = [index for batch in epoch(stream) for index in batch.indices]
            assert sorted(indices) == list(range(len(lengths)))

    def test_every_pair_once_with_many_pools(self) -> None:
        stream = BatchStream(random_split(3000), BatchOptions(tokens=64))
        for _ in range(2):
            batches = epoch(stream)
            assert sorted(index for batch in batches for index in batch.indices) == list(range(3000))
            assert len(batches) > 1000

    @given(LENGTHS, TOKENS, st.integers(1, 50))
    def test_the_limit_of_tokens(self, lengths: list[tuple[int, int]], tokens: int, max_pieces: int) -> None:
        options = BatchOptions(tokens=tokens, max_pieces=max_pieces)
        kept = [place for place, pair in enumerate(lengths) if max(pair) <= max_pieces]
        if not kept:
            with pytest.raises(ValueError, match="expected at least one pair of at most"):
                BatchStream(split_of(lengths), options)
            return
        stream = BatchStream(split_of(lengths), options)
        assert (stream.num_pairs, stream.num_left_out) == (len(kept), len(lengths) - len(kept))
        batches = epoch(stream)
        assert sorted(index for batch in batches for index in batch.indices) == kept
        for batch in batches:
            assert len(batch.indices) == 1 or max(batch.source.size, batch.target_out.size) <= tokens
            assert max(batch.source.shape[1], batch.target_out.shape[1]) <= max_pieces + 1

    @settings(max_examples=50)
    @given(LENGTHS, TOKENS, st.integers(0, 40), st.booleans())
    def test_restored_anywhere(self, lengths: list[tuple[int, int]], tokens: int, after: int, dropout: bool) -> None:
        options = BatchOptions(tokens=tokens, subword_dropout=0.3 if dropout else 0)
        subwords = few_merges()
        text = split_of(lengths)
        for side in text:  # ids of bytes
            side.tokens[:] = side.tokens % 50 + 3
        first = BatchStream(text, options, (subwords, subwords))
        for _ in range(after):
            next(first)
        saved = Position(**asdict(first.position))
        second = BatchStream(text, options, (subwords, subwords), saved)
        assert all(same(next(first), next(second)) for _ in range(10))
        second.position = saved
        third = BatchStream(text, options, (subwords, subwords), saved)
        assert all(same(next(second), next(third)) for _ in range(3))
        assert first.position != saved

    def test_dropout_of_merges_does_not_cut(self) -> None:
        """A sentence that would get too many pieces by it stays as it was prepared."""
        subwords = few_merges()
        ids = subwords.encode("abc abd abc")
        side = Sentences(np.array(ids * 4), np.arange(0, 5 * len(ids), len(ids)))
        options = BatchOptions(tokens=300, max_pieces=len(ids), subword_dropout=0.999)
        for batch in epoch(BatchStream(Split(side, side), options, (subwords, subwords))):
            assert batch.source[:, :-1].tolist() == [ids] * 4

    def test_restored_in_any_pool(self) -> None:
        text, options = random_split(2000), BatchOptions(tokens=50)
        stream = BatchStream(text, options)
        positions = [stream.position]
        batches: list[list[int]] = []
        for _ in range(1500):
            batches.append(next(stream).indices.tolist())
            positions.append(stream.position)
        assert len({position.pool for position in positions}) > 3
        for place in range(0, 1500, 97):
            expected = batches[place : place + 20]
            assert order(BatchStream(text, options, position=positions[place]), len(expected)) == expected

    def test_seeds_and_epochs_differ(self) -> None:
        text = random_split(500)
        one = BatchStream(text, BatchOptions(tokens=200, seed=1))
        again = BatchStream(text, BatchOptions(tokens=200, seed=1))
        other = BatchStream(text, BatchOptions(tokens=200, seed=2))
        first = [batch.indices.tolist() for batch in epoch(one)]
        assert first == [batch.indices.tolist() for batch in epoch(again)]
        assert first != [batch.indices.tolist() for batch in epoch(other)]
        assert first != [batch.indices.tolist() for batch in epoch(one)]

    def test_lengths_come_in_no_order(self) -> None:
        widths = [
            batch.target_out.shape[1] for batch in epoch(BatchStream(random_split(2000), BatchOptions(tokens=500)))
        ]
        assert abs(np.corrcoef(widths, np.arange(len(widths)))[0, 1]) < 0.3

    @pytest.mark.parametrize("position", [Position(0, 0, 10**6), Position(0, 50, 0), Position(1, 0, -1)])
    def test_a_position_of_another_stream(self, position: Position) -> None:
        stream = BatchStream(random_split(20), BatchOptions(tokens=50), position=position)
        with pytest.raises(ValueError, match="expected a position in the batches of this stream, got Position"):
            next(stream)

    def test_an_empty_split(self) -> None:
        with pytest.raises(ValueError, match="expected at least one pair to train on, got an empty split"):
            BatchStream(split([], []), BatchOptions(tokens=10))

    def test_memory_of_an_epoch(self) -> None:
        count = 1_000_000
        offsets = np.arange(0, 20 * count + 1, 20)
        side = Sentences(np.broadcast_to(np.uint16(9), 20 * count), offsets)
        stream = BatchStream(Split(side, side), BatchOptions(tokens=4096))
        tracemalloc.start()
        next(stream)
        held, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert held < 6 * count  # four bytes a pair, and one pool
        assert peak < 15 * count


class TestOptions:
    @pytest.mark.parametrize(
        ("name", "value"),
        [("tokens", 0), ("max_pieces", 0), ("seed", -1), ("subword_dropout", 1.5), ("subword_dropout", float("nan"))],
    )
    def test_values(self, name: str, value: float) -> None:
        with pytest.raises(ValueError, match=rf"{name}: expected .*, got {value}"):
            BatchOptions(**{"tokens": 10, name: value})  # pyright: ignore[reportArgumentType]

    def test_dropout_needs_encodings(self) -> None:
        with pytest.raises(ValueError, match="subword_dropout: expected the encodings of both sides as well"):
            BatchStream(split([1], [1]), BatchOptions(tokens=10, subword_dropout=0.1))


class TestDropout:
    def test_each_epoch_draws_anew_and_the_text_stays(self) -> None:
        subwords = Subwords.train(["das alte Haus"] * 2, 40)
        ids = subwords.encode("das alte Haus")
        side = Sentences(np.array(ids * 3, np.uint16), np.arange(4) * len(ids))
        options = BatchOptions(tokens=1000, subword_dropout=0.5)
        stream = BatchStream(Split(side, side), options, (subwords, subwords))
        seen: set[tuple[int, ...]] = set()
        for batch in itertools.islice(stream, 6):
            for row in (*batch.source.tolist(), *batch.target_out.tolist()):
                assert subwords.decode(row) == "das alte Haus"
                seen.add(tuple(index for index in row if index not in (PAD, EOS)))
        assert len(seen) > 10


class TestPadding:
    def test_frames(self) -> None:
        rows = [np.array([5, 6, 7]), np.array([8]), np.array([], np.int64)]
        batch = pad_batch(rows, rows[::-1], np.array([4, 2, 0]), max_pieces=2)
        assert batch.source.tolist() == [[5, 6, EOS], [8, EOS, PAD], [EOS, PAD, PAD]]
        assert batch.target_in.tolist() == [[BOS, PAD, PAD], [BOS, 8, PAD], [BOS, 5, 6]]
        assert batch.target_out.tolist() == [[EOS, PAD, PAD], [8, EOS, PAD], [5, 6, EOS]]
        assert batch.indices.tolist() == [4, 2, 0]
        assert batch.num_tokens == 1 + 2 + 3

    def test_rows(self) -> None:
        assert pad_rows([np.array([4])], before=BOS, after=EOS).tolist() == [[BOS, 4, EOS]]
        assert pad_rows([np.array([4]), np.array([], np.int64)]).tolist() == [[4], [PAD]]

    def test_batches_read_from_the_split(self) -> None:
        batch = load_batch(split([1, 2, 3], [2, 1, 0]), np.array([2, 0]), max_pieces=2)
        assert batch.source.tolist() == [[12, 12, EOS], [10, EOS, PAD]]
        assert batch.target_out.tolist() == [[EOS, PAD, PAD], [10, 10, EOS]]
        assert batch.source.dtype == batch.target_in.dtype == np.int64

    @pytest.mark.parametrize("side", [0, 1])
    @pytest.mark.parametrize("dropout", [0.0, 0.1])
    def test_ids_that_the_vocabulary_does_not_have(self, side: int, dropout: float) -> None:
        subwords = few_merges()
        good, wrong = (
            Sentences(np.array([3, 4, last], np.uint16), np.array([0, 1, 3]), name=name, size=subwords.size)
            for last, name in ((subwords.size - 1, "good"), (subwords.size, "a/train.source"))
        )
        text = Split(*((wrong, good) if side == 0 else (good, wrong)))
        stream = BatchStream(text, BatchOptions(tokens=20, subword_dropout=dropout), (subwords, subwords))
        message = rf"^a/train\.source\.tokens: expected ids from 0 to {subwords.size - 1}, got {subwords.size};"
        with pytest.raises(ValueError, match=message):
            next(stream)
        assert len(next(BatchStream(Split(good, good), stream.options, (subwords, subwords))).indices) == 2

    def test_share(self) -> None:
        assert BatchStream(split([3] * 50, [5] * 50), BatchOptions(tokens=60)).padding_share() == 0
        assert BatchStream(split([0, 9], [9, 9]), BatchOptions(tokens=100)).padding_share() == pytest.approx(9 / 40)

    def test_little_padding_on_text(self) -> None:
        text, options = random_split(20_000), BatchOptions(tokens=4096)
        share = BatchStream(text, options).padding_share()
        assert share < 0.06
        batches = epoch(BatchStream(text, options))
        places = sum(batch.source.size + batch.target_out.size for batch in batches)
        filled = sum(int((batch.source != PAD).sum()) + batch.num_tokens for batch in batches)
        assert share == pytest.approx(1 - filled / places, abs=1e-12)  # fewer than ten pools: all of them
        at_random = [sentences_padding(text, part) for part in np.array_split(np.arange(20_000), 200)]
        assert share < np.mean(at_random) / 8


def sentences_padding(text: Split, indices: np.ndarray) -> float:
    lengths = text.target.lengths(indices) + 1
    return 1 - float(lengths.sum()) / (int(lengths.max()) * len(lengths))


def test_make_batches_of_nothing() -> None:
    assert make_batches(split([1], [1]), np.array([], np.int64), BatchOptions(tokens=10)) == []


def test_sentences_of_like_length_go_together() -> None:
    text = Split(sentences([1, 9, 1, 9]), sentences([1, 9, 1, 9]))
    batches = make_batches(text, np.array([3, 2, 1, 0]), BatchOptions(tokens=20))
    assert [batch.tolist() for batch in batches] == [[2, 0], [3, 1]]
