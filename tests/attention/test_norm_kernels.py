"""The fused norms against the plain formulas."""

from collections.abc import Callable

import pytest
import torch
from tests.attention.helpers import (
    gradients,
    kernel,
    small_blocks,
)
from tests.attention.kernel_helpers import FAST, assert_same, dtype_of, needs_compiler
from torch import Tensor

import rela
from rela.attention.functional import gated_rms_norm, rms_norm
from rela.attention.kernels.rms import LONGEST_ROW


@pytest.mark.parametrize("name", FAST)
@pytest.mark.parametrize("gated", [True, False])
@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (2, 5, 16), (33, 17), (2, 3, 4, 31), (7, 512), (64,)])
def test_norm_kernels_equal_the_plain_formulas(name: str, gated: bool, shape: tuple[int, ...]) -> None:
    dim = shape[-1]
    generator = torch.Generator().manual_seed(0)
    dtype = dtype_of(name)
    x = (torch.randn(shape, generator=generator, dtype=torch.float64) * 3).to(dtype)
    if len(shape) > 1:
        x[0] = 0.0
        x[-1] *= 1e3
    parameters = [torch.randn(dim, generator=generator, dtype=torch.float64) for _ in range(2 if gated else 1)]
    function: Callable[..., Tensor] = gated_rms_norm if gated else rms_norm
    found = []
    for kernel_name, wanted in ((name, dtype), ("naive", torch.float64)):
        leaves = [t.detach().to(dtype).to(wanted).requires_grad_() for t in (x, *parameters)]
        with kernel(kernel_name), small_blocks(chunk=20):
            output = function(*leaves)
            found.append([output, *gradients(output, leaves)])
    assert_same(name, *found)


@pytest.mark.parametrize("name", FAST)
@pytest.mark.parametrize("gated", [True, False])
@pytest.mark.parametrize("size", [1e-30, 1e-12, 1e-4, 1e4, 1e11, 0.9 * LONGEST_ROW, 1.1 * LONGEST_ROW, 1e20, 1e37])
def test_norm_kernels_at_rows_of_any_size(name: str, gated: bool, size: float) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(5, 24, generator=generator, dtype=torch.float64) * size
    parameters = [torch.randn(24, generator=generator, dtype=torch.float64) for _ in range(2 if gated else 1)]
    function: Callable[..., Tensor] = gated_rms_norm if gated else rms_norm
    found = []
    for kernel_name, dtype in ((name, torch.float32), ("naive", torch.float64)):
        leaves = [t.detach().float().to(dtype).requires_grad_() for t in (x, *parameters)]
        with kernel(kernel_name), small_blocks(chunk=48):
            output = function(*leaves)
            found.append([output, *gradients(output, leaves)])
    for i, (a, b) in enumerate(zip(*found, strict=True)):
        assert a.isfinite().all()
        # A gate that is nearly shut or open has a gradient below float32's rounding of the gate itself.
        rounding = 1e-7 * size if i == 3 else 0.0
        torch.testing.assert_close(a.double(), b, rtol=1e-4, atol=1e-4 * b.abs().max().item() + rounding)


@pytest.mark.parametrize("name", FAST)
def test_saturated_gates(name: str) -> None:
    for gate in (1e3, -1e3, 1e30, -1e30):
        x, weight = torch.full((2, 9), 3.0).requires_grad_(), torch.ones(9).requires_grad_()
        gates = torch.full((9,), gate).requires_grad_()
        with kernel(name):
            output = gated_rms_norm(x, weight, gates)
        expected = torch.ones(2, 9) if gate > 0 else torch.zeros(2, 9)
        torch.testing.assert_close(output, expected, rtol=1e-5, atol=1e-30)
        assert all(grad.isfinite().all() for grad in gradients(output, [x, weight, gates]))


@pytest.mark.parametrize("name", FAST)
def test_gates_over_their_whole_range(name: str) -> None:
    x = torch.linspace(-100, 100, 4001)
    x[2000] = 0.5
    with kernel(name):
        output = gated_rms_norm(x[:, None], torch.ones(1), torch.ones(1), 1e-6)[:, 0]
    x = x.double()
    expected = torch.sigmoid(x) * x / (x.square() + 1e-6).sqrt()
    torch.testing.assert_close(output.double(), expected, rtol=2e-6, atol=1e-37)


@needs_compiler
@pytest.mark.parametrize("rows", [1, 63, 64, 1000, 6400])
def test_gradients_do_not_depend_on_the_number_of_threads(rows: int) -> None:
    """Sums over rows are taken in the same parts."""
    torch.manual_seed(0)
    leaves = [torch.randn(rows, 96), torch.randn(96), torch.randn(96)]
    before = torch.get_num_threads()
    found: list[list[Tensor]] = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            x, weight, gate = (leaf.clone().requires_grad_() for leaf in leaves)
            with kernel("native"):
                output = gated_rms_norm(x, weight, gate)
                found.append([output, *gradients(output, [x, weight, gate])])
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for other in found[1:] for a, b in zip(found[0], other, strict=True))


@pytest.mark.parametrize("name", [*FAST, "naive"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (2, 16), (2, 63), (1, 200)])
@pytest.mark.parametrize(("dim", "heads"), [(64, 8), (30, 3), (80, 1), (6, 6)])
@pytest.mark.parametrize("attention", ["rela-g", "relu", "rela-i"])
def test_the_bias_of_the_projection_whoever_adds_it(
    name: str, shape: tuple[int, int], dim: int, heads: int, attention: str
) -> None:
    """Without gradients the native kernel adds it; the result is that of the plain way."""
    torch.manual_seed(0)
    module = rela.MultiheadAttention(dim, heads, attention=attention, batch_first=True)
    torch.nn.init.normal_(module.get_parameter("in_proj_bias"))
    x = torch.randn(*shape, dim)
    padding = torch.arange(shape[1]) >= torch.randint(1, shape[1] + 1, (shape[0], 1))
    with kernel(name):
        for options in ({}, {"is_causal": True}, {"key_padding_mask": padding}):
            expected = module(x, x, x, need_weights=False, **options)[0]
            with torch.no_grad():
                got = module(x, x, x, need_weights=False, **options)[0]
            torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
