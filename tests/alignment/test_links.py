"""Links and soft weights of sentence pairs: in order, in any company, by any choice."""

from collections.abc import Iterator
from typing import Final
from unittest import mock

import numpy as np
import pytest
from tests.model.folders import WORDS, text_model

from rela.alignment import naive, pairs
from rela.alignment.choice import Choice
from rela.alignment.links import align, align_softly
from rela.alignment.pairs import EncodedPair, PairBatch, encode_pairs
from rela.alignment.weights import visit_cross_weights
from rela.model.transformer import Transformer

PAIRS: Final = [
    ("the dog runs", "der Hund läuft"),
    ("a cat, sleeps under the small house", "Katze"),
    ("dog", "ein Hund und noch ein Hund ."),
    ("the dog", ""),
    ("", "Hund"),
    ("  ", " "),
]
CHOICES: Final = [Choice(0, True), Choice(0, False), Choice(1, True, 2), Choice(1, False, 0, "any")]


def naive_weights(model: Transformer, pair: EncodedPair, choice: Choice) -> naive.Weights:
    seen: list[naive.Weights] = []
    visit_cross_weights(model, PairBatch([pair]), [choice.layer], lambda _, w: seen.append(w[0].double().numpy()))
    return seen[0].mean(0) if choice.head is None else seen[0][choice.head]


@pytest.mark.parametrize("attention", ["softmax", "rela-g"])
@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_equals_loops(attention: str, choice: Choice):
    model, sides = text_model(attention)
    encoded = list(encode_pairs(sides, ((line, *pair) for line, pair in enumerate(PAIRS, start=1))))
    hard, soft = list(align(model, sides, PAIRS, choice)), list(align_softly(model, sides, PAIRS, choice))
    for pair, links, weights in zip(encoded, hard, soft, strict=True):
        words = pair.source.word_pieces, pair.target.word_pieces
        by_pieces = naive_weights(model, pair, choice)
        find = naive.merged_links if choice.rule == "merged" else naive.any_links
        assert links.links == find(by_pieces, *words, shifted=choice.shifted)
        expected = naive.word_weights(by_pieces, *words, shifted=choice.shifted)
        np.testing.assert_allclose(weights.weights, expected, rtol=1e-4, atol=1e-6)
        assert links[:2] == weights[:2] == (pair.source.words, pair.target.words)


def test_every_choice_matters():
    model, sides = text_model()
    texts = [(" ".join(WORDS[place : place + 9]), " ".join(WORDS[9 - place : 18])) for place in range(9)]
    choices = [Choice(layer, shifted, head) for layer in (0, 1) for shifted in (True, False) for head in (None, 0, 3)]
    assert len({str(list(align(model, sides, texts, choice))) for choice in choices}) == len(choices)
    assert list(align(model, sides, texts)) == list(align(model, sides, texts, Choice(1, True)))


@pytest.mark.parametrize("window", [1, 4, 100])
@pytest.mark.parametrize("places", [1, 30, 10**9])
def test_batches_of_any_size(window: int, places: int):
    model, sides = text_model()
    expected = [next(align(model, sides, [pair])) for pair in PAIRS]
    with (
        mock.patch.object(pairs.windows, "__defaults__", (window,)),
        mock.patch.object(pairs.by_length, "__defaults__", (places,)),
    ):
        assert list(align(model, sides, PAIRS)) == expected


def test_a_stream_is_read_window_by_window():
    model, sides = text_model()
    read: list[int] = []

    def stream() -> Iterator[tuple[str, str]]:
        for place in range(100):
            read.append(place)
            yield "the dog", "der Hund"

    with mock.patch.object(pairs.windows, "__defaults__", (10,)):
        next(align(model, sides, stream()))
    assert len(read) == 10


def test_long_pairs():
    model, sides = text_model()
    assert len(list(align(model, sides, [("dog " * 300, "cat " * 300)] * 3))) == 3


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (Choice(-1, True), "layer: expected 0 to 1, got -1"),
        (Choice(2, True), "layer: expected 0 to 1, got 2"),
        (Choice(0, True, 4), "head: expected 0 to 3, or None for the mean over all, got 4"),
        (Choice(0, True, rule="all"), "rule: expected merged or any, got 'all'"),  # pyright: ignore[reportArgumentType]
    ],
)
def test_wrong_choices(choice: Choice, message: str):
    model, sides = text_model()
    with pytest.raises(ValueError, match=message):
        next(align(model, sides, PAIRS, choice))
