"""Operations and parameters, against the paper's numbers and against real modules."""

import pytest
import torch
from torch import nn

from rela.attention import MultiheadAttention, convert, cost
from rela.attention.spec import PRESETS, resolve


@pytest.mark.parametrize(
    ("name", "length", "expected"),
    [
        ("softmax", 100, 239_200),
        ("rela-g", 100, 592_100),
        ("softmax", 1000, 23_992_000),
        ("rela-g", 1000, 13_121_000),
    ],
)
def test_the_papers_numbers(name: str, length: int, expected: int) -> None:
    assert cost.map_and_norm_operations(PRESETS[name], 8, 512, length) == expected


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_costs_something_that_grows(name: str) -> None:
    costs = [cost.map_and_norm_operations(PRESETS[name], 8, 512, length) for length in (1, 2, 100, 1000)]
    assert costs[0] > 0
    assert costs == sorted(costs)


def test_options_cost_what_they_do() -> None:
    plain = cost.map_and_norm_operations(resolve("relu"), 2, 8, 10)
    for options in ({"threshold": 0.5}, {"learn_threshold": True}, {"length_power": 1.0}):
        assert cost.map_and_norm_operations(resolve("relu", **options), 2, 8, 10) == plain + 2 * 10 * 10


@pytest.mark.parametrize("name", PRESETS)
def test_products_counted_by_torch(name: str) -> None:
    """Four projections of d x d and two products with all keys, two operations for each multiply-add."""
    length, dim = 10, 16
    expected = 2 * (4 * length * dim * dim + 2 * length * length * dim)
    assert cost.counted_operations(PRESETS[name], 4, dim, length) == expected


@pytest.mark.parametrize("name", [*PRESETS, "relu+layernorm"])
@pytest.mark.parametrize("learn_threshold", [False, True])
def test_extra_parameters_are_those_of_the_module(name: str, learn_threshold: bool) -> None:
    spec = resolve(name)
    if learn_threshold and not spec.is_pointwise:
        return
    spec = resolve(name, learn_threshold=learn_threshold)
    module = MultiheadAttention(16, 4, attention=spec)
    assert cost.extra_parameters(spec, 4, 16) == sum(p.numel() for p in module.own_parameters().values())


@pytest.mark.parametrize("name", ["softmax", "rela-i", "rela-g"])
def test_parameters_are_those_of_a_transformer(name: str) -> None:
    with torch.device("meta"):
        model = nn.Transformer(32, 4, 3, 3, 64, batch_first=True)
    convert(model, name)
    final_norms = 2 * 2 * 32  # nn.Transformer adds one behind each stack; the post-norm original has none
    counted = sum(p.numel() for p in model.parameters()) - final_norms + 100 * 32
    assert cost.transformer_parameters(PRESETS[name], 4, 32, 3, 64, 100) == counted


def test_the_papers_extra_parameters_at_base() -> None:
    base = {n: cost.transformer_parameters(PRESETS[n], 8, 512, 6, 2048, 55_000) for n in ("softmax", "rela-g")}
    assert base["rela-g"] - base["softmax"] == 18_432
    assert round(base["softmax"] / 1e6, 1) == 72.3
