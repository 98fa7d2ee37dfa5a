"""Sparsity and null rates, by hand."""

import pytest
import torch

from rela.attention.functional import null_rate, sparsity_rate

WEIGHTS = torch.tensor([[[0.0, 1.0, 0.0, 2.0], [0.0, 0.0, 0.0, 0.0]], [[1.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 5.0]]])


def test_rates_of_all_places() -> None:
    assert sparsity_rate(WEIGHTS).item() == 10 / 16
    assert null_rate(WEIGHTS).item() == 1 / 4


def test_padding_never_counts() -> None:
    allowed = torch.tensor([True, True, True, False])
    assert sparsity_rate(WEIGHTS, allowed).item() == 8 / 12
    weights = WEIGHTS.masked_fill(~allowed, 0.0)
    assert null_rate(weights, allowed).item() == 2 / 4


def test_the_future_never_counts() -> None:
    weights = torch.tensor([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    triangle = torch.ones(3, 3, dtype=torch.bool).tril()
    assert sparsity_rate(weights, triangle).item() == 4 / 6
    assert null_rate(weights, triangle).item() == 1 / 3


def test_queries_without_a_valid_key_never_count() -> None:
    allowed = torch.tensor([[[True], [False]], [[True], [True]]])
    assert sparsity_rate(WEIGHTS, allowed).item() == 6 / 12
    assert null_rate(WEIGHTS, allowed).item() == 0.0


def test_tiny_and_negative_weights_are_not_zero() -> None:
    weights = torch.tensor([[1e-45, -0.2], [0.0, -0.0]])
    assert sparsity_rate(weights).item() == 0.5
    assert null_rate(weights).item() == 0.5


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_rates_of_many_places_are_exact(dtype: torch.dtype) -> None:
    weights = torch.zeros(1000, 33, dtype=dtype)
    weights[0, 0] = 1
    assert sparsity_rate(weights).item() == pytest.approx(32999 / 33000, abs=1e-15)
    assert null_rate(weights).item() == pytest.approx(999 / 1000, abs=1e-15)


@pytest.mark.parametrize("shape", [(2, 0, 3), (2, 3, 0), (0, 3, 4)])
def test_no_places_give_no_nan_and_the_same_with_and_without_a_mask(shape: tuple[int, ...]) -> None:
    weights = torch.zeros(shape)
    everywhere = torch.ones(shape, dtype=torch.bool)
    for rate in (sparsity_rate, null_rate):
        assert rate(weights).item() == rate(weights, everywhere).item()


def test_nothing_valid_is_rate_zero() -> None:
    nowhere = torch.zeros(2, 2, 4, dtype=torch.bool)
    assert sparsity_rate(WEIGHTS, nowhere).item() == 0.0
    assert null_rate(WEIGHTS, nowhere).item() == 0.0
