"""Attention as pure functions, against the float64 definitions."""

import math
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from tests.attention.helpers import (
    COMBINATIONS,
    POINTWISE_MAPS,
    PRESET_NAMES,
    Inputs,
    draw_mask,
    fast,
    gradients,
    kernel,
    make_inputs,
    naive,
    norm_parameters,
    raises_naming,
    small_blocks,
)
from torch import Tensor

from rela import GatedRMSNorm
from rela.attention import functional as rela_functional
from rela.attention.functional import (
    attend,
    attention,
    attention_weights,
    concat_heads,
    rela_attention,
    relu_attention,
)
from rela.attention.masks import Causal, Mask
from rela.attention.naive import naive_attention
from rela.attention.spec import MAPS, MapName, resolve

BATCH, HEADS, TQ, TK = 2, 2, 5, 7
# Every preset, and every map with every norm, each once.
SYSTEMS = sorted({resolve(name).name for name in (*COMBINATIONS, *PRESET_NAMES)})


class MaskCase(NamedTuple):
    attn_mask: Tensor | None
    allowed: Tensor | None
    bias: Tensor | None = None
    is_causal: Causal = False


def _mask_cases() -> dict[str, MaskCase]:
    cases = {"none": MaskCase(None, None)}
    for shape in [(TQ, TK), (TK,), (TQ, 1), (2, 1, 1, TK), (1, 2, TQ, 1), (2, 2, TQ, TK), (2, 1, TQ, TK)]:
        mask = draw_mask(*shape, seed=len(shape))
        cases[f"bool{list(shape)}"] = MaskCase(mask, mask)
    nothing = draw_mask(TQ, TK)
    nothing[[1, 3]] = False
    cases["bool, two rows see nothing"] = MaskCase(nothing, nothing)
    cases["bool, all False"] = MaskCase(torch.zeros(TQ, TK).bool(), torch.zeros(TQ, TK).bool())
    for shape in [(TQ, TK), (TK,), (2, 1, TQ, TK)]:
        bias = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(8)) * 2
        cases[f"additive{list(shape)}"] = MaskCase(bias, None, bias)
        lowest = torch.finfo(torch.float64).min
        for name, low in {"-inf": -math.inf, "min": lowest, "min/2": lowest / 2}.items():
            allowed = draw_mask(*shape, seed=9)
            if len(shape) > 1:
                allowed[..., 2, :] = False
            mask = bias.masked_fill(~allowed, low)
            cases[f"additive{list(shape)} with {name}"] = MaskCase(mask, allowed, bias)
    triangle = torch.ones(TQ, TK).bool()
    cases["causal"] = MaskCase(None, triangle.tril(), None, True)
    cases["bottom-right"] = MaskCase(None, triangle.tril(TK - TQ), None, "bottom-right")
    cases["causal and bool"] = MaskCase(nothing, nothing & triangle.tril(), None, True)
    both = torch.randn(TQ, TK, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    cases["bottom-right and additive"] = MaskCase(both, triangle.tril(2), both, "bottom-right")
    return cases


MASKS = _mask_cases()


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("mask_name", MASKS)
@pytest.mark.parametrize("name", MAPS)
def test_masks_of_every_kind_equal_the_definition(name: MapName, mask_name: str, need_weights: bool) -> None:
    case = MASKS[mask_name]
    inputs = make_inputs(TQ, TK, 4, batch=(BATCH,), heads=HEADS, seed=4)
    output, weights = attention(
        *inputs, name, attn_mask=case.attn_mask, is_causal=case.is_causal, topk=3, need_weights=need_weights
    )
    expected = naive_attention(*inputs, resolve(f"{name}+none", topk=3), allowed=case.allowed, bias=case.bias)
    torch.testing.assert_close(output, expected[0])
    if need_weights:
        assert weights is not None
        torch.testing.assert_close(weights, expected[1])
        if case.allowed is not None:
            assert (weights.masked_select(~case.allowed) == 0).all()
    else:
        assert weights is None or name not in ("softmax", "relu")
    for actual, wanted in zip(gradients(output, inputs), gradients(expected[0], inputs), strict=True):
        torch.testing.assert_close(actual, wanted)


# (queries, keys, heads, head size), causal
AWKWARD = {
    "one of each": ((1, 1, 1, 1), False),
    "3 x 63": ((3, 63, 2, 8), False),
    "111 x 5, one head": ((111, 5, 1, 64), False),
    "4 x 111": ((4, 111, 1, 80), "bottom-right"),
    "63 x 63 causal": ((63, 63, 1, 8), True),
    "63 x 5 bottom-right": ((63, 5, 1, 1), "bottom-right"),
}


@pytest.mark.parametrize("shape_name", AWKWARD)
@pytest.mark.parametrize("name", MAPS)
def test_awkward_shapes_equal_the_definition(name: MapName, shape_name: str) -> None:
    (tq, tk, heads, d), is_causal = AWKWARD[shape_name]
    spec = resolve(f"{name}+gated-rmsnorm")
    inputs = make_inputs(tq, tk, d, dv=max(d // 2, 1), batch=(1,), heads=heads)
    parameters = norm_parameters(spec, heads * max(d // 2, 1))
    offset = {False: None, True: 0, "bottom-right": tk - tq}[is_causal]
    mask = Mask(causal_offset=offset)
    expected = naive(inputs, spec, parameters, mask)
    leaves = [*inputs, *parameters.values()]
    wanted = gradients(expected, leaves)
    output = fast(inputs, spec, parameters, mask)
    torch.testing.assert_close(output, expected)
    for actual, want in zip(gradients(output, leaves), wanted, strict=True):
        torch.testing.assert_close(actual, want, rtol=1e-6, atol=1e-8)
    single = inputs.leaves(torch.float32)
    single_parameters = {k: v.detach().float().requires_grad_() for k, v in parameters.items()}
    low = fast(single, spec, single_parameters, mask)
    torch.testing.assert_close(low.double(), expected, rtol=1e-3, atol=1e-4)
    for actual, want in zip(gradients(low, [*single, *single_parameters.values()]), wanted, strict=True):
        torch.testing.assert_close(actual.double(), want, rtol=1e-3, atol=1e-3 * want.abs().max().item())


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_map_with_every_norm_equals_the_definition(name: str) -> None:
    spec = resolve(name)
    inputs = make_inputs(4, 6, 3, dv=2, seed=2)
    parameters = norm_parameters(spec, 4)
    mask = Mask(draw_mask(2, 1, 4, 6), torch.full((6,), 0.25, dtype=torch.float64), 2)
    leaves = [*inputs, *parameters.values()]
    expected = naive(inputs, spec, parameters, mask)
    output = fast(inputs, spec, parameters, mask)
    torch.testing.assert_close(output, expected)
    for actual, wanted in zip(gradients(output, leaves), gradients(expected, leaves), strict=True):
        torch.testing.assert_close(actual, wanted, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("name", "kernel_name"),
    [(name, "blocked") for name in SYSTEMS]
    # Without a kernel of ours in it the other run is the same.
    + [(name, "naive") for name in SYSTEMS if resolve(name).map == "relu" or resolve(name).norm == "gated-rmsnorm"],
)
def test_gradcheck(name: str, kernel_name: str) -> None:
    spec = resolve(name, eps=0.01, topk=2)
    inputs = make_inputs(3, 4, 2, batch=(1,), heads=2, seed=6)
    parameters = norm_parameters(spec, 4)
    mask = Mask(draw_mask(3, 4, share=0.8, seed=1))
    extra: dict[str, Any] = {}
    if spec.is_pointwise:
        extra["threshold"] = torch.tensor([-0.2, 0.1], dtype=torch.float64, requires_grad=True)
    if spec.map == "entmax":
        extra["alpha"] = torch.tensor([1.3, 1.8], dtype=torch.float64, requires_grad=True)

    def run(query: Tensor, key: Tensor, value: Tensor, *rest: Tensor) -> Tensor:
        learned: dict[str, Any] = dict(zip(extra, rest[: len(extra)], strict=True))
        norm = dict(zip(parameters, rest[len(extra) :], strict=True))
        return fast(Inputs(query, key, value), spec, norm, mask, **learned)

    with kernel(kernel_name), small_blocks():
        assert torch.autograd.gradcheck(run, (*inputs, *extra.values(), *parameters.values()))


@pytest.mark.parametrize("kernel_name", ["blocked", "naive"])
@pytest.mark.parametrize("name", ["relu", "rela-g"])
def test_second_derivatives(name: str, kernel_name: str) -> None:
    spec = resolve(name, eps=0.01)
    inputs = make_inputs(3, 4, 2, batch=(1,), heads=2, seed=6)
    parameters = norm_parameters(spec, 4)
    mask = Mask(draw_mask(3, 4, share=0.8, seed=1), torch.full((4,), 0.3, dtype=torch.float64), 1)
    threshold = torch.tensor([-0.2, 0.1], dtype=torch.float64, requires_grad=True)

    def run(query: Tensor, key: Tensor, value: Tensor, threshold: Tensor, *norm: Tensor) -> Tensor:
        named = dict(zip(parameters, norm, strict=True))
        return fast(Inputs(query, key, value), spec, named, mask, threshold=threshold)

    with kernel(kernel_name), small_blocks():
        assert torch.autograd.gradgradcheck(run, (*inputs, threshold, *parameters.values()))


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("name", MAPS)
def test_any_leading_batch_dimensions(name: MapName, need_weights: bool) -> None:
    mask = draw_mask(5, 7)
    flat = make_inputs(batch=(6,))
    expected, expected_weights = attention(*flat, name, attn_mask=mask, topk=3, need_weights=True)
    assert expected_weights is not None
    for batch in [(6,), (6, 1), (2, 3), (1, 2, 3)]:
        inputs = flat.each(lambda t, b=batch: t.reshape(*b, *t.shape[1:])).leaves()
        output, weights = attention(*inputs, name, attn_mask=mask, topk=3, need_weights=need_weights)
        torch.testing.assert_close(output, expected.reshape(*batch, *expected.shape[1:]))
        if need_weights:
            assert weights is not None
            torch.testing.assert_close(weights, expected_weights.reshape(*batch, *expected_weights.shape[1:]))
        assert all(grad.isfinite().all() for grad in gradients(output, inputs))
    none = attention(*flat.each(lambda t: t[0]), name, attn_mask=mask, topk=3, need_weights=need_weights)[0]
    torch.testing.assert_close(none, expected[0])
    matrices = attention(*flat.each(lambda t: t[0, 0]), name, attn_mask=mask, topk=3, need_weights=need_weights)[0]
    torch.testing.assert_close(matrices, expected[0, 0])


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("name", MAPS)
def test_batch_dimensions_broadcast(name: MapName, need_weights: bool) -> None:
    query = make_inputs(batch=(3, 1)).query
    _, key, value = make_inputs(batch=(1, 2))
    output = attention(query, key, value, name, need_weights=need_weights)[0]
    wide = Inputs(query, key, value).each(lambda t: t.expand(3, 2, *t.shape[2:]))
    torch.testing.assert_close(output, attention(*wide, name)[0])
    assert output.shape == (3, 2, 2, 5, 4)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("name", MAPS)
def test_grouped_queries(name: MapName, need_weights: bool) -> None:
    inputs = make_inputs(heads=6, kv_heads=2, dv=3)
    output, _ = attention(*inputs, name, is_causal=True, enable_gqa=True, topk=3, need_weights=need_weights)
    key, value = (t.repeat_interleave(3, dim=1) for t in inputs[1:])
    expected = attention(inputs.query, key, value, name, is_causal=True, topk=3)[0]
    torch.testing.assert_close(output, expected)
    for actual, wanted in zip(gradients(output, inputs), gradients(expected, inputs), strict=True):
        torch.testing.assert_close(actual, wanted)


@pytest.mark.parametrize("name", POINTWISE_MAPS)
@pytest.mark.parametrize("need_weights", [True, False])
def test_thresholds_equal_the_definition(name: MapName, need_weights: bool) -> None:
    inputs = make_inputs()
    spec = resolve(f"{name}+none", threshold=0.3)
    fixed = attention(*inputs, name, threshold=0.3, need_weights=need_weights)[0]
    torch.testing.assert_close(fixed, naive_attention(*inputs, spec)[0])
    learned = torch.tensor([0.4, -0.6], dtype=torch.float64, requires_grad=True)
    leaves = [*inputs, learned]
    output = attention(*inputs, name, threshold=learned, is_causal=True, need_weights=need_weights)[0]
    triangle = torch.ones(5, 7).bool().tril()
    expected = naive_attention(*inputs, resolve(f"{name}+none"), allowed=triangle, threshold=learned)[0]
    torch.testing.assert_close(output, expected)
    for actual, wanted in zip(gradients(output, leaves), gradients(expected, leaves), strict=True):
        torch.testing.assert_close(actual, wanted)


def test_one_threshold_for_all_heads() -> None:
    inputs = make_inputs()
    one = torch.tensor(0.4, dtype=torch.float64, requires_grad=True)
    output = relu_attention(*inputs, threshold=one)
    torch.testing.assert_close(output, relu_attention(*inputs, threshold=0.4))
    (grad,) = torch.autograd.grad(output.sum(), one)
    assert grad.shape == ()
    assert grad != 0


@pytest.mark.parametrize("name", POINTWISE_MAPS)
@pytest.mark.parametrize("mask_name", ["none", "bool, two rows see nothing", "causal", "causal and bool", "bool[7]"])
@pytest.mark.parametrize("need_weights", [True, False])
def test_length_power_equals_the_definition(name: MapName, mask_name: str, need_weights: bool) -> None:
    case = MASKS[mask_name]
    inputs = make_inputs()
    output, weights = attention(
        *inputs,
        name,
        attn_mask=case.attn_mask,
        is_causal=case.is_causal,
        length_power=0.7,
        need_weights=need_weights,
    )
    spec = resolve(f"{name}+none", length_power=0.7)
    expected = naive_attention(*inputs, spec, allowed=case.allowed)
    torch.testing.assert_close(output, expected[0])
    if need_weights:
        assert weights is not None
        torch.testing.assert_close(weights, expected[1])
    for actual, wanted in zip(gradients(output, inputs), gradients(expected[0], inputs), strict=True):
        torch.testing.assert_close(actual, wanted)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("name", MAPS)
def test_scales_equal_the_definition(name: MapName, need_weights: bool) -> None:
    inputs = make_inputs()
    for scale in (0.0, 1.0, 2.5, -0.5):
        output = attention(*inputs, name, scale=scale, topk=3, need_weights=need_weights)[0]
        expected = naive_attention(*inputs, resolve(f"{name}+none", scale=scale, topk=3))[0]
        torch.testing.assert_close(output, expected)
    default = attention(*inputs, name, topk=3, need_weights=need_weights)[0]
    torch.testing.assert_close(default, attention(*inputs, name, scale=0.5, topk=3, need_weights=need_weights)[0])


def test_negative_slopes_equal_the_definition() -> None:
    inputs = make_inputs()
    expected = naive_attention(*inputs, resolve("leaky+none", negative_slope=0.01))[0]
    torch.testing.assert_close(attention(*inputs, "leaky", negative_slope=0.01)[0], expected)


@pytest.mark.parametrize("name", ["relu", "softmax", "gelu"])
def test_learned_additive_masks_get_gradients(name: MapName) -> None:
    inputs = make_inputs(3, 4, 2, batch=(1,))
    bias = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    bias[0, 1] = -math.inf
    bias.requires_grad_()

    def run(bias: Tensor, need_weights: bool = False) -> Tensor:
        return attention(*inputs, name, attn_mask=bias, need_weights=need_weights)[0]

    grads = [torch.autograd.grad(run(bias, need).square().sum(), bias)[0] for need in (True, False)]
    torch.testing.assert_close(*grads)
    assert grads[0][0, 1] == 0
    assert grads[0].abs().sum() > 0
    finite = bias.detach().nan_to_num(neginf=0.0).requires_grad_()
    assert torch.autograd.gradcheck(run, (finite,))


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("mask_dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_additive_masks_of_any_float_dtype(name: MapName, need_weights: bool, mask_dtype: torch.dtype) -> None:
    inputs = make_inputs(dtype=torch.float32)
    mask = torch.tensor([0.0, 1.0, -2.0, -math.inf, 0.5, torch.finfo(mask_dtype).min, 0.0], dtype=mask_dtype)
    mask = mask.expand(5, 7)
    output = attention(*inputs, name, attn_mask=mask, need_weights=need_weights)[0]
    expected = attention(*inputs, name, attn_mask=_single(mask))[0]
    torch.testing.assert_close(output, expected)


def _single(mask: Tensor) -> Tensor:
    forbidden = mask <= torch.finfo(mask.dtype).min / 2
    return mask.float().masked_fill(forbidden, -math.inf)


def test_softmax_is_torchs() -> None:
    inputs = make_inputs(5, 5)
    mask = draw_mask(2, 1, 5, 5, share=0.8) | torch.eye(5).bool()
    bias = torch.randn(5, 5, dtype=torch.float64)
    cases: list[dict[str, Any]] = [{}, {"is_causal": True}, {"scale": 0.3}, {"attn_mask": mask}, {"attn_mask": bias}]
    for options in cases:
        expected = F.scaled_dot_product_attention(*inputs, **options)
        for need_weights in (True, False):
            output = attention(*inputs, "softmax", need_weights=need_weights, **options)[0]
            torch.testing.assert_close(output, expected)


def test_relu_attention_takes_torchs_arguments_in_torchs_order() -> None:
    inputs = make_inputs(heads=4, kv_heads=2)
    mask = draw_mask(5, 7)
    positional = relu_attention(*inputs, mask, 0.0, True, 0.3, True)
    named = attention(*inputs, "relu", attn_mask=mask, is_causal=True, scale=0.3, enable_gqa=True)[0]
    torch.testing.assert_close(positional, named)


def test_rela_attention_norms_the_concatenated_heads() -> None:
    inputs = make_inputs(dv=3)
    norm = GatedRMSNorm(6, dtype=torch.float64)
    mask = draw_mask(5, 7)
    output = rela_attention(*inputs, norm, mask, 0.0, "bottom-right", 0.3, threshold=0.1, length_power=0.5)
    heads = relu_attention(*inputs, mask, 0.0, "bottom-right", 0.3, threshold=0.1, length_power=0.5)
    torch.testing.assert_close(output, norm(heads.transpose(1, 2).reshape(2, 5, 6)))
    assert rela_attention(*inputs.each(lambda t: t[0]), norm).shape == (5, 6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_rela_attention_norms_before_it_rounds(dtype: torch.dtype) -> None:
    # The heads' outputs are far above float16's largest number; the norm brings them back.
    inputs = make_inputs(dtype=dtype, size=1e4)
    output = rela_attention(*inputs, GatedRMSNorm(8, dtype=dtype))
    assert output.dtype == dtype
    assert output.isfinite().all()
    assert output.abs().max() > 0.5


def test_weights_alone() -> None:
    inputs = make_inputs()
    mask = draw_mask(5, 7)
    for name in MAPS:
        weights = attention_weights(*inputs[:2], name, attn_mask=mask, topk=2)
        torch.testing.assert_close(weights, attention(*inputs, name, attn_mask=mask, topk=2)[1])
    assert attention_weights(make_inputs(heads=4, kv_heads=2).query, inputs.key, enable_gqa=True).shape == (2, 4, 5, 7)


@pytest.mark.parametrize("name", MAPS)
def test_reported_weights_are_those_before_dropout(name: MapName) -> None:
    inputs = make_inputs()
    torch.manual_seed(0)
    output, weights = attention(*inputs, name, dropout_p=0.5)
    plain, plain_weights = attention(*inputs, name)
    torch.testing.assert_close(weights, plain_weights)
    assert not torch.allclose(output, plain)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("name", MAPS)
def test_dropping_everything_gives_zeros(name: MapName, need_weights: bool) -> None:
    inputs = make_inputs()
    output = attention(*inputs, name, dropout_p=1.0, need_weights=need_weights)[0]
    assert (output == 0).all()
    assert all((grad == 0).all() for grad in gradients(output, inputs))


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("name", MAPS)
def test_dropout_keeps_the_mean(name: MapName, need_weights: bool) -> None:
    query, key, value = (t.detach() for t in make_inputs(batch=(1,), heads=1))
    wide = Inputs(query, key, value).each(lambda t: t.expand(4000, *t.shape[1:]))
    torch.manual_seed(0)
    output = attention(*wide, name, dropout_p=0.3, need_weights=need_weights)[0]
    expected = attention(query, key, value, name)[0][0]
    torch.testing.assert_close(output.mean(0), expected, rtol=0, atol=6 * output.std(0).max().item() / 4000**0.5)


def test_heads_are_concatenated_in_order() -> None:
    heads = torch.arange(2 * 3 * 4 * 5).view(2, 3, 4, 5)
    whole = concat_heads(heads)
    assert whole.shape == (2, 4, 15)
    for head in range(3):
        assert torch.equal(whole[..., head * 5 : head * 5 + 5], heads[:, head])
    raises_naming(lambda: concat_heads(torch.zeros(3, 4)), "[..., H, T, d]", "(3, 4)", "unsqueeze")


def test_scores_on_request() -> None:
    inputs = make_inputs()
    seen = attend(*inputs, resolve("relu"), Mask(), need_scores=True)
    torch.testing.assert_close(seen.scores, inputs.query @ inputs.key.mT / 2)
    assert seen.scores is not None
    torch.testing.assert_close(seen.weights, seen.scores.relu())


def test_all_public_functions_exist() -> None:
    for name in rela_functional.__all__:
        assert hasattr(rela_functional, name)
