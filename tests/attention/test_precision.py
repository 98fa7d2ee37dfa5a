"""Half precision, autocast, extreme inputs, and rows and inputs with nothing in them: never NaN, near float64."""

import copy
import math

import pytest
import torch
from tests.attention.helpers import (
    COMBINATIONS,
    Inputs,
    assert_near,
    draw_mask,
    fast,
    gradients,
    kernel,
    make_inputs,
    norm_parameters,
)
from torch import Tensor

from rela.attention import MultiheadAttention
from rela.attention.functional import attention, rela_attention
from rela.attention.masks import Mask, split_mask
from rela.attention.norms import GatedRMSNorm
from rela.attention.spec import MAPS, PRESETS, AttentionSpec, MapName, resolve

TOLERANCES = {torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 3e-2}
DTYPES = list(TOLERANCES)


def _fully_masked_row(additive: bool) -> Mask:
    allowed = draw_mask(5, 7, share=0.5)
    allowed[1] = False
    if not additive:
        return Mask(allowed)
    return split_mask(torch.zeros(5, 7).masked_fill(~allowed, -math.inf), true_means="allowed")


MASKS = {
    "none": Mask(),
    "a row fully masked": _fully_masked_row(additive=False),
    "a row fully masked by -inf": _fully_masked_row(additive=True),
    "all masked": Mask(torch.zeros(5, 7).bool()),
    "two causal rows see nothing": Mask(causal_offset=-2),
}


def _double(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: t.detach().double().requires_grad_() for name, t in tensors.items()}


def _floor(name: str, spec: AttentionSpec, dtype: torch.dtype, size: float) -> float:
    """What rounding alone may change, whatever the result: terms that cancel are this much larger than their sum."""
    smallest = 6e-8 if dtype == torch.float16 else 1e-12
    if spec.is_pointwise or name not in ("query", "key"):
        return smallest
    by_value = size if spec.norm == "none" else size / max(size, 1e-3)
    return smallest + 1e-6 * size * by_value


def _check(low: Inputs, spec: AttentionSpec, mask: Mask, size: float, tolerance: float) -> None:
    """Outputs and all gradients are near those of float64 for the same, rounded, inputs."""
    dtype = low.query.dtype
    dim = low.query.shape[-3] * low.value.shape[-1]
    low_parameters = {k: v.detach().to(dtype).requires_grad_() for k, v in norm_parameters(spec, dim).items()}
    high = low.leaves(torch.float64)
    high_parameters = _double(low_parameters)
    output = fast(low, spec, low_parameters, mask)
    with kernel("naive"):
        expected = fast(high, spec, high_parameters, mask)
    assert output.dtype == dtype
    assert_near(output, expected, tolerance, floor=_floor("output", spec, dtype, size))
    names = [*Inputs._fields, *low_parameters]
    actual = gradients(output, [*low, *low_parameters.values()])
    wanted = gradients(expected, [*high, *high_parameters.values()])
    for name, a, b in zip(names, actual, wanted, strict=True):
        assert_near(a, b, tolerance, floor=_floor(name, spec, dtype, size))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", COMBINATIONS)
def test_extreme_inputs(name: str, dtype: torch.dtype) -> None:
    for size in (1e4, 1.0, 1e-6):
        for mask in MASKS.values():
            _check(make_inputs(dtype=dtype, size=size), resolve(name), mask, size, TOLERANCES[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["relu+none", "leaky+none", "sigmoid+none", "relu+gated-rmsnorm", "softmax+none"])
def test_grouped_queries_of_extreme_inputs(name: str, dtype: torch.dtype) -> None:
    for size in (1e4, 1.0):
        low = make_inputs(heads=4, kv_heads=1, dtype=dtype, size=size)
        _check(low, resolve(name), Mask(), size, TOLERANCES[dtype])


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float64])
@pytest.mark.parametrize("name", COMBINATIONS)
def test_no_keys_and_no_queries(name: str, dtype: torch.dtype) -> None:
    spec = resolve(name)
    parameters = {k: v.detach().to(dtype).requires_grad_() for k, v in norm_parameters(spec, 8).items()}
    for offset in (None, 0, -2):
        for tq, tk in ((5, 0), (0, 7), (0, 0)):
            inputs = make_inputs(tq, tk, dtype=dtype)
            output = fast(inputs, spec, parameters, Mask(causal_offset=offset))
            assert output.shape == (2, tq, 8)
            assert output.dtype == dtype
            if spec.norm in ("layernorm", "gated-layernorm"):
                bias = parameters["bias"] / (2 if spec.norm.startswith("gated") else 1)
                torch.testing.assert_close(output, bias.expand_as(output))
            else:
                assert (output == 0).all()
            leaves = [*inputs, *parameters.values()]
            grads = gradients(output, leaves)
            assert [grad.shape for grad in grads] == [leaf.shape for leaf in leaves]
            assert all((grad == 0).all() for grad in grads[:3])
            assert all(grad.isfinite().all() for grad in grads)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("name", MAPS)
def test_no_keys_with_a_mask_without_columns(name: MapName, need_weights: bool) -> None:
    inputs = make_inputs(5, 0)
    for mask in (torch.ones(5, 0).bool(), torch.zeros(5, 0, dtype=torch.float64)):
        output = attention(*inputs, name, attn_mask=mask, need_weights=need_weights)[0]
        assert torch.equal(output, torch.zeros(2, 2, 5, 4, dtype=torch.float64))


def _null_inputs(dtype: torch.dtype, size: float) -> Inputs:
    """Queries that point away from all keys: every score is below zero."""
    query, key, value = make_inputs(dtype=dtype, size=size)
    return Inputs(-query.abs(), key.abs(), value).leaves()


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float64])
@pytest.mark.parametrize("size", [1e4, 1.0, 1e-6])
@pytest.mark.parametrize("map_name", ["relu", "relu2"])
@pytest.mark.parametrize("norm_name", ["none", "rmsnorm", "rmsnorm-xavier", "gated-rmsnorm"])
def test_null_rows_are_exactly_zero(map_name: str, norm_name: str, size: float, dtype: torch.dtype) -> None:
    spec = resolve(f"{map_name}+{norm_name}")
    inputs = _null_inputs(dtype, size)
    parameters = {k: v.detach().to(dtype).requires_grad_() for k, v in norm_parameters(spec, 8).items()}
    output = fast(inputs, spec, parameters)
    assert (output == 0).all()
    assert all((grad == 0).all() for grad in gradients(output, [*inputs, *parameters.values()]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["relu+rmsnorm", "relu+gated-rmsnorm", "relu+gated-layernorm", "relu2+rmsnorm"])
def test_gradients_at_near_null_rows_are_bounded(name: str, dtype: torch.dtype) -> None:
    """The norm's slope is at most 1/sqrt(eps) = 1000, so no gradient is larger than that times the inputs' sizes."""
    spec = resolve(name)
    parameters = {k: torch.ones(8, dtype=dtype) for k in norm_parameters(spec, 8)}
    for weight in (1e-1, 1e-2, 1e-3, 1e-4, 1e-6, 1e-12, 0.0):
        query, key, value = make_inputs(dtype=dtype)
        near_null = Inputs((query.detach() * weight).requires_grad_(), key, value)
        output = fast(near_null, spec, parameters)
        for grad in gradients(output, near_null):
            assert grad.isfinite().all()
            assert grad.abs().max() < 1e3 * 7 * 4 * 3**3


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", COMBINATIONS)
def test_autocast(name: str, dtype: torch.dtype) -> None:
    """Autocast rounds what comes in; inside, nothing is rounded again."""
    spec = resolve(name)
    parameters = {k: v.detach().float().requires_grad_() for k, v in norm_parameters(spec, 8).items()}
    for size in (1e4, 1.0, 1e-6):
        for mask in (MASKS["none"], MASKS["a row fully masked"]):
            inputs = make_inputs(dtype=torch.float32, size=size)
            leaves = [*inputs, *parameters.values()]
            with torch.autocast("cpu", dtype=dtype):
                output = fast(inputs, spec, parameters, mask)
                rounded = fast(Inputs(*(t.to(dtype) for t in inputs)), spec, parameters, mask)
            assert output.dtype == torch.float32
            outside = fast(inputs, spec, parameters, mask)
            assert torch.equal(output, outside)
            for a, b in zip(gradients(output, leaves), gradients(outside, leaves), strict=True):
                assert torch.equal(a, b)
            assert rounded.dtype == dtype
            assert not rounded.isnan().any()
            assert not any(grad.isnan().any() for grad in gradients(rounded, leaves))


def test_autocast_around_the_public_function() -> None:
    norm = GatedRMSNorm(8)
    inputs = make_inputs(dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = rela_attention(*inputs, norm)
        low = rela_attention(*inputs.each(Tensor.bfloat16), norm)
    assert torch.equal(inside, rela_attention(*inputs, norm))
    assert low.dtype == torch.bfloat16
    torch.testing.assert_close(low.float(), inside, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_masks_just_above_the_limit_are_added(name: MapName, need_weights: bool, dtype: torch.dtype) -> None:
    """Half the minimum forbids; the next number above it is a finite bias like any other."""
    half = torch.tensor(torch.finfo(dtype).min / 2, dtype=dtype)
    above = torch.nextafter(half, torch.tensor(0.0, dtype=dtype))
    mask = torch.stack([half, above, torch.zeros((), dtype=dtype)])
    mask = mask[torch.tensor([[0, 1, 2], [0, 0, 0], [1, 1, 1], [2, 2, 2]])]
    low = make_inputs(4, 3, dtype=dtype)
    high = low.leaves(torch.float64)
    high_mask = mask.double().masked_fill(mask == half, -math.inf)
    output, weights = attention(*low, name, attn_mask=mask, need_weights=need_weights)
    expected, expected_weights = attention(*high, name, attn_mask=high_mask)
    if name not in ("softmax", "sparsemax", "entmax15", "entmax", "topk"):
        assert_near(output, expected, TOLERANCES[dtype])
    else:  # beside such a bias the scores are lost, in any row map
        assert_near(output[..., [0, 1, 3], :], expected[..., [0, 1, 3], :], TOLERANCES[dtype])
    assert not output.isnan().any()
    assert not any(grad.isnan().any() for grad in gradients(output, low))
    if need_weights:
        assert weights is not None
        assert expected_weights is not None
        assert (weights[..., 0, 0] == 0).all()
        assert (weights[..., 1, :] == 0).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", MAPS)
def test_half_precision_is_rounded_once(name: MapName, dtype: torch.dtype) -> None:
    """Outputs of half precision are those of float32, rounded; weights too."""
    low = make_inputs(dtype=dtype)
    output, weights = attention(*low, name)
    expected, expected_weights = attention(*low.each(Tensor.float), name)
    assert weights is not None
    assert expected_weights is not None
    assert torch.equal(output, expected.to(dtype))
    assert torch.equal(weights, expected_weights.to(dtype))


@pytest.mark.parametrize("size", [1e4, 1.0, 1e-6])
@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", [*PRESETS, "gelu+none", "leaky+none", "relu2+gated-rmsnorm"])
def test_whole_modules_in_half_precision(name: str, dtype: torch.dtype, autocast: bool, size: float) -> None:
    """Never NaN, neither in outputs nor in gradients; infinite only where float64 exceeds the dtype."""
    torch.manual_seed(0)
    module = MultiheadAttention(64, 4, attention=name, batch_first=True)
    x = torch.randn(2, 9, 64) * size
    if not autocast:
        module, x = module.to(dtype), x.to(dtype)
    wide, wide_x = copy.deepcopy(module).double(), x.double()
    x.requires_grad_()
    with torch.autocast("cpu", dtype, enabled=autocast):
        output = module(x, x, x, need_weights=False)[0]
        with_weights = module(x, x, x, need_weights=True)[0]
    assert output.dtype == with_weights.dtype == dtype
    expected = wide(wide_x, wide_x, wide_x, need_weights=False)[0]
    limit = torch.finfo(dtype).max
    for got in (output, with_weights):
        assert not got.isnan().any()
        assert not (got.isinf() & (expected.abs() < 0.9 * limit)).any()
    for grad in torch.autograd.grad(output, [x, *module.parameters()], torch.randn_like(output)):
        assert not grad.isnan().any()


def test_unbounded_heads_are_projected_exactly() -> None:
    """Heads beyond float16's range whose projection is within it: half precision must not lose them on the way."""
    torch.manual_seed(0)
    module = MultiheadAttention(16, 2, attention="relu", batch_first=True).half()
    with torch.no_grad():
        module.out_proj.weight.mul_(1e-6)
    x = (torch.randn(1, 8, 16) * 300).half()
    wide_x = x.double()
    expected = copy.deepcopy(module).double()(wide_x, wide_x, wide_x)[0]
    hidden_beyond = expected.abs().max() / module.out_proj.weight.double().abs().sum(1).max()
    assert hidden_beyond > torch.finfo(torch.float16).max
    torch.testing.assert_close(module(x, x, x)[0].double(), expected, rtol=2e-3, atol=1e-3)
    memory = module.project_keys_values(x)
    torch.testing.assert_close(module.attend(x, memory)[0].double(), expected, rtol=2e-3, atol=1e-3)
