"""What the forward pass of the native kernel notes for the backward pass: which weights are not zero."""

from typing import Any

import pytest
import torch
from tests.attention.helpers import draw_mask, gradients, kernel, make_inputs
from tests.attention.kernel_helpers import assert_same, plain_results, results
from torch import Tensor

from rela.attention.functional import relu_attention
from rela.attention.kernels import native
from rela.attention.masks import Mask

pytestmark = pytest.mark.skipif(native.load().library is None, reason="no compiler here")
NOTED_KEYS = 8192


def _options(tq: int, tk: int, dropout_p: float = 0.3) -> tuple[Any, ...]:
    """All that changes which weights are not zero; as the operators take it."""
    allowed, bias = draw_mask(2, 1, tq, tk), torch.randn(1, 2, tq, tk)
    return torch.full((2, 1, 1), 0.4), allowed, bias, torch.tensor(7), 0.3, 0.0, 5, dropout_p


def _bits(signs: Tensor, tk: int) -> Tensor:
    """``[B, H, tile, Tq]`` words as ``[B, H, Tq, Tk]`` booleans."""
    bits = (signs.unsqueeze(-1) >> torch.arange(64)) & 1
    return bits.permute(0, 1, 3, 2, 4).flatten(-2)[..., :tk].bool()


@pytest.mark.parametrize(("tq", "tk"), [(64, 64), (70, 90), (200, 130), (1, 300)])
def test_a_bit_for_every_weight_that_is_not_zero(tq: int, tk: int) -> None:
    query, key, value = (x.detach() for x in make_inputs(tq, tk, 24, dtype=torch.float32))
    options = _options(tq, tk)
    output, signs = torch.ops.rela.relu_attention_noted(query, key, value, *options)
    shown, weights = torch.ops.rela.relu_attention_shown(query, key, value, None, True, *options)
    factors = torch.ops.rela.relu_attention_factors(query, key, options[3], options[-1])
    assert torch.equal(output, shown)
    assert torch.equal(_bits(signs, tk), (weights * factors) != 0)
    assert not _bits(signs, signs.shape[2] * 64)[..., tk:].any()


@pytest.mark.parametrize(("tq", "tk"), [(64, 64), (70, 90), (200, 130)])
def test_gradients_with_and_without_them(tq: int, tk: int) -> None:
    query, key, value = (x.detach() for x in make_inputs(tq, tk, 24, dtype=torch.float32))
    options = _options(tq, tk)
    output, signs = torch.ops.rela.relu_attention_noted(query, key, value, *options)
    backward = torch.ops.rela.relu_attention_backward
    grad = torch.randn_like(output)
    for got, expected in zip(
        backward(grad, query, key, value, *options, signs),
        backward(grad, query, key, value, *options),
        strict=True,
    ):
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("learned", [False, True])
def test_gradients_against_plain_formulas(biased: bool, learned: bool) -> None:
    """At a density at which scores are made again for noted places only."""
    inputs = make_inputs(150, 140, 32, dtype=torch.float32)
    mask = Mask(None, torch.randn(1, 1, 150, 140) if biased else None, 0)
    threshold = torch.tensor([0.9, 1.3]).view(2, 1, 1).requires_grad_() if learned else 1.1
    assert_same("native", results("native", inputs, mask, threshold), plain_results(inputs, mask, threshold))


def test_keys_beyond_those_noted() -> None:
    """Their scores are all made again."""
    inputs = make_inputs(40, NOTED_KEYS + 70, 8, batch=(1,), heads=2, dtype=torch.float32)
    _, signs = torch.ops.rela.relu_attention_noted(*inputs, None, None, None, None, 0.3, 0.0, None, 0.0)
    assert signs.shape == (1, 2, NOTED_KEYS // 64, 40)
    assert_same("native", results("native", inputs, Mask(), 0.8), plain_results(inputs, Mask(), 0.8))


@pytest.mark.parametrize(("tq", "tk", "words"), [(32, 32, 0), (64, 64, 1), (70, 130, 3), (64, 20_000, 128)])
def test_what_is_kept_for_the_backward_pass(tq: int, tk: int, words: int) -> None:
    """One bit a weight, at most 1 KiB a query, and nothing in short calls."""
    kept: list[Tensor] = []
    inputs = make_inputs(tq, tk, 8, batch=(1,), heads=2, dtype=torch.float32)

    def keep(x: Tensor) -> Tensor:
        kept.append(x)
        return x

    with kernel("native"), torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        relu_attention(*inputs)
    signs = [x for x in kept if x.dtype == torch.int64]
    assert [tuple(x.shape) for x in signs] == ([(1, 2, words, tq)] if words else [])
    assert sum(x.numel() for x in kept) == sum(x.numel() for x in (*inputs, *signs))


def test_nothing_is_noted_without_gradients() -> None:
    query, key, value = make_inputs(100, 100, 8, dtype=torch.float32)
    with kernel("native"), torch.no_grad(), torch.profiler.profile() as profile:
        relu_attention(query, key, value)
    names = {event.name for event in profile.events() or ()}
    assert "rela::relu_attention" in names
    assert "rela::relu_attention_noted" not in names


def test_torchs_checks_of_operators() -> None:
    query, key, value = (x.detach() for x in make_inputs(70, 90, 8, dtype=torch.float32))
    torch.library.opcheck(torch.ops.rela.relu_attention_noted.default, (query, key, value, *_options(70, 90)))
    with_gradients = make_inputs(70, 90, 8, dtype=torch.float32)
    torch.library.opcheck(torch.ops.rela.relu_attention.default, (*with_gradients, *_options(70, 90)))


def test_the_compiler_takes_any_length() -> None:
    compiled: Any = torch.compile(relu_attention, fullgraph=True, backend="aot_eager", dynamic=True)
    with kernel("native"):
        for length in (20, 63, 64, 100, 170):
            inputs = make_inputs(length, length, 8, dtype=torch.float32)
            got, expected = compiled(*inputs), relu_attention(*inputs)
            assert torch.equal(got, expected)
            for ours, theirs in zip(gradients(got, list(inputs)), gradients(expected, list(inputs)), strict=True):
                torch.testing.assert_close(ours, theirs)


def test_weights_made_again_are_never_negative() -> None:
    """Scores are sums in another order than in the forward pass; some round to below a threshold that is close."""
    query, key, value = (x.detach() for x in make_inputs(256, 256, 64, heads=2, dtype=torch.float32))
    query[..., 0] = key[..., 0] = 8e4**0.5
    options = (None, None, None, None, 0.125, 1e4 + 0.5, None, 0.0)
    output, signs = torch.ops.rela.relu_attention_noted(query, key, value, *options)
    assert 0 < _bits(signs, 256).float().mean() < 0.6
    grad = torch.ones_like(output)
    _, _, d_value, _ = torch.ops.rela.relu_attention_backward(grad, query, key, value, *options, signs)
    assert d_value.min() >= 0
    assert d_value.max() > 0


def test_signs_of_another_call_are_refused() -> None:
    query, key, value = (x.detach() for x in make_inputs(70, 90, 8, dtype=torch.float32))
    options = (None, None, None, None, 0.3, 0.0, None, 0.0)
    output, signs = torch.ops.rela.relu_attention_noted(query, key, value, *options)
    for wrong in (signs[:, :, :1], signs[..., :64], signs.int()):
        with pytest.raises(RuntimeError, match="expected the signs of relu_attention_noted"):
            torch.ops.rela.relu_attention_backward(output, query, key, value, *options, wrong)


def test_an_error_of_a_users_hook_is_not_hidden() -> None:
    calls: list[int] = []

    def pack(x: Tensor) -> Tensor:
        calls.append(1)
        if len(calls) == 2:
            raise RuntimeError("disk full")
        return x

    inputs = make_inputs(70, 70, 8, dtype=torch.float32)
    with (
        kernel("native"),
        torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x),
        pytest.raises(RuntimeError, match="disk full"),
    ):
        relu_attention(*inputs)
