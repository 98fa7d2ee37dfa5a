"""Weights between pieces under forced decoding, and their merging to words."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.model.naive import NaiveTransformer
from tests.model.small import random_model, small_config

from rela.alignment.weights import PiecePair, Weights, cross_weights, word_weights
from rela.attention.multihead import MultiheadAttention

PAIRS = [PiecePair([5, 6, 7], [8, 9]), PiecePair([4], [11, 12, 13, 14]), PiecePair([9, 9, 3, 5, 7], [6])]


def naive_word_weights(
    weights: Weights, source_pieces: list[list[int]], target_pieces: list[list[int]], *, shifted: bool
) -> list[list[float]]:
    rows: list[list[float]] = []
    for target in target_pieces:
        row: list[float] = []
        for source in source_pieces:
            total = 0.0
            for t in target:
                for s in source:
                    total += float(weights[t + 1 if shifted else t, s])
            row.append(total / len(target) if target else 0.0)
        rows.append(row)
    return rows


class TestWordWeights:
    @given(st.data())
    def test_equals_loops(self, data: st.DataObject):
        num_source, num_target = data.draw(st.integers(0, 6)), data.draw(st.integers(0, 6))
        seed = data.draw(st.integers(0, 99))
        weights = np.random.default_rng(seed).random((num_target + 1, num_source + 1), np.float32)

        def words(count: int) -> list[list[int]]:  # pieces may be in several words, in one, or in none
            pieces = st.lists(st.integers(0, count - 1), unique=True, max_size=count) if count else st.just([])
            return data.draw(st.lists(pieces, max_size=4))

        source, target = words(num_source), words(num_target)
        for shifted in (False, True):
            ours = word_weights(weights, source, target, shifted=shifted)
            theirs = naive_word_weights(weights, source, target, shifted=shifted)
            assert ours.shape == (len(target), len(source))
            assert ours.dtype == np.float32
            np.testing.assert_allclose(ours, np.array(theirs, np.float32).reshape(ours.shape), rtol=1e-5, atol=1e-6)

    def test_by_hand(self):
        #                  source piece 0, 1, 2, EOS
        weights = np.array([[1, 2, 4, 100], [8, 16, 32, 200], [64, 128, 256, 400]], np.float32)
        source, target = [[0, 1], [1, 2]], [[0, 1]]  # piece 1 straddles two words
        np.testing.assert_array_equal(word_weights(weights, source, target, shifted=False), [[13.5, 27]])
        np.testing.assert_array_equal(word_weights(weights, source, target, shifted=True), [[108, 216]])

    def test_leading_dimensions(self):
        weights = np.random.default_rng(0).random((3, 2, 4, 5), np.float32)
        both = word_weights(weights, [[0], [1, 2]], [[0, 1], [2]], shifted=True)
        assert both.shape == (3, 2, 2, 2)
        np.testing.assert_array_equal(
            both[2, 1], word_weights(weights[2, 1], [[0], [1, 2]], [[0, 1], [2]], shifted=True)
        )


class TestCrossWeights:
    @pytest.mark.parametrize("attention", ["softmax", "rela-g"])
    def test_shapes_and_sums(self, attention: str):
        model = random_model(small_config(attention))
        for pair, weights in zip(PAIRS, cross_weights(model, PAIRS), strict=True):
            assert weights.shape == (2, 4, len(pair.target) + 1, len(pair.source) + 1)
            assert weights.dtype == np.float32
            if attention == "softmax":  # padding has none of it
                np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-5)

    def test_equals_the_definition(self):
        """The first layer's cross weights, from the naive model's own parts."""
        model = random_model(small_config("softmax", decoder_layers=1)).double()
        pair = PAIRS[2]
        seen: list[torch.Tensor] = []

        class Watching(NaiveTransformer):
            def attention(  # the query and the memory of cross-attention, then the formula
                self, name: str, kind: str, x: torch.Tensor, memory: torch.Tensor, allowed: torch.Tensor
            ) -> torch.Tensor:
                if kind == "cross":
                    query, key, _ = self.weights[f"{name}.in_proj_weight"].split(16)
                    q_bias, k_bias, _ = self.weights[f"{name}.in_proj_bias"].split(16)
                    q, k = x[0] @ query.T + q_bias, memory[0] @ key.T + k_bias
                    seen.extend((q[:, h : h + 4] @ k[:, h : h + 4].T / 2).softmax(-1) for h in range(0, 16, 4))
                return super().attention(name, kind, x, memory, allowed)

        Watching(model).hidden(torch.tensor([[*pair.source, 2]]), torch.tensor([[1, *pair.target]]))
        expected = torch.stack(seen).detach().numpy()
        np.testing.assert_allclose(cross_weights(model, [pair])[0][0], expected, rtol=1e-6, atol=1e-7)

    @pytest.mark.parametrize("attention", ["softmax", "rela-g"])
    def test_any_company_gives_the_same(self, attention: str):
        model = random_model(small_config(attention)).double()
        for pair, weights in zip(PAIRS, cross_weights(model, PAIRS), strict=True):
            np.testing.assert_allclose(cross_weights(model, [pair])[0], weights, rtol=1e-5, atol=1e-7)

    def test_some_layers(self):
        model = random_model(small_config(decoder_layers=3))
        every = cross_weights(model, PAIRS)
        for layers in ([1], [0, 2]):
            for some, all_layers in zip(cross_weights(model, PAIRS, layers), every, strict=True):
                np.testing.assert_allclose(some, all_layers[layers], rtol=1e-4, atol=1e-5)

    def test_empty_sides_and_no_pairs(self):
        model = random_model(small_config())
        assert cross_weights(model, []) == []
        assert cross_weights(model, [PiecePair([], [])])[0].shape == (2, 4, 1, 1)

    def test_leaves_no_trace(self):
        model = random_model(small_config(attention_dropout=0.5)).train()
        first, second = cross_weights(model, PAIRS), cross_weights(model, PAIRS)
        np.testing.assert_array_equal(first[0], second[0])  # without dropout
        assert all(module.training for module in model.modules())
        seen: list[MultiheadAttention] = []
        with pytest.raises(IndexError):
            cross_weights(model, [PiecePair([99], [5])])  # no such piece
        handle = model.attentions()["cross"][0].register_observer(lambda module, _: seen.append(module))
        model(torch.tensor([[5, 2]]), torch.tensor([[1]]))
        handle.remove()
        assert len(seen) == 1
        assert model.training
