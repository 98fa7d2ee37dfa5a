"""Dropout on residual connections by the native kernel: what it keeps, how often, and the same again going back."""

import pytest
import torch
from torch import Tensor

from rela.attention import kernels

pytestmark = pytest.mark.skipif(
    not kernels.dropout_fits(torch.zeros(1)), reason="no compiler here: torch's own dropout is used"
)


def dropout_add(x: Tensor | None, y: Tensor, p: float, seed: int) -> Tensor:
    """The operator with a seed of our own."""
    return torch.ops.rela.dropout_add(x, y, torch.tensor(seed), p)


def factors(count: int, p: float, seed: int) -> Tensor:
    """What each number is multiplied by."""
    return dropout_add(None, torch.ones(count), p, seed)


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
def test_keeps_the_right_share(p: float):
    count = 2**20
    kept = (factors(count, p, seed=7) != 0).double()
    deviation = (p * (1 - p) / count) ** 0.5
    assert abs(kept.mean().item() - (1 - p)) < 5 * deviation


@pytest.mark.parametrize("lag", [1, 2, 8, 16, 32, 256, 4096, 8192])
def test_places_do_not_depend_on_each_other(lag: int):
    p, count = 0.3, 2**20
    centred = (factors(count, p, seed=11) == 0).double() - p
    correlation = (centred[:-lag] * centred[lag:]).mean() / (p * (1 - p))
    assert abs(correlation.item()) < 5 / count**0.5


@pytest.mark.parametrize("other", [12, 11 + 2**32, 2**62 - 1])
def test_seeds_do_not_depend_on_each_other(other: int):
    p, count = 0.3, 2**20
    first, second = ((factors(count, p, seed=seed) == 0).double() - p for seed in (11, other))
    assert abs(((first * second).mean() / (p * (1 - p))).item()) < 5 / count**0.5


@pytest.mark.parametrize("count", [1, 7, 8, 15, 16, 17, 4095, 4096, 4097, 12_345])
def test_any_size(count: int):
    x, y = torch.randn(count), torch.randn(count)
    expected = x.double() + y.double() * factors(count, 0.3, seed=5).double()
    assert torch.allclose(dropout_add(x, y, 0.3, 5).double(), expected, atol=1e-6)
    assert set(factors(count, 0.3, seed=5).unique().tolist()) <= {0.0, torch.tensor(1 / 0.7).item()}


def test_the_number_of_threads_changes_nothing():
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = factors(100_000, 0.2, seed=3)
        torch.set_num_threads(3)
        assert torch.equal(factors(100_000, 0.2, seed=3), one)
    finally:
        torch.set_num_threads(before)


def test_gradients_pass_where_numbers_did():
    x, y = torch.randn(40, 33, requires_grad=True), torch.randn(40, 33, requires_grad=True)
    output = kernels.dropout_add(x, y, 0.4)
    upstream = torch.randn(40, 33)
    output.backward(upstream)
    kept = (output - x).detach().abs() > 0
    assert x.grad is not None
    assert y.grad is not None
    assert torch.equal(x.grad, upstream)
    assert torch.allclose(y.grad, upstream * kept / 0.6, atol=1e-6)


def test_torchs_generator_decides():
    y = torch.ones(1000)
    torch.manual_seed(1)
    first, second = kernels.dropout_add(None, y, 0.5), kernels.dropout_add(None, y, 0.5)
    torch.manual_seed(1)
    assert torch.equal(kernels.dropout_add(None, y, 0.5), first)
    assert not torch.equal(first, second)


@pytest.mark.parametrize("tensor", [torch.zeros(2, dtype=torch.float64), torch.zeros(2, device="meta")])
def test_other_tensors_have_no_kernel(tensor: Tensor):
    assert not kernels.dropout_fits(tensor)
