"""Weights between words and links of a batch: the same as loops over each sentence."""

import numpy as np
import pytest
import torch
from hypothesis import given
from tests.alignment.made import Made, as_links, made_batches

from rela.alignment import naive
from rela.alignment.batched import RULES, SHIFTS, link_words, link_words_in_all_ways, word_weights
from rela.alignment.pairs import EncodedPair, PairBatch, Side

BY_RULE = {"merged": naive.merged_links, "any": naive.any_links}


def one_pair(source: list[list[int]], target: list[list[int]], pieces: tuple[int, int]) -> PairBatch:
    sides = [
        Side([str(place) for place in range(len(words))], [5] * count, words)
        for words, count in zip((source, target), pieces, strict=True)
    ]
    return PairBatch([EncodedPair(1, *sides)])


@given(made=made_batches())
def test_word_weights_equal_loops(made: Made):
    for shift in SHIFTS:
        found = word_weights(torch.from_numpy(made.padded(fill=7)), made.batch, shift).numpy()
        for row, (pair, weights) in enumerate(zip(made.batch.pairs, made.weights, strict=True)):
            for head in range(2):
                words = pair.source.word_pieces, pair.target.word_pieces
                expected = naive.word_weights(weights[head], *words, shifted=shift == "shifted")
                inside = found[row, head, : expected.shape[0], : expected.shape[1]]
                np.testing.assert_allclose(inside, expected, rtol=1e-6)
                assert np.count_nonzero(found[row, head]) == np.count_nonzero(inside)


@given(made=made_batches())
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("shift", SHIFTS)
def test_links_equal_loops(made: Made, shift: str, rule: str):
    found = link_words(torch.from_numpy(made.padded(fill=7)), made.batch, shift, rule).numpy()  # pyright: ignore[reportArgumentType]
    for row, (pair, weights) in enumerate(zip(made.batch.pairs, made.weights, strict=True)):
        for head in range(2):
            words = pair.source.word_pieces, pair.target.word_pieces
            expected = BY_RULE[rule](weights[head], *words, shifted=shift == "shifted")
            assert as_links(found[row, head]) == expected


@given(made=made_batches())
def test_all_ways_equal_each_way(made: Made):
    weights = torch.from_numpy(made.padded(fill=7))
    ways = list(link_words_in_all_ways(weights, made.batch))
    assert {(shift, rule) for shift, rule, _ in ways} == {(shift, rule) for shift in SHIFTS for rule in RULES}
    for shift, rule, links in ways:
        assert torch.equal(links, link_words(weights, made.batch, shift, rule))


#                            source piece 0, 1, 2, EOS
BY_HAND = torch.tensor([[[[1, 2, 4, 100], [8, 16, 32, 200], [64, 128, 256, 400.0]]]])


def test_by_hand():
    batch = one_pair([[0, 1], [1, 2]], [[0, 1]], (3, 2))  # source piece 1 straddles two words
    assert word_weights(BY_HAND, batch, "normal").tolist() == [[[[13.5, 27]]]]
    assert word_weights(BY_HAND, batch, "shifted").tolist() == [[[[108, 216]]]]


def test_the_last_word_shifted_is_the_row_that_predicts_eos():
    batch = one_pair([[0], [1], [2]], [[0], [1]], (3, 2))
    assert word_weights(BY_HAND, batch, "shifted")[0, 0, -1].tolist() == [64, 128, 256]


def test_the_rules_differ():
    #                 source pieces 0 1 2 EOS: the word of 1 and 2 has more weight than that of 0
    weights = torch.tensor([[[[0.4, 0.3, 0.2, 9], [0, 0, 0, 9.0]]]])
    batch = one_pair([[0], [1, 2]], [[0]], (3, 1))
    assert as_links(link_words(weights, batch, "normal", "merged")[0, 0].numpy()) == [(1, 0)]
    assert as_links(link_words(weights, batch, "normal", "any")[0, 0].numpy()) == [(0, 0)]
    assert not link_words(weights, batch, "shifted", "any").any()  # weight at EOS alone


def test_any_links_a_word_to_several():
    weights = torch.tensor([[[[1, 0, 0], [0, 1, 0], [0, 0, 0.0]]]])
    batch = one_pair([[0], [1]], [[0, 1]], (2, 2))
    assert as_links(link_words(weights, batch, "normal", "any")[0, 0].numpy()) == [(0, 0), (1, 0)]
    assert as_links(link_words(weights, batch, "normal", "merged")[0, 0].numpy()) == [(0, 0)]  # the first of equals


def test_a_piece_without_a_word_links_nothing():
    weights = torch.tensor([[[[5, 1, 0], [0, 0, 0.0]]]])
    batch = one_pair([[1]], [[0]], (2, 1))
    assert not link_words(weights, batch, "normal", "any").any()
    assert as_links(link_words(weights, batch, "normal", "merged")[0, 0].numpy()) == [(0, 0)]
