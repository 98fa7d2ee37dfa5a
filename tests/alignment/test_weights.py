"""Cross-attention weights under forced decoding, of the layers that are asked for."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from tests.model.naive import NaiveTransformer
from tests.model.small import random_model, small_config

from rela.alignment.pairs import EncodedPair, PairBatch, Side
from rela.alignment.weights import visit_cross_weights
from rela.attention.heads import Heads
from rela.model.transformer import Transformer


def pair(source: list[int], target: list[int]) -> EncodedPair:
    return EncodedPair(1, Side([], source, []), Side([], target, []))


PAIRS = [pair([5, 6, 7], [8, 9]), pair([4], [11, 12, 13, 14]), pair([9, 9, 3, 5, 7], [6])]


def visited(
    model: Transformer, pairs: Sequence[EncodedPair], layers: Sequence[int] = (0, 1)
) -> dict[int, torch.Tensor]:
    seen: dict[int, torch.Tensor] = {}
    visit_cross_weights(model, PairBatch(pairs), layers, seen.__setitem__)
    assert list(seen) == sorted(layers)
    return seen


@pytest.mark.parametrize("attention", ["softmax", "rela-g"])
def test_shapes_and_sums(attention: str):
    for weights in visited(random_model(small_config(attention)), PAIRS).values():
        assert weights.shape == (3, 4, 5, 6)
        for row, one in enumerate(PAIRS):
            assert not weights[row, :, :, len(one.source.ids) + 1 :].any()  # padding has none of it
        if attention == "softmax":
            torch.testing.assert_close(weights.sum(-1), torch.ones(3, 4, 5))


def test_equals_the_definition():
    """The first layer's cross weights, from the naive model's own parts."""
    model = random_model(small_config("softmax", decoder_layers=1)).double()
    one = PAIRS[2]
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

    Watching(model).hidden(torch.tensor([[*one.source.ids, 2]]), torch.tensor([[1, *one.target.ids]]))
    torch.testing.assert_close(visited(model, [one], [0])[0][0], torch.stack(seen).detach())


@pytest.mark.parametrize("attention", ["softmax", "rela-g"])
def test_any_company_gives_the_same(attention: str):
    model = random_model(small_config(attention)).double()
    together = visited(model, PAIRS)
    for row, one in enumerate(PAIRS):
        for layer, alone in visited(model, [one]).items():
            inside = together[layer][row, :, : alone.shape[2], : alone.shape[3]]
            torch.testing.assert_close(alone[0], inside)


def test_some_layers():
    model = random_model(small_config(decoder_layers=3))
    every = visited(model, PAIRS, [0, 1, 2])
    for layers in ([1], [0, 2], []):
        for layer, weights in visited(model, PAIRS, layers).items():
            torch.testing.assert_close(weights, every[layer], rtol=1e-4, atol=1e-5)


def test_what_is_above_is_not_computed():
    model = random_model(small_config(decoder_layers=3))
    seen: list[int] = []
    for layer in range(3):
        part = model.get_submodule(f"decoder.{layer}.feed_forward")

        def note(_module: object, _inputs: object, _output: object, layer: int = layer) -> None:
            seen.append(layer)

        part.register_forward_hook(note)
    visited(model, PAIRS, [1])
    assert seen == [0]


def test_empty_sides():
    assert visited(random_model(small_config()), [pair([], [])])[0].shape == (1, 4, 1, 1)


def test_leaves_no_trace():
    model = random_model(small_config(attention_dropout=0.5)).train()
    first, second = visited(model, PAIRS), visited(model, PAIRS)
    np.testing.assert_array_equal(first[1], second[1])  # without dropout
    assert all(module.training for module in model.modules())
    with pytest.raises(IndexError):
        visited(model, [pair([99], [5])])  # no such piece
    seen: list[Heads] = []
    handle = model.attentions()["cross"][0].register_observer(lambda module, _: seen.append(module))
    model(torch.tensor([[5, 2]]), torch.tensor([[1]]))
    handle.remove()
    assert len(seen) == 1
    assert model.training
