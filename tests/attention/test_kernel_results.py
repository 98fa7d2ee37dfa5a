"""The fast kernels against the plain formulas: outputs and gradients."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.attention.helpers import (
    Inputs,
    draw_mask,
    gradients,
    kernel,
    make_inputs,
    small_blocks,
)
from tests.attention.kernel_helpers import FAST, assert_same, dtype_of, needs_compiler, plain_results, results
from torch import Tensor

from rela.attention.functional import attend, gated_rms_norm, relu_attention
from rela.attention.masks import Mask
from rela.attention.spec import resolve


@st.composite
def _cases(draw: st.DrawFn, largest: int) -> dict[str, Any]:
    """A shape, a mask of some kind, a threshold of some kind."""
    batch, heads = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    tq, tk = draw(st.integers(1, largest)), draw(st.integers(1, largest))
    d, dv = draw(st.sampled_from([1, 2, 5, 8, 17])), draw(st.sampled_from([1, 3, 8, 33]))
    shape = tuple(draw(st.sampled_from([1, n])) for n in (batch, heads, tq, tk))
    shape = shape[draw(st.integers(0, 3)) :]
    return {
        "inputs": {"tq": tq, "tk": tk, "d": d, "dv": dv, "batch": (batch,), "heads": heads},
        "allowed": draw(st.sampled_from([None, shape])),
        "bias": draw(st.sampled_from([None, shape])),
        "offset": draw(st.one_of(st.none(), st.integers(-tq - 1, tk + 1))),
        "threshold": draw(st.sampled_from([0.0, 0.4, -0.7, "learned"])),
        "length_power": draw(st.sampled_from([0.0, 0.5])),
        "scale": draw(st.sampled_from([None, 0.3, -1.0])),
        "block": draw(st.integers(1, 60)),
        "rows": draw(st.integers(1, 6)),
        "strided": draw(st.booleans()),
        "seed": draw(st.integers(0, 100)),
    }


def _strided(tensor: Tensor) -> Tensor:
    """The same numbers, spread out in memory: heads last, every other element."""
    wide = torch.empty(*tensor.shape[:1], *tensor.shape[2:3], tensor.shape[1], 2 * tensor.shape[3], dtype=tensor.dtype)
    view = wide.transpose(1, 2)[..., ::2]
    view.copy_(tensor.detach())
    return view.requires_grad_()


def _check_case(name: str, case: dict[str, Any]) -> None:
    dtype = dtype_of(name)
    inputs = make_inputs(**case["inputs"], dtype=dtype, seed=case["seed"])
    if case["strided"]:
        inputs = Inputs(*(_strided(t) for t in inputs))
    heads = case["inputs"]["heads"]
    allowed = None if case["allowed"] is None else draw_mask(*case["allowed"], seed=case["seed"])
    generator = torch.Generator().manual_seed(case["seed"])
    bias = None if case["bias"] is None else torch.randn(case["bias"], generator=generator, dtype=dtype)
    threshold = case["threshold"]
    if threshold == "learned":
        threshold = torch.randn(heads, generator=generator, dtype=dtype).requires_grad_()
    mask = Mask(allowed, bias, case["offset"])
    options = {"length_power": case["length_power"], "scale": case["scale"]}
    with small_blocks(elements=case["block"], causal_rows=case["rows"]):
        actual = results(name, inputs, mask, threshold, **options)
    assert_same(name, actual, plain_results(inputs, mask, threshold, **options))
    _check_weights(name, inputs, mask, threshold, actual[0], **options)


def _check_weights(
    name: str, inputs: Inputs, mask: Mask, threshold: Tensor | float, output: Tensor, **options: float
) -> None:
    """Those that a kernel shows are the plain formula's, and showing them changes nothing."""
    spec = resolve("relu", **options)
    shown: list[Tensor] = []
    for chosen in (name, "naive"):
        with kernel(chosen), torch.no_grad():
            attended = attend(*inputs, spec, mask, threshold=threshold, need_weights=True)
        assert attended.weights is not None
        shown += [attended.weights, attended.output]
    assert_same(name, shown[:1], [shown[2].double()])
    assert torch.equal(shown[1], output) or name != "native"


@settings(max_examples=150)
@given(case=_cases(largest=9))
def test_the_blocked_kernel_equals_the_plain_formulas(case: dict[str, Any]) -> None:
    _check_case("blocked", case)


@needs_compiler
@settings(max_examples=150)
@given(case=_cases(largest=140))
def test_the_native_kernel_equals_the_plain_formulas(case: dict[str, Any]) -> None:
    _check_case("native", case)


@pytest.mark.parametrize("name", FAST)
@pytest.mark.parametrize("d", [1, 8, 16, 31, 64, 80, 128])
@pytest.mark.parametrize(("tq", "tk"), [(1, 1), (63, 111), (96, 64), (97, 65), (111, 63), (1, 200), (200, 1)])
def test_awkward_sizes(name: str, tq: int, tk: int, d: int) -> None:
    inputs = make_inputs(tq, tk, d, dv=129 - d, batch=(1,), heads=3, dtype=dtype_of(name))
    mask = Mask(draw_mask(1, 3, tq, tk, share=0.8), None, tk // 2)
    threshold = torch.tensor([0.2, 0.0, -0.3], dtype=dtype_of(name)).requires_grad_()
    with small_blocks(elements=500, causal_rows=16):
        actual = results(name, inputs, mask, threshold)
    assert_same(name, actual, plain_results(inputs, mask, threshold))


@pytest.mark.parametrize("name", FAST)
@pytest.mark.parametrize("layout", ["expanded batch", "expanded heads", "transposed", "sliced rows", "packed"])
def test_inputs_of_any_layout(name: str, layout: str) -> None:
    dtype = dtype_of(name)
    query, key, value = (t.detach() for t in make_inputs(5, 5, 8, batch=(3,), heads=4, dtype=dtype))
    match layout:
        case "expanded batch":
            views = [t[:1].expand(3, -1, -1, -1) for t in (query, key, value)]
        case "expanded heads":
            views = [t[:, :1].expand(-1, 4, -1, -1) for t in (query, key, value)]
        case "transposed":
            views = [t.mT.contiguous().mT for t in (query, key, value)]
        case "sliced rows":
            views = [torch.cat([t, t], 2)[:, :, ::2] for t in (query, key, value)]
        case _:  # as the packed projection of self-attention leaves them
            packed = torch.randn(3, 5, 3, 4, 8, dtype=dtype, generator=torch.Generator().manual_seed(1))
            views = list(packed.permute(2, 0, 3, 1, 4).unbind(0))
    inputs = Inputs(*(view.requires_grad_() for view in views))
    mask = Mask(draw_mask(3, 1, 1, 5).expand(3, 4, 5, 5), None, 1)
    assert_same(name, results(name, inputs, mask), plain_results(inputs, mask))


@pytest.mark.parametrize("name", FAST)
def test_gradients_that_are_expanded_or_strided(name: str) -> None:
    """As ``output.sum()`` and a transposed use of the output send them back."""
    inputs = make_inputs(6, 7, 4, dtype=dtype_of(name))
    functions: list[Callable[[Tensor], Tensor]] = [
        lambda output: output.sum(),
        lambda output: (output.mT * torch.arange(6, dtype=output.dtype)).sum(),
        lambda output: output[:, :, ::2, ::2].square().sum(),
        lambda output: output.mean((0, 2))[0, 0],
    ]
    for function in functions:
        grads = []
        for kernel_name in (name, "naive"):
            with kernel(kernel_name), small_blocks():
                grads.append(torch.autograd.grad(function(relu_attention(*inputs)), inputs))
        for a, b in zip(*grads, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", FAST)
def test_only_the_wanted_gradients(name: str) -> None:
    for wanted in range(3):
        inputs = make_inputs(dtype=dtype_of(name)).each(Tensor.detach)
        inputs[wanted].requires_grad_()
        with kernel(name):
            grads = torch.autograd.grad(relu_attention(*inputs).sum(), inputs[wanted])
        with kernel("naive"):
            expected = torch.autograd.grad(relu_attention(*inputs).sum(), inputs[wanted])
        torch.testing.assert_close(grads, expected)
    with kernel(name), torch.no_grad():
        assert not relu_attention(*make_inputs(dtype=dtype_of(name))).requires_grad


@pytest.mark.parametrize("name", FAST)
@pytest.mark.parametrize("threshold_dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_thresholds_of_any_float_dtype(name: str, threshold_dtype: torch.dtype) -> None:
    """A module in half precision computes in float32 but keeps its threshold as it is."""
    inputs = make_inputs(dtype=dtype_of(name))
    threshold = torch.tensor([0.25, -0.5], dtype=threshold_dtype).requires_grad_()
    actual = results(name, inputs, Mask(), threshold)
    expected = plain_results(inputs, Mask(), threshold)
    assert actual[-1].dtype == threshold_dtype
    torch.testing.assert_close(actual[0].double(), expected[0], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(actual[-1].double(), expected[-1], rtol=0.01, atol=0.01)


@pytest.mark.parametrize("name", FAST)
@pytest.mark.parametrize("bias_dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_biases_of_any_float_dtype(name: str, bias_dtype: torch.dtype) -> None:
    inputs = make_inputs(dtype=dtype_of(name))
    bias = torch.tensor([0.25, -0.5, 0.0, 1.0, 2.0, -3.0, 0.5], dtype=bias_dtype)
    assert_same(name, results(name, inputs, Mask(None, bias)), plain_results(inputs, Mask(None, bias)))


@pytest.mark.parametrize("name", FAST)
def test_the_result_does_not_depend_on_the_number_of_threads(name: str) -> None:
    inputs = make_inputs(100, 100, 8, batch=(3,), heads=3, dtype=torch.float32)
    weight, gate = (torch.randn(8, generator=torch.Generator().manual_seed(i)).requires_grad_() for i in range(2))
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            with kernel(name):
                output = gated_rms_norm(relu_attention(*inputs, is_causal=True), weight, gate)
                found.append([output, *gradients(output, [*inputs, weight, gate])])
    finally:
        torch.set_num_threads(before)
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", FAST)
def test_the_same_call_gives_the_same_bits(name: str) -> None:
    inputs = make_inputs(50, 70, 8, dtype=torch.float32)
    runs = [results(name, inputs, Mask(causal_offset=10)) for _ in range(2)]
    assert all(torch.equal(a, b) for a, b in zip(*runs, strict=True))
