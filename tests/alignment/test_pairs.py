"""Sentence pairs on their way through a model: windows, batches by length, and the words of pieces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.model.folders import text_model

from rela.alignment.pairs import EncodedPair, PairBatch, Side, by_length, encode_pairs, windows
from rela.text.vocabulary import BOS, EOS, PAD
from rela.text.worded import Wording


def pair(source: int, target: int) -> EncodedPair:
    return EncodedPair(1, Side([], [5] * source, []), Side([], [6] * target, []))


@pytest.mark.parametrize(
    ("tokenised", "words"), [(False, ["The", "dog", ",", "東京's"]), (True, ["The", "dog,", "東京's"])]
)
def test_pieces_cover_their_words(tokenised: bool, words: list[str]):
    _, sides = text_model()
    (found,) = encode_pairs(sides, [(7, "The dog, 東京's", "läuft 🐕!")], Wording(tokenised=tokenised))
    assert found.line == 7
    assert found.source.words == words
    assert found.source.ids == sides.source.encode("The dog, 東京's")
    for word, pieces in zip(found.source.words, found.source.word_pieces, strict=True):
        assert word in "".join(sides.source.decode([found.source.ids[piece] for piece in pieces]))


def test_windows():
    assert list(windows(range(5), 2)) == [[0, 1], [2, 3], [4]]  # pyright: ignore[reportArgumentType]
    assert list(windows([], 2)) == []


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20))), st.integers(1, 60))
def test_batches_have_every_pair_once_within_bounds(lengths: list[tuple[int, int]], places: int):
    window = [pair(*sizes) for sizes in lengths]
    batches = list(by_length(window, places))
    assert sorted(place for batch in batches for place in batch) == list(range(len(window)))
    for batch in batches:
        longest = max(max(lengths[place]) + 1 for place in batch)
        assert len(batch) == 1 or len(batch) * longest <= places


def test_tensors():
    batch = PairBatch([pair(2, 1), pair(0, 3)])
    assert batch.source.tolist() == [[5, 5, EOS], [EOS, PAD, PAD]]
    assert batch.target_in.tolist() == [[BOS, 6, PAD, PAD], [BOS, 6, 6, 6]]
    assert batch.target_out.tolist() == [[6, EOS, PAD, PAD], [6, 6, 6, EOS]]
    assert (batch.source_lengths.tolist(), batch.target_lengths.tolist()) == ([3, 1], [2, 4])


def test_word_maps():
    side = Side(["a", "b"], [5, 6, 7], [[0, 1], [1]])
    batch = PairBatch([EncodedPair(1, side, side), pair(1, 1)])
    for found in (batch.source_words, batch.target_words):
        assert found[0].tolist() == [[1, 0], [1, 1], [0, 0], [0, 0]]
        assert not found[1].any()
