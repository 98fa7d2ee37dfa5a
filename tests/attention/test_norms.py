"""Norms over the concatenated heads."""

import math
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
import torch
from tests.attention.helpers import assert_near, gradients, kernel, norm_parameters, raises_naming, small_blocks
from torch import Tensor

from rela import GatedRMSNorm, RMSNorm
from rela._machine import find_compiler
from rela.attention.functional import gated_layer_norm, gated_rms_norm, layer_norm, rms_norm
from rela.attention.kernels.rms import ChunkedNorm
from rela.attention.naive import naive_norm
from rela.attention.norms import LayerNorm, build_norm, xavier_vector_
from rela.attention.spec import NORMS, NormName, resolve

NAMES = [name for name in NORMS if name != "none"]
RMS_NAMES = [name for name in NAMES if "rmsnorm" in name]
FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    "rmsnorm": rms_norm,
    "rmsnorm-xavier": rms_norm,
    "gated-rmsnorm": gated_rms_norm,
    "layernorm": layer_norm,
    "gated-layernorm": gated_layer_norm,
}
ORDER = ("weight", "bias", "gate")


def _apply(name: str, x: Tensor, parameters: dict[str, Tensor], eps: float = 1e-6) -> Tensor:
    return FUNCTIONS[name](x, *(parameters[key] for key in ORDER if key in parameters), eps)


def _draw(*shape: int, seed: int = 3, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(5,), (1, 1), (2, 3, 8), (63, 10), (2, 1, 3, 64), (0, 4), (2, 0, 4)])
@pytest.mark.parametrize("kernel_name", ["blocked", "naive"])
def test_norms_equal_the_definition(name: NormName, shape: tuple[int, ...], kernel_name: str) -> None:
    spec = resolve(f"relu+{name}")
    parameters = norm_parameters(spec, shape[-1])
    x = _draw(*shape).requires_grad_()
    expected = naive_norm(x, spec, parameters)
    with kernel(kernel_name), small_blocks(chunk=20):
        actual = _apply(name, x, parameters)
        leaves = [x, *parameters.values()]
        torch.testing.assert_close(actual, expected)
        for a, b in zip(gradients(actual, leaves), gradients(expected, leaves), strict=True):
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kernel_name", ["blocked", "naive"])
def test_gradcheck(name: NormName, kernel_name: str) -> None:
    parameters = norm_parameters(resolve(f"relu+{name}"), 4)
    x = _draw(5, 4)
    x[2] = 0.0
    x[3] *= 100

    def run(x: Tensor, *values: Tensor) -> Tensor:
        return _apply(name, x, dict(zip(parameters, values, strict=True)), eps=0.1)

    with kernel(kernel_name), small_blocks(chunk=8):
        inputs = (x.requires_grad_(), *parameters.values())
        assert torch.autograd.gradcheck(run, inputs)
        assert torch.autograd.gradgradcheck(run, inputs)


@pytest.mark.parametrize("name", ["rmsnorm", "gated-rmsnorm"])
def test_the_fused_norm_is_the_one_that_runs(name: NormName) -> None:
    x = _draw(3, 4).requires_grad_()
    parameters = norm_parameters(resolve(f"relu+{name}"), 4)
    fused = mock.patch.object(ChunkedNorm, "forward", autospec=True, side_effect=ChunkedNorm.forward)
    with kernel("blocked"), fused as forward:
        _apply(name, x, parameters)
        assert forward.call_count == 1
    with kernel("naive"), fused as forward:
        _apply(name, x, parameters)
        assert forward.call_count == 0


def test_the_fused_norm_of_a_view_with_strides() -> None:
    x = _draw(3, 8, 4).transpose(0, 1)[::2].requires_grad_()
    weight, gate = _draw(4, seed=4), _draw(4, seed=5)
    results = []
    for name in ("blocked", "naive"):
        with kernel(name), small_blocks(chunk=8):
            output = gated_rms_norm(x, weight, gate)
            results.append((output, *torch.autograd.grad(output.sum(), x)))
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("name", NAMES)
def test_large_rows_do_not_overflow(name: NormName) -> None:
    spec = resolve(f"relu+{name}")
    parameters = norm_parameters(spec, 6)
    x = _draw(4, 6, dtype=torch.float32)
    x = x * torch.tensor([1e-30, 1e4, 1e13, 1e30])[:, None]
    expected = naive_norm(x.double(), spec, parameters)
    x = x.requires_grad_()
    actual = _apply(name, x, {key: value.float() for key, value in parameters.items()})
    assert_near(actual, expected, 1e-5)
    assert torch.autograd.grad(actual.sum(), x)[0].isfinite().all()


@pytest.mark.parametrize("name", RMS_NAMES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_null_rows_stay_zero_and_their_gradients_bounded(name: NormName, dtype: torch.dtype) -> None:
    parameters = {k: torch.ones(8, dtype=dtype) for k in norm_parameters(resolve(f"relu+{name}"), 8)}
    x = torch.zeros(3, 8, dtype=dtype)
    x[1, 0] = torch.finfo(dtype).smallest_normal
    x[2] = 1e-4
    x.requires_grad_()
    output = _apply(name, x, parameters)
    assert output.dtype == dtype
    assert (output[0] == 0).all()
    (grad,) = torch.autograd.grad(output, x, torch.ones_like(output))
    assert grad.isfinite().all()
    assert grad.abs().max() <= 1.01 / math.sqrt(1e-6)
    assert grad[0].abs().max() > 0  # a null row still learns


@pytest.mark.parametrize("name", ["layernorm", "gated-layernorm"])
def test_layer_norm_recentres_null_heads(name: NormName) -> None:
    x = torch.zeros(1, 8, dtype=torch.float64)
    x[0, 4:] = 1.0  # the first head is null
    parameters = {k: torch.ones(8, dtype=torch.float64) for k in norm_parameters(resolve(f"relu+{name}"), 8)}
    parameters["bias"] = torch.zeros(8, dtype=torch.float64)
    assert (_apply(name, x, parameters)[0, :4] < -0.4).all()


def test_layer_norm_is_torchs() -> None:
    x = _draw(5, 8)
    weight, bias = _draw(8, seed=1), _draw(8, seed=2)
    expected = torch.nn.functional.layer_norm(x, (8,), weight, bias, 1e-6)
    torch.testing.assert_close(layer_norm(x, weight, bias), expected)


def test_the_bias_of_layer_norm_is_added() -> None:
    zeros, ones = torch.zeros(2, 4), torch.ones(4)
    bias = torch.tensor([1.0, 2.0, 3.0, 4.0])
    assert torch.equal(layer_norm(zeros, ones, bias), bias.expand(2, 4))
    assert torch.equal(gated_layer_norm(zeros, ones, bias, ones), bias.expand(2, 4) / 2)


def test_the_gate_reads_the_vector_before_it_is_normed() -> None:
    x = torch.full((1, 4), 3.0, dtype=torch.float64)
    ones = torch.ones(4, dtype=torch.float64)
    expected = torch.full((1, 4), 1 / (1 + math.exp(-6.0)), dtype=torch.float64)
    torch.testing.assert_close(gated_rms_norm(x, ones, 2 * ones), expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_statistics_are_computed_in_float32(dtype: torch.dtype) -> None:
    # In half precision the squares of these underflow, or the sum stops growing.
    for value in (1e-3, 1.0, 200.0):
        x = torch.full((1, 4096), value, dtype=dtype)
        expected = value / math.sqrt(value**2 + 1e-6)
        torch.testing.assert_close(
            rms_norm(x, torch.ones(4096, dtype=dtype)).double(),
            torch.full((1, 4096), expected, dtype=torch.float64),
            rtol=4 * torch.finfo(dtype).eps,
            atol=0,
        )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_modules_keep_the_dtype_and_equal_the_functions(name: NormName, dtype: torch.dtype) -> None:
    norm = build_norm(resolve(f"relu+{name}"), 8, 4, dtype=dtype)
    assert norm is not None
    x = _draw(2, 3, 8).to(dtype)
    output = norm(x)
    assert output.dtype == dtype
    assert torch.equal(output, _apply(name, x, dict(norm.named_parameters())))
    assert all(parameter.shape == (8,) for parameter in norm.parameters())


def test_softmax_has_no_norm() -> None:
    assert build_norm(resolve("softmax"), 8, 4) is None


def test_norms_start_as_the_paper_says() -> None:
    assert torch.equal(RMSNorm(16).weight, torch.ones(16))
    gated = GatedRMSNorm(16)
    assert torch.equal(gated.weight, torch.ones(16))
    layer = LayerNorm(16, gated=True)
    assert torch.equal(layer.weight, torch.ones(16))
    assert torch.equal(layer.bias, torch.zeros(16))
    assert LayerNorm(16).gate is None


def test_the_start_of_rela_i_is_xaviers() -> None:
    torch.manual_seed(0)
    bound = math.sqrt(3 / 512)
    norm = build_norm(resolve("rela-i"), 512, 64)
    assert isinstance(norm, RMSNorm)
    assert norm.weight.abs().max() <= bound
    assert norm.weight.abs().max() > 0.95 * bound
    assert norm.weight.min() < 0 < norm.weight.max()
    assert norm.weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.1)


def test_the_start_of_rela_i_by_head() -> None:
    torch.manual_seed(0)
    norm = build_norm(resolve("rela-i", xavier_fan="head"), 512, 64)
    assert isinstance(norm, RMSNorm)
    assert 0.95 * math.sqrt(3 / 64) < norm.weight.abs().max() <= math.sqrt(3 / 64)


@pytest.mark.parametrize("name", ["gated-rmsnorm", "gated-layernorm"])
def test_gates_start_near_one_half(name: NormName) -> None:
    torch.manual_seed(0)
    norm = build_norm(resolve(f"relu+{name}"), 512, 64)
    assert isinstance(norm, GatedRMSNorm | LayerNorm)
    assert norm.gate is not None
    assert 0 < norm.gate.abs().max() <= math.sqrt(3 / 512)
    gates = torch.sigmoid(norm.gate * _draw(100, 512, dtype=torch.float32))
    assert (gates - 0.5).abs().max() < 0.15


def test_starting_anew_is_repeatable() -> None:
    for norm in (RMSNorm(8, init="xavier"), GatedRMSNorm(8), LayerNorm(8, gated=True)):
        torch.manual_seed(5)
        norm.reset_parameters()
        first = [p.detach().clone() for p in norm.parameters()]
        for parameter in norm.parameters():
            torch.nn.init.constant_(parameter, 7.0)
        torch.manual_seed(5)
        norm.reset_parameters()
        assert all(torch.equal(a, b) for a, b in zip(first, norm.parameters(), strict=True))


def test_xavier_vector_takes_its_size_or_a_given_one() -> None:
    assert xavier_vector_(torch.empty(300)).abs().max() <= math.sqrt(3 / 300)
    assert xavier_vector_(torch.empty(300), 12).abs().max() > math.sqrt(3 / 300)


def test_module_errors() -> None:
    raises_naming(lambda: RMSNorm(0), "dim", "at least 1", "0")
    raises_naming(lambda: RMSNorm(8, eps=1e-8), "eps", "1e-6", "1e-08")
    raises_naming(lambda: GatedRMSNorm(8, eps=0.0), "eps", "1e-6")
    init: Any = "zeros"
    raises_naming(lambda: RMSNorm(8, init=init), "init", "ones", "xavier", "zeros")
    raises_naming(lambda: RMSNorm(8, fan=4), "fan", "xavier", "leave it out")
    for norm in (RMSNorm(8), GatedRMSNorm(8), LayerNorm(8)):
        raises_naming(lambda n=norm: n(torch.zeros(2, 2, 4)), "8", "(2, 2, 4)", "concatenate the heads")


@pytest.mark.parametrize("bad", [0, -1])
def test_a_fan_below_one_is_refused(bad: int) -> None:
    raises_naming(lambda: RMSNorm(8, init="xavier", fan=bad), "fan", str(bad))


def test_a_norm_refuses_an_eps_that_is_no_number() -> None:
    raises_naming(lambda: RMSNorm(8, eps=math.nan), "eps", "nan")


@pytest.mark.parametrize("name", NAMES)
def test_functional_norms_refuse_wrong_sizes(name: NormName) -> None:
    parameters = norm_parameters(resolve(f"relu+{name}"), 5)
    raises_naming(lambda: _apply(name, torch.zeros(2, 4), parameters), "expected", "5", "4")


@pytest.mark.parametrize("name", NAMES)
def test_functional_norms_refuse_an_eps_of_zero(name: NormName) -> None:
    # It gives NaN at null rows: 0 * rsqrt(0).
    parameters = norm_parameters(resolve(f"relu+{name}"), 4)
    raises_naming(lambda: _apply(name, torch.zeros(2, 4), parameters, eps=0.0), "eps", "1e-6")


@pytest.mark.parametrize("name", NAMES)
def test_functional_norms_refuse_integers(name: NormName) -> None:
    parameters = norm_parameters(resolve(f"relu+{name}"), 4)
    raises_naming(lambda: _apply(name, torch.ones(2, 4, dtype=torch.int64), parameters), "float", "int64")


def test_the_fused_norm_takes_a_gain_that_broadcasts_or_refuses_it() -> None:
    """Whatever forward accepts, backward does too."""
    weight = torch.ones(1, requires_grad=True)
    try:
        output = gated_rms_norm(_draw(3, 4, dtype=torch.float32), weight, torch.ones(4))
    except ValueError:
        return
    (grad,) = torch.autograd.grad(output.sum(), weight)
    assert grad.shape == (1,)


def test_norms_under_autocast_equal_norms_without() -> None:
    for dtype in (torch.bfloat16, torch.float16):
        for name in NAMES:
            norm = build_norm(resolve(f"relu+{name}"), 8, 4)
            assert norm is not None
            x = _draw(3, 8, dtype=torch.float32)
            with torch.autocast("cpu", dtype=dtype):
                inside = norm(x)
            assert torch.equal(inside, norm(x))


@pytest.mark.parametrize("name", ["native", "blocked", "naive"])
def test_in_place_only_without_gradients(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "native" and find_compiler() is None:
        pytest.skip("no C compiler on this machine")
    monkeypatch.setenv("RELA_KERNEL", name)
    norm, x = GatedRMSNorm(24), _draw(5, 24, dtype=torch.float32)
    raises_naming(lambda: norm(x, inplace=True), "inplace", "no_grad")
    with torch.no_grad():
        torch.testing.assert_close(norm(x.clone(), inplace=True), norm(x))
