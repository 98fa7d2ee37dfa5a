"""The Triton kernels in Triton's interpreter, on the CPU, against the definitions in float64.

test_triton.py runs this file in a process of its own: the interpreter must be asked for before triton is imported.
"""

import os
from collections.abc import Callable
from typing import NamedTuple
from unittest import mock

import pytest
import torch
from tests.attention.helpers import Inputs, LargestTensor, draw_mask, gradients, kernel, make_inputs
from torch import Tensor

import rela
from rela.attention import kernels
from rela.attention.functional import attend, relu_attention
from rela.attention.kernels import gpu, triton_relu
from rela.attention.kernels.relu import Inputs as KernelInputs
from rela.attention.kernels.relu import Options
from rela.attention.kernels.triton_relu import Blocks, TritonKernel
from rela.attention.masks import Mask
from rela.attention.naive import naive_attention
from rela.attention.spec import resolve

RELU = resolve("relu")
SIDE = 32  # of the interpreter's blocks


@pytest.fixture(autouse=True)
def _forced(monkeypatch: pytest.MonkeyPatch) -> None:
    assert os.environ["TRITON_INTERPRET"] == "1", "run test_triton.py, which sets it"
    monkeypatch.setenv("RELA_KERNEL", "triton")


def _naive(inputs: Inputs, mask: Mask = Mask(), threshold: Tensor | float = 0.0) -> list[Tensor]:  # noqa: B008
    """Output and gradients by the definitions, in float64."""
    double = inputs.leaves(torch.float64)
    allowed = mask.all_allowed(inputs.query.shape[-2], inputs.key.shape[-2], torch.device("cpu"))
    if isinstance(threshold, Tensor):
        learned = threshold.detach().double().requires_grad_()
        output, _ = naive_attention(*double, RELU, allowed=allowed, bias=mask.bias, threshold=learned)
        return [output, *gradients(output, [*double, learned])]
    output, _ = naive_attention(*double, resolve("relu", threshold=threshold), allowed=allowed, bias=mask.bias)
    return [output, *gradients(output, double)]


def _triton(inputs: Inputs, mask: Mask = Mask(), threshold: Tensor | float = 0.0) -> list[Tensor]:  # noqa: B008
    output = attend(*inputs, RELU, mask, threshold=threshold).output
    learned = [threshold] if isinstance(threshold, Tensor) else []
    return [output, *gradients(output, [*inputs, *learned])]


def _assert_same(actual: list[Tensor], expected: list[Tensor], tolerance: float = 2e-6) -> None:
    for a, b in zip(actual, expected, strict=True):
        assert a.shape == b.shape
        scale = max(1.0, b.abs().max().item())
        torch.testing.assert_close(a.double() / scale, b.double() / scale, rtol=0, atol=tolerance)


# ---------------------------------------------------------------------- outputs and gradients


class Case(NamedTuple):
    tq: int
    tk: int
    d: int
    dv: int
    mask: Mask = Mask()
    threshold: float | str = 0.0


def _bias(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(3))


CASES = {
    "one": Case(1, 1, 5, 5),
    "one query": Case(1, 65, 64, 128, Mask(None, None, 64), 0.1),
    "one key": Case(65, 1, 33, 5, threshold="by head"),
    "odd": Case(17, 65, 33, 64, threshold=0.3),
    "more queries": Case(65, 17, 64, 33, threshold=-0.5),
    "large": Case(65, 65, 128, 128, Mask(None, None, 0), "by head"),
    "padding": Case(17, 65, 5, 5, Mask(draw_mask(2, 1, 1, 65, seed=1))),
    "places": Case(65, 33, 5, 5, Mask(draw_mask(65, 33, seed=2)), "by head"),
    "places of heads": Case(33, 17, 8, 5, Mask(draw_mask(1, 2, 33, 17, seed=3))),
    "additive": Case(17, 40, 16, 5, Mask(None, _bias(2, 2, 17, 40))),
    "additive for keys": Case(40, 17, 16, 5, Mask(None, _bias(17)), 0.2),
    "causal": Case(65, 65, 5, 33, Mask(None, None, 0)),
    "one block and one key": Case(SIDE, SIDE + 1, 5, 33, Mask(None, None, 1), -2.0),
    "bottom-right": Case(17, 65, 5, 5, Mask(None, None, 48)),
    "causal that hides the first rows": Case(65, 17, 5, 5, Mask(None, None, -40), "by head"),
    "causal that hides all": Case(17, 17, 5, 5, Mask(None, None, -17), "by head"),
    "all kinds": Case(40, 65, 33, 17, Mask(draw_mask(2, 1, 40, 65, seed=4), _bias(2, 1, 65), SIDE + 1), "by head"),
    "nothing allowed": Case(17, 17, 5, 5, Mask(torch.zeros(17, 17, dtype=torch.bool))),
}


@pytest.mark.parametrize("name", CASES)
def test_outputs_and_gradients(name: str) -> None:
    tq, tk, d, dv, mask, threshold = CASES[name]
    batch = (2,) if "padding" in name or "additive" in name or "all kinds" in name else (1,)
    inputs = make_inputs(tq, tk, d, dv=dv, batch=batch, dtype=torch.float32, seed=len(name))
    shift = torch.tensor([0.2, -0.3]).requires_grad_() if isinstance(threshold, str) else threshold
    assert type(kernels.attention_kernel(*inputs)) is TritonKernel
    _assert_same(_triton(inputs, mask, shift), _naive(inputs, mask, shift))


@pytest.mark.parametrize("layout", ["packed", "transposed", "every other", "expanded"])
def test_inputs_of_any_layout(layout: str) -> None:
    drawn = torch.randn(3, 2, 40, 2, 8, generator=torch.Generator().manual_seed(0))
    views = list(drawn.transpose(2, 3).unbind(0))  # as the packed projection of self-attention leaves them
    if layout == "transposed":
        views = [view.mT.contiguous().mT for view in views]
    elif layout == "every other":
        views = [view[..., ::2, ::2] for view in views]
    elif layout == "expanded":
        views = [view[:1, :1].expand(2, 2, -1, -1) for view in views]
    inputs = Inputs(*(view.detach().requires_grad_() for view in views))
    length = inputs.query.shape[2]
    mask = Mask(draw_mask(2, 1, 1, length).expand(2, 2, length, length), None, 1)
    _assert_same(_triton(inputs, mask), _naive(inputs, mask))


def test_gradients_that_are_expanded_strided_or_absent() -> None:
    inputs = make_inputs(6, 7, 4, batch=(1,), dtype=torch.float32)
    functions: list[Callable[[Tensor], Tensor]] = [
        lambda output: output.sum(),
        lambda output: (output.mT * torch.arange(6.0)).sum(),
        lambda output: output[:, :, ::2, ::2].square().sum(),
        lambda output: torch.view_as_complex(output.unflatten(-1, (2, 2))).conj().imag.sum(),  # sends minus signs
    ]
    for function in functions:
        grads = torch.autograd.grad(function(relu_attention(*inputs)), inputs)
        with kernel("naive"):
            expected = torch.autograd.grad(function(relu_attention(*inputs)), inputs)
        _assert_same(list(grads), list(expected))
    query = inputs.query.detach()
    (grad,) = torch.autograd.grad(relu_attention(query, inputs.key.detach(), inputs.value).sum(), inputs.value)
    assert grad.abs().sum() > 0


def test_nothing_of_the_size_of_the_weights_is_made() -> None:
    inputs = make_inputs(130, 130, 5, batch=(1,), heads=1, dtype=torch.float32)
    with LargestTensor() as largest:
        relu_attention(*inputs, is_causal=True).sum().backward()
    assert largest.elements < 130 * 130 / 4  # the interpreter looks at memory as bytes


def test_the_same_call_gives_the_same_bits() -> None:
    inputs = make_inputs(40, 40, 8, batch=(1,), dtype=torch.float32)
    threshold = torch.tensor([0.1, 0.2]).requires_grad_()
    runs = [_triton(inputs, Mask(), threshold) for _ in range(2)]
    assert all(torch.equal(a, b) for a, b in zip(*runs, strict=True))


def test_a_whole_module_equals_the_plain_formulas() -> None:
    x = torch.randn(2, 9, 16, generator=torch.Generator().manual_seed(0))
    padding = torch.arange(9) >= torch.tensor([[9], [6]])
    torch.manual_seed(0)
    module = rela.MultiheadAttention(16, 2, attention=resolve("rela-g", learn_threshold=True), batch_first=True)
    results: list[list[Tensor]] = []
    for name in ("triton", "naive"):
        with kernel(name):
            output, _ = module(x, x, x, key_padding_mask=padding, is_causal=True, need_weights=False)
            results.append([output, *gradients(output, list(module.parameters()))])
    _assert_same(results[0], results[1], 1e-5)


# ---------------------------------------------------------------------- zeros and NaN


def _opposed(length: int, seen: int) -> Inputs:
    """All scores positive for the first ``seen`` keys, negative for the others."""
    query = torch.rand(1, 1, length, 8, generator=torch.Generator().manual_seed(0)) + 0.1
    key = query.clone()
    key[:, :, seen:] *= -1
    return Inputs(query, key, torch.randn(1, 1, length, 8, generator=torch.Generator().manual_seed(1)))


def test_blocks_without_a_positive_score_skip_their_products() -> None:
    """Shown by NaN: a product with the values of the second half, or with their gradient, would spread it."""
    plain = _opposed(2 * SIDE, SIDE)
    value = plain.value.clone()
    value[:, :, SIDE:] = torch.nan
    poisoned = plain._replace(value=value).leaves()
    actual, expected = _triton(poisoned), _naive(plain)
    _assert_same(actual, expected)
    for grad in actual[2:]:
        assert torch.equal(grad[:, :, SIDE:], torch.zeros(1, 1, SIDE, 8))
    with kernel("naive"):  # which does spread it
        assert relu_attention(*poisoned).isnan().all()


def test_keys_beyond_the_causal_limit_reach_nothing() -> None:
    plain = make_inputs(SIDE, 3 * SIDE, 8, batch=(1,), heads=1, dtype=torch.float32)
    poisoned = plain.each(Tensor.clone)
    poisoned.key.data[:, :, SIDE:] = torch.nan
    poisoned.value.data[:, :, SIDE:] = torch.nan
    mask = Mask(None, None, 0)
    _assert_same(_triton(poisoned.leaves(), mask), _naive(plain, mask))


def test_without_any_positive_score_all_is_exactly_zero() -> None:
    inputs = _opposed(40, 0).leaves()
    threshold = torch.zeros(1).requires_grad_()
    assert all(not result.any() for result in _triton(inputs, Mask(), threshold))


def test_nan_is_kept_where_the_plain_formulas_keep_it() -> None:
    query, key, value = make_inputs(6, 40, 4, batch=(1,), heads=1, dtype=torch.float32).each(Tensor.detach)
    query[0, 0, 2, 1] = torch.nan
    key[0, 0, 37, 0] = torch.nan
    allowed = torch.ones(6, 40, dtype=torch.bool)
    allowed[:, 37] = False  # a masked weight is 0 all the same
    for mask in (Mask(), Mask(allowed)):
        inputs = Inputs(query, key, value).leaves()
        actual = _triton(inputs, mask)
        with kernel("naive"):
            expected = _triton(inputs, mask)
        assert expected[0].isnan().any()
        assert expected[0].isnan().all() == (mask.allowed is None)
        for a, b in zip(actual, expected, strict=True):
            torch.testing.assert_close(a, b, equal_nan=True, rtol=1e-5, atol=1e-5)


# ---------------------------------------------------------------------- dropout


def _kernel_call(inputs: Inputs, p: float, seed: int, offset: int | None = None) -> tuple[KernelInputs, Options]:
    return KernelInputs(*inputs, None, None, None), Options(
        inputs.query.shape[-1] ** -0.5, 0.0, offset, p, torch.tensor(seed)
    )


def test_dropout_has_the_same_factors_in_both_passes() -> None:
    inputs = make_inputs(33, 50, 8, batch=(2,), heads=1, dtype=torch.float32)
    call = _kernel_call(inputs, 0.3, 2**61 + 12345, 15)
    output = TritonKernel().forward(*call)
    weighting = torch.randn(output.shape, generator=torch.Generator().manual_seed(1))
    grads = TritonKernel().backward(weighting, *call)
    factors = TritonKernel().dropout_factors(*call).double()
    double = inputs.leaves(torch.float64)
    scores = double.query @ double.key.mT * call[1].scale
    expected = (scores.relu().tril(15) * factors) @ double.value
    _assert_same(
        [output, *(grad for grad in grads if grad is not None)],
        [expected, *torch.autograd.grad(expected, double, weighting.double())],
    )


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_the_share_and_the_mean_of_what_dropout_keeps(p: float) -> None:
    call = _kernel_call(make_inputs(64, 128, 4, batch=(1,), dtype=torch.float32), p, 7)
    factors = TritonKernel().dropout_factors(*call)
    assert set(factors.unique().tolist()) == {0.0, torch.tensor(1 / (1 - p)).item()}
    error = (p * (1 - p) / factors.numel()) ** 0.5
    assert abs((factors > 0).double().mean().item() - (1 - p)) < 4 * error
    kept = (factors > 0).double() - (1 - p)
    for shifted in (kept.roll(1, -1), kept.roll(1, -2), kept.roll(1, -3), kept.roll(4, -1), kept.roll(32, -1)):
        assert abs((kept * shifted).mean().item()) < 4 * p * (1 - p) / factors.numel() ** 0.5  # no pattern repeats
    other = TritonKernel().dropout_factors(call[0], call[1]._replace(dropout_seed=torch.tensor(8)))
    assert not torch.equal(factors, other)


def test_what_dropout_keeps_does_not_depend_on_the_blocks() -> None:
    inputs = make_inputs(33, 40, 8, batch=(1,), dtype=torch.float32)
    call = _kernel_call(inputs, 0.4, 2**40 + 1)
    found: list[list[Tensor]] = []
    for blocks in (Blocks(32, 32, 1, 1), Blocks(16, 64, 1, 1)):
        with mock.patch.object(triton_relu, "_INTERPRETED_BLOCKS", blocks):
            output = TritonKernel().forward(*call)
            grads = TritonKernel().backward(torch.ones_like(output), *call)
            found.append([TritonKernel().dropout_factors(*call), output, *grads[:3]])
    assert torch.equal(found[0][0], found[1][0])
    _assert_same(found[0], found[1])


def test_dropout_follows_the_seed_of_torch() -> None:
    inputs = make_inputs(10, 10, 8, batch=(1,), dtype=torch.float32)
    outputs: list[Tensor] = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        outputs.append(relu_attention(*inputs, dropout_p=0.5))
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.equal(outputs[0], outputs[2])
    assert not relu_attention(*inputs, dropout_p=1.0).any()


# ---------------------------------------------------------------------- half precision, groups, second derivatives


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, 2e-2), (torch.float16, 2e-3)])
def test_half_precision_sums_in_float32(dtype: torch.dtype, tolerance: float) -> None:
    """Weights are rounded to bfloat16; the interpreter cuts them off instead, so that it errs twice as much."""
    inputs = make_inputs(33, 40, 33, dv=17, batch=(1,), dtype=dtype)
    threshold = torch.tensor([0.1, -0.1]).requires_grad_()
    mask = Mask(None, _bias(40).to(dtype), 10)
    output, _ = kernels.relu_attention(
        TritonKernel(), *inputs, mask, scale=33**-0.5, threshold=threshold.view(2, 1, 1), dropout_p=0.0
    )
    assert output.dtype == torch.float32
    actual = [output, *gradients(output, [*inputs, threshold])]
    assert [grad.dtype for grad in actual[1:]] == [dtype] * 3 + [torch.float32]
    for a, b in zip(actual, _naive(inputs, mask, threshold), strict=True):
        assert (a.double() - b).abs().max() <= tolerance * b.abs().max()


def test_weights_may_leave_the_range_of_float16() -> None:
    inputs = make_inputs(4, 4, 64, size=100.0, batch=(1,), dtype=torch.float16)
    value = (inputs.value.detach() / 1e4).requires_grad_()
    output, _ = kernels.relu_attention(TritonKernel(), inputs.query, inputs.key, value, Mask(), scale=1.0)
    weights = (inputs.query.double() @ inputs.key.double().mT).relu()
    assert weights.max() > 65504
    torch.testing.assert_close(output.double(), weights @ value.double(), rtol=1e-3, atol=1.0)


@pytest.mark.parametrize("kv_heads", [1, 2])
def test_query_heads_may_share_keys_and_values(kv_heads: int) -> None:
    inputs = make_inputs(17, 40, 8, dv=5, batch=(2,), heads=4, kv_heads=kv_heads, dtype=torch.float32)
    output, _ = kernels.relu_attention(
        TritonKernel(grouped=True), *inputs, Mask(None, None, 20), scale=8**-0.5, threshold=0.1
    )
    double = inputs.leaves(torch.float64)
    with kernel("naive"):
        wanted = relu_attention(*double, attn_mask=torch.ones(17, 40).tril(20).bool(), threshold=0.1, enable_gqa=True)
    actual = [output, *torch.autograd.grad(output.sum(), inputs, retain_graph=True)]
    _assert_same(actual, [wanted, *torch.autograd.grad(wanted.sum(), double, retain_graph=True)])
    _assert_same(_second_derivatives(output, inputs), _second_derivatives(wanted, double), 1e-5)


def _second_derivatives(output: Tensor, inputs: Inputs) -> list[Tensor]:
    grads = torch.autograd.grad(output.square().sum(), inputs, create_graph=True)
    return list(torch.autograd.grad(torch.stack([grad.square().sum() for grad in grads]).sum(), inputs))


def test_second_derivatives() -> None:
    inputs = make_inputs(5, 7, 4, dtype=torch.float32)
    double = inputs.leaves(torch.float64)
    with kernel("naive"):
        expected = _second_derivatives(relu_attention(*double, is_causal=True, threshold=0.1), double)
    actual = _second_derivatives(relu_attention(*inputs, is_causal=True, threshold=0.1), inputs)
    _assert_same(actual, expected, 1e-5)


def test_second_derivatives_with_dropout_and_half_precision() -> None:
    inputs = make_inputs(5, 7, 4, batch=(1,), dtype=torch.float16)
    torch.manual_seed(5)
    output, _ = kernels.relu_attention(TritonKernel(), *inputs, Mask(), scale=0.5, dropout_p=0.3)
    torch.manual_seed(5)
    seed = torch.randint(2**62, ())
    call = KernelInputs(*inputs, None, None, None), Options(0.5, 0.0, None, 0.3, seed)
    double = inputs.leaves(torch.float64)
    dropped = (double.query @ double.key.mT * 0.5).relu() * TritonKernel().dropout_factors(*call).double()
    actual, expected = _second_derivatives(output, inputs), _second_derivatives(dropped @ double.value, double)
    for a, b in zip(actual, expected, strict=True):
        assert (a.double() - b).abs().max() <= 5e-3 * b.abs().max()


# ---------------------------------------------------------------------- what it takes, and the proof on a new device


def test_calls_that_it_does_not_take_go_on_as_before() -> None:
    def chosen(dtype: torch.dtype = torch.float32, d: int = 8) -> type:
        return type(kernels.attention_kernel(*make_inputs(d=d, dtype=dtype)))

    assert chosen() is chosen(torch.bfloat16) is chosen(torch.float16) is chosen(d=128) is TritonKernel
    assert chosen(d=129) is not TritonKernel
    assert chosen(torch.float64) is not TritonKernel
    inputs = make_inputs(batch=(), dtype=torch.float32)
    torch.testing.assert_close(relu_attention(*inputs), relu_attention(*inputs.each(lambda t: t[None]))[0])
    states = {choice.name: choice for choice in kernels.describe()}
    assert states["triton"].chosen
    assert "interpreter" in states["triton"].reason


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_kernel_proves_itself_on_a_device(dtype: torch.dtype) -> None:
    with mock.patch.dict(gpu._PROVEN, clear=True):  # pyright: ignore[reportPrivateUsage]
        assert gpu.proves_itself(TritonKernel(), torch.device("cpu"), dtype, wide=False)


@pytest.mark.parametrize("fault", ["wrong", "fails"])
def test_a_kernel_that_is_wrong_on_a_device_is_not_used_there(fault: str) -> None:
    class Faulty(TritonKernel):
        def forward(self, inputs: KernelInputs, options: Options) -> Tensor:
            if fault == "fails":
                raise RuntimeError("out of resource: shared memory")
            return super().forward(inputs, options) * 1.001

    cpu = torch.device("cpu")
    with mock.patch.dict(gpu._PROVEN, clear=True):  # pyright: ignore[reportPrivateUsage]
        with pytest.warns(UserWarning, match="out of resource" if fault == "fails" else "output: expected at most"):
            assert not gpu.proves_itself(Faulty(), cpu, torch.float32, wide=False)
        assert not gpu.proves_itself(Faulty(), cpu, torch.float32, wide=False)  # said once
