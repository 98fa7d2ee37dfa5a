"""Dropout inside the kernels."""

import pytest
import torch
from tests.attention.helpers import (
    Inputs,
    draw_mask,
    gradients,
    kernel,
    make_inputs,
    small_blocks,
)
from tests.attention.kernel_helpers import FAST, dtype_of
from torch import Tensor

from rela.attention.functional import relu_attention


def _dropped_weights(name: str, inputs: Inputs, p: float, seed: int, is_causal: bool = False) -> Tensor:
    """What multiplies the values: the output for values that are the identity matrix."""
    query, key, _ = inputs
    tk = key.shape[-2]
    identity = torch.eye(tk, dtype=query.dtype).expand(*key.shape[:2], tk, tk)
    torch.manual_seed(seed)
    with kernel(name):
        return relu_attention(query, key, identity, dropout_p=p, is_causal=is_causal).detach()


DROPOUT = ["naive", *FAST]


@pytest.mark.parametrize("name", DROPOUT)
@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_keeps_the_right_share_and_scales_it(name: str, p: float) -> None:
    inputs = make_inputs(90, 70, 8, heads=4, dtype=dtype_of(name))
    with small_blocks(elements=3000):
        weights = _dropped_weights(name, inputs, 0.0, 0)
        dropped = _dropped_weights(name, inputs, p, 0)
    kept = dropped != 0
    torch.testing.assert_close(dropped[kept], (weights / (1 - p))[kept])
    positive = weights > 0
    count = positive.sum().item()
    assert kept[positive].double().mean().item() == pytest.approx(1 - p, abs=5 * (p * (1 - p) / count) ** 0.5)
    # No head, row or column is left out or favoured.
    for dims in ((0, 2, 3), (0, 1, 3), (0, 1, 2)):
        shares = kept.double().sum(dims) / positive.double().sum(dims)
        fewest = positive.double().sum(dims).min().item()
        assert (shares - (1 - p)).abs().max().item() < 6 * (p * (1 - p) / fewest) ** 0.5


@pytest.mark.parametrize("name", DROPOUT)
def test_dropout_follows_torchs_seed(name: str) -> None:
    inputs = make_inputs(20, 30, 8, dtype=dtype_of(name))
    with small_blocks():
        first, again = (_dropped_weights(name, inputs, 0.5, 3) for _ in range(2))
        other = _dropped_weights(name, inputs, 0.5, 4)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    torch.manual_seed(3)
    with kernel(name):
        second_call = [relu_attention(*inputs, dropout_p=0.5) for _ in range(2)][1]
        torch.manual_seed(3)
        first_call = relu_attention(*inputs, dropout_p=0.5)
    assert not torch.equal(first_call, second_call)


@pytest.mark.parametrize("name", FAST)
def test_no_dropout_leaves_torchs_generator_alone(name: str) -> None:
    with kernel(name):
        torch.manual_seed(0)
        relu_attention(*make_inputs(dtype=dtype_of(name)))
        after = torch.rand(3)
    torch.manual_seed(0)
    assert torch.equal(after, torch.rand(3))


@pytest.mark.parametrize("name", DROPOUT)
@pytest.mark.parametrize("is_causal", [False, True])
def test_backward_drops_what_forward_dropped(name: str, is_causal: bool) -> None:
    query, key, value = make_inputs(9, 7, 4, dv=7, dtype=dtype_of(name))
    with small_blocks():
        plain = _dropped_weights(name, Inputs(query, key, value), 0.0, 0, is_causal)
        dropped = _dropped_weights(name, Inputs(query, key, value), 0.4, 8, is_causal)
        torch.manual_seed(8)
        with kernel(name):
            output = relu_attention(query, key, value, dropout_p=0.4, is_causal=is_causal)
            grad = torch.randn(output.shape, dtype=output.dtype, generator=torch.Generator().manual_seed(1))
            d_query, d_key, d_value = torch.autograd.grad(output, (query, key, value), grad)
    torch.testing.assert_close(output, dropped @ value)
    torch.testing.assert_close(d_value, dropped.mT @ grad)
    factors = torch.where(dropped != 0, 1 / 0.6, 0.0).to(grad.dtype)
    d_scores = (grad @ value.mT) * factors * (plain > 0)
    torch.testing.assert_close(d_query, d_scores @ key / 2, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(d_key, d_scores.mT @ query / 2, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", DROPOUT)
def test_dropping_everything(name: str) -> None:
    inputs = make_inputs(dtype=dtype_of(name))
    with kernel(name):
        output = relu_attention(*inputs, dropout_p=1.0)
    assert (output == 0).all()
    assert all((grad == 0).all() for grad in gradients(output, inputs))


def test_first_and_second_derivatives_with_dropout() -> None:
    """Blocks in which no key is visible draw nothing, in either derivative."""

    def run(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        torch.manual_seed(3)
        return relu_attention(query, key, value, is_causal="bottom-right", dropout_p=0.4)

    inputs = tuple(make_inputs(6, 3, 3, batch=(1,), heads=2))
    with kernel("blocked"), small_blocks():
        assert torch.autograd.gradcheck(run, inputs)
        assert torch.autograd.gradgradcheck(run, inputs)


@pytest.mark.parametrize("name", FAST)
@pytest.mark.parametrize("dropout_p", [0.0, 0.4])
def test_gradients_that_can_be_derived_again_are_the_same(name: str, dropout_p: float) -> None:
    """``create_graph=True`` takes other formulas to the same numbers."""
    inputs = make_inputs(9, 5, 4, dtype=dtype_of(name))
    threshold = torch.tensor([0.1, -0.2], dtype=dtype_of(name)).requires_grad_()
    mask = draw_mask(2, 1, 9, 5, share=0.8)
    leaves = [*inputs, threshold]
    found = []
    with kernel(name), small_blocks():
        for create_graph in (False, True):
            torch.manual_seed(6)
            output = relu_attention(*inputs, mask, dropout_p, "bottom-right", threshold=threshold)
            found.append(torch.autograd.grad(output.square().sum(), leaves, create_graph=create_graph))
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    assert all(grad.requires_grad for grad in found[1])


@pytest.mark.parametrize("name", FAST)
def test_one_seed_a_call_whatever_the_masks_form(name: str) -> None:
    """The short way to a kernel that does not take a call has drawn no random number for it."""
    inputs = make_inputs(12, 9, 8, heads=4, dtype=dtype_of(name))
    allowed = draw_mask(1, 1, 12, 9)[0, 0]
    found: list[Tensor] = []
    for mask in (allowed, allowed[None, None], allowed.expand(inputs[0].shape[0], 4, -1, -1)):
        torch.manual_seed(5)
        with kernel(name):
            output = relu_attention(*inputs, attn_mask=mask, dropout_p=0.5)
        found.append(torch.cat([output.detach().flatten(), torch.rand(3, dtype=output.dtype)]))
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])
