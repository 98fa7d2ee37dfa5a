"""Word links: the largest weight of each target word, from words of raw text."""

import random
from typing import Final
from unittest import mock

import numpy as np
import pytest
from tests.model.folders import WORDS, text_model

from rela.alignment import links as links_module
from rela.alignment.links import align, best_links, default_layer
from rela.alignment.weights import PiecePair, cross_weights, word_weights
from rela.text.words import Span, blank_separated, pieces_of_words, split_words, word_texts, words_of_pieces


class TestBestLinks:
    def test_the_largest_of_each_row(self):
        weights = np.array([[0.1, 0.7, 0.2], [0.5, 0.4, 0.3], [0, 0, 0.01]], np.float32)
        assert best_links(weights) == [(1, 0), (0, 1), (2, 2)]

    def test_a_null_row_links_nothing(self):
        assert best_links(np.array([[0, 0], [0, 0.5], [-0.1, -0.2]], np.float32)) == [(1, 1)]

    def test_equal_weights_link_the_first(self):
        assert best_links(np.array([[0.5, 0.5]], np.float32)) == [(0, 0)]

    @pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
    def test_no_words(self, shape: tuple[int, int]):
        assert best_links(np.zeros(shape, np.float32)) == []


class TestWords:
    def test_a_piece_over_two_words_belongs_to_both(self):
        pieces, words = [Span(0, 3), Span(3, 8), Span(8, 9)], [Span(0, 4), Span(5, 8)]
        assert words_of_pieces(pieces, words) == [[0], [0, 1], []]
        assert pieces_of_words(pieces, words) == [[0, 1], [1]]

    def test_equals_loops(self):
        draw = random.Random(0)
        for _ in range(200):
            text = "".join(draw.choice("ab .,-'é ") for _ in range(draw.randint(0, 12)))
            cuts = sorted(draw.sample(range(len(text) + 1), draw.randint(0, len(text))))
            pieces = [Span(a, b) for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
            for words in (split_words(text), blank_separated(text)):
                naive = [
                    [w for w, word in enumerate(words) if set(range(*word)) & set(range(*piece))] for piece in pieces
                ]
                assert words_of_pieces(pieces, words) == naive

    def test_pieces_of_a_real_tokenizer_cover_their_words(self):
        _, sides = text_model()
        text = "The dog, läuft under 東京's small-house 🐕!"
        encoded = sides.source.encode_with_spans(text)
        words = split_words(text)
        assert word_texts(text, words) == ["The", "dog", ",", "läuft", "under", "東京's", "small-house", "🐕", "!"]
        found = pieces_of_words(encoded.spans, words)
        assert all(found)
        for word, pieces in zip(words, found, strict=True):
            covered = {place for piece in pieces for place in range(*encoded.spans[piece])}
            assert set(range(*word)) <= covered


class TestAlign:
    PAIRS: Final = [
        ("the dog runs", "der Hund läuft"),
        ("a cat, sleeps under the small house", "Katze"),
        ("dog", "ein Hund und noch ein Hund ."),
        ("the dog", ""),
        ("", "Hund"),
        ("  ", " "),
    ]

    @pytest.mark.parametrize("attention", ["softmax", "rela-g"])
    @pytest.mark.parametrize("shifted", [True, False])
    def test_equals_the_parts(self, attention: str, shifted: bool):
        model, sides = text_model(attention)
        found = list(align(model, sides, self.PAIRS, shifted=shifted, layer=0))
        assert len(found) == len(self.PAIRS)
        for (source, target), alignment in zip(self.PAIRS, found, strict=True):
            s, t = sides.source.encode_with_spans(source), sides.target.encode_with_spans(target)
            weights = cross_weights(model, [PiecePair(s.ids, t.ids)])[0][0].mean(0)
            merged = word_weights(
                weights,
                pieces_of_words(s.spans, split_words(source)),
                pieces_of_words(t.spans, split_words(target)),
                shifted=shifted,
            )
            assert alignment.links == best_links(merged)
            assert alignment.source_words == word_texts(source, split_words(source))
            assert all(
                0 <= i < len(alignment.source_words) and 0 <= j < len(alignment.target_words)
                for i, j in alignment.links
            )
            assert len({j for _, j in alignment.links}) == len(alignment.links)

    def test_shifted_and_layer_matter(self):
        model, sides = text_model()
        pairs = [(" ".join(WORDS[place : place + 9]), " ".join(WORDS[9 - place : 18])) for place in range(9)]
        found = {
            (layer, shifted): list(align(model, sides, pairs, layer=layer, shifted=shifted))
            for layer in (0, 1)
            for shifted in (True, False)
        }
        assert len({str(alignments) for alignments in found.values()}) == 4
        assert list(align(model, sides, pairs)) == found[1, True]

    @pytest.mark.parametrize("places", [1, 60, 10**9])
    def test_batches_of_any_size(self, places: int):
        model, sides = text_model()
        expected = [next(align(model, sides, [pair])) for pair in self.PAIRS]
        sizes: list[int] = []

        def watch(*arguments: object) -> object:
            sizes.append(len(arguments[1]))  # pyright: ignore[reportArgumentType]
            return cross_weights(*arguments)  # pyright: ignore[reportArgumentType]

        with (
            mock.patch.object(links_module, "_BATCH_WEIGHTS", places),
            mock.patch.object(links_module, "cross_weights", watch),
        ):
            assert list(align(model, sides, self.PAIRS)) == expected
        assert sum(sizes) == len(self.PAIRS)
        assert len(sizes) == {1: 6, 10**9: 1}.get(places, len(sizes))

    def test_long_pairs_are_few_at_a_time(self):
        model, sides = text_model()
        assert len(list(align(model, sides, [("dog " * 300, "cat " * 300)] * 3))) == 3

    def test_wrong_layers(self):
        model, sides = text_model()
        assert default_layer(model) == 1
        for layer in (-1, 2):
            with pytest.raises(ValueError, match=f"layer: expected 0 to 1, got {layer}"):
                next(align(model, sides, self.PAIRS, layer=layer))
