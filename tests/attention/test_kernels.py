"""The fast kernels against the plain formulas: outputs and gradients."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.attention.helpers import (
    Inputs,
    LargestTensor,
    draw_mask,
    gradients,
    kernel,
    make_inputs,
    raises_naming,
    small_blocks,
)
from torch import Tensor

import rela
from rela._machine import find_compiler
from rela.attention import kernels
from rela.attention.functional import attend, gated_rms_norm, relu_attention, rms_norm
from rela.attention.kernels import build, native
from rela.attention.kernels.blocked import BlockedKernel
from rela.attention.kernels.native import MAX_HEAD_DIM, NativeKernel
from rela.attention.kernels.rms import LONGEST_ROW
from rela.attention.masks import Mask
from rela.attention.spec import resolve

needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="no C compiler on this machine")
FAST = ["blocked", pytest.param("native", marks=needs_compiler)]
RELU = resolve("relu")


def _dtype(name: str) -> torch.dtype:
    return torch.float32 if name == "native" else torch.float64


def _tolerances(name: str) -> dict[str, Any]:
    return {"rtol": 1e-4, "atol": 1e-4} if name == "native" else {"rtol": 1e-9, "atol": 1e-9}


def _results(name: str, inputs: Inputs, mask: Mask, threshold: Tensor | float = 0.0, **options: float) -> list[Tensor]:
    """Output and gradients by the named kernel."""
    spec = resolve("relu", **options)
    learned = [threshold] if isinstance(threshold, Tensor) else []
    with kernel(name):
        output = attend(*inputs, spec, mask, threshold=threshold).output
        return [output, *gradients(output, [*inputs, *learned])]


def _plain_results(inputs: Inputs, mask: Mask, threshold: Tensor | float = 0.0, **options: float) -> list[Tensor]:
    """The same by the plain formulas in float64."""
    double = inputs.leaves(torch.float64)
    if isinstance(threshold, Tensor):
        threshold = threshold.detach().double().requires_grad_()
    if mask.bias is not None:
        mask = mask._replace(bias=mask.bias.double())
    return _results("naive", double, mask, threshold, **options)


def _assert_same(name: str, actual: list[Tensor], expected: list[Tensor]) -> None:
    for a, b in zip(actual, expected, strict=True):
        assert a.shape == b.shape
        scale = max(1.0, b.abs().max().item()) if b.numel() else 1.0
        torch.testing.assert_close(a.double() / scale, b / scale, **_tolerances(name))


# ---------------------------------------------------------------------- which kernel runs


@needs_compiler
def test_the_choice_follows_the_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RELA_KERNEL", raising=False)

    def chosen(dtype: torch.dtype = torch.float32, d: int = 8, batch: tuple[int, ...] = (2,)) -> type:
        return type(kernels.attention_kernel(*make_inputs(d=d, dtype=dtype, batch=batch)))

    assert chosen() is NativeKernel
    assert chosen(d=MAX_HEAD_DIM) is NativeKernel
    assert chosen(d=MAX_HEAD_DIM + 1) is BlockedKernel
    assert chosen(torch.float64) is BlockedKernel
    assert chosen(torch.bfloat16) is NativeKernel
    assert chosen(torch.float16) is type(None)  # comes here as float32 already
    assert chosen(batch=()) is type(None)
    monkeypatch.setenv("RELA_KERNEL", "blocked")
    assert chosen() is BlockedKernel
    monkeypatch.setenv("RELA_KERNEL", "naive")
    assert chosen() is type(None)


@pytest.mark.parametrize("name", FAST)
def test_the_forced_kernel_is_the_one_that_runs(name: str) -> None:
    inputs = make_inputs(dtype=torch.float32)
    kind = {"blocked": BlockedKernel, "native": NativeKernel}[name]
    with kernel(name), mock.patch.object(kind, "attend", autospec=True, side_effect=kind.attend) as attended:
        attend(*inputs, RELU, Mask())
        assert attended.call_count == 1
    with kernel("naive"), mock.patch.object(kind, "attend", autospec=True, side_effect=kind.attend) as attended:
        attend(*inputs, RELU, Mask())
        assert attended.call_count == 0


@pytest.mark.parametrize("name", ["fast", "Blocked", "Triton"])
def test_an_unknown_kernel_is_refused(name: str) -> None:
    with kernel(name):
        for call in (
            lambda: relu_attention(*make_inputs()),
            lambda: gated_rms_norm(torch.zeros(2, 3), torch.ones(3), torch.ones(3)),
            kernels.describe,
        ):
            raises_naming(call, "RELA_KERNEL", "native", "blocked", "triton", "naive", "unset", name)


def test_an_empty_name_leaves_the_choice_to_us() -> None:
    with kernel(""):
        assert kernels.attention_kernel(*make_inputs()) is not None


@pytest.mark.parametrize("name", ["", "blocked", "naive", pytest.param("native", marks=needs_compiler)])
def test_one_kernel_is_described_as_chosen(name: str) -> None:
    with kernel(name):
        choices = kernels.describe()
    assert [choice.name for choice in choices] == ["native", "blocked", "triton", "naive"]
    chosen = [choice for choice in choices if choice.chosen]
    assert len(chosen) == 1
    assert chosen[0].available
    if name:
        assert chosen[0].name == name
        assert f"RELA_KERNEL={name}" in chosen[0].reason


@pytest.fixture
def _fresh_build() -> Iterator[None]:
    """What was built and said before is forgotten, and what the test builds too."""
    cached = (build.load, build.load_operators, build.notice, native.load)
    for function in cached:
        function.cache_clear()
    yield
    for function in cached:
        function.cache_clear()


@pytest.mark.usefixtures("_fresh_build")
def test_without_a_compiler_the_blocked_kernel_runs_and_says_so_once() -> None:
    inputs = make_inputs(dtype=torch.float32)
    with mock.patch.object(build, "find_compiler", return_value=None), kernel(""):
        with pytest.warns(UserWarning, match=r"no C compiler.*gcc.*RELA_KERNEL=blocked"):
            relu_attention(*inputs)
        relu_attention(*inputs)  # warnings are errors here: it does not warn again
        assert type(kernels.attention_kernel(*inputs)) is BlockedKernel
        choices = {choice.name: choice for choice in kernels.describe()}
    assert choices["blocked"].chosen
    assert not choices["native"].available
    assert "no C compiler" in choices["native"].reason


@needs_compiler
@pytest.mark.usefixtures("_fresh_build")
def test_a_compiler_that_fails_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "native.cpp"
    source.write_text("this is not C++\n")
    monkeypatch.setenv("RELA_CACHE", str(tmp_path))
    monkeypatch.setattr(build, "_OPERATORS", source)
    built = native.load()
    assert built.library is None
    assert "failed" in built.reason
    assert "error" in built.reason
    with kernel(""), pytest.warns(UserWarning, match="failed"):
        relu_attention(*make_inputs(dtype=torch.float32))
    assert not list(tmp_path.glob("kernels/*"))


@pytest.mark.usefixtures("_fresh_build")
def test_a_torch_without_headers_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__file__", str(tmp_path / "__init__.py"))
    assert "without its C++ headers" in native.load().reason


@needs_compiler
@pytest.mark.usefixtures("_fresh_build")
def test_what_was_compiled_is_used_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELA_CACHE", str(tmp_path / "cache"))
    source = tmp_path / "one.c"
    source.write_text("int one(void) { return 1; }\n")
    library = build.load(source).library
    assert library is not None
    assert library.one() == 1
    (file,) = tmp_path.glob("cache/kernels/*")
    written = file.stat().st_mtime_ns
    build.load.cache_clear()
    assert build.load(source).library is not None
    assert [path.stat().st_mtime_ns for path in tmp_path.glob("cache/kernels/*")] == [written]


# ---------------------------------------------------------------------- outputs and gradients


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
    dtype = _dtype(name)
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
        actual = _results(name, inputs, mask, threshold, **options)
    _assert_same(name, actual, _plain_results(inputs, mask, threshold, **options))
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
    _assert_same(name, shown[:1], [shown[2].double()])
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
    inputs = make_inputs(tq, tk, d, dv=129 - d, batch=(1,), heads=3, dtype=_dtype(name))
    mask = Mask(draw_mask(1, 3, tq, tk, share=0.8), None, tk // 2)
    threshold = torch.tensor([0.2, 0.0, -0.3], dtype=_dtype(name)).requires_grad_()
    with small_blocks(elements=500, causal_rows=16):
        actual = _results(name, inputs, mask, threshold)
    _assert_same(name, actual, _plain_results(inputs, mask, threshold))


@pytest.mark.parametrize("name", FAST)
@pytest.mark.parametrize("layout", ["expanded batch", "expanded heads", "transposed", "sliced rows", "packed"])
def test_inputs_of_any_layout(name: str, layout: str) -> None:
    dtype = _dtype(name)
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
    _assert_same(name, _results(name, inputs, mask), _plain_results(inputs, mask))


@pytest.mark.parametrize("name", FAST)
def test_gradients_that_are_expanded_or_strided(name: str) -> None:
    """As ``output.sum()`` and a transposed use of the output send them back."""
    inputs = make_inputs(6, 7, 4, dtype=_dtype(name))
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
        inputs = make_inputs(dtype=_dtype(name)).each(Tensor.detach)
        inputs[wanted].requires_grad_()
        with kernel(name):
            grads = torch.autograd.grad(relu_attention(*inputs).sum(), inputs[wanted])
        with kernel("naive"):
            expected = torch.autograd.grad(relu_attention(*inputs).sum(), inputs[wanted])
        torch.testing.assert_close(grads, expected)
    with kernel(name), torch.no_grad():
        assert not relu_attention(*make_inputs(dtype=_dtype(name))).requires_grad


@pytest.mark.parametrize("name", FAST)
@pytest.mark.parametrize("threshold_dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_thresholds_of_any_float_dtype(name: str, threshold_dtype: torch.dtype) -> None:
    """A module in half precision computes in float32 but keeps its threshold as it is."""
    inputs = make_inputs(dtype=_dtype(name))
    threshold = torch.tensor([0.25, -0.5], dtype=threshold_dtype).requires_grad_()
    actual = _results(name, inputs, Mask(), threshold)
    expected = _plain_results(inputs, Mask(), threshold)
    assert actual[-1].dtype == threshold_dtype
    torch.testing.assert_close(actual[0].double(), expected[0], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(actual[-1].double(), expected[-1], rtol=0.01, atol=0.01)


@pytest.mark.parametrize("name", FAST)
@pytest.mark.parametrize("bias_dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_biases_of_any_float_dtype(name: str, bias_dtype: torch.dtype) -> None:
    inputs = make_inputs(dtype=_dtype(name))
    bias = torch.tensor([0.25, -0.5, 0.0, 1.0, 2.0, -3.0, 0.5], dtype=bias_dtype)
    _assert_same(name, _results(name, inputs, Mask(None, bias)), _plain_results(inputs, Mask(None, bias)))


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
    runs = [_results(name, inputs, Mask(causal_offset=10)) for _ in range(2)]
    assert all(torch.equal(a, b) for a, b in zip(*runs, strict=True))


# ---------------------------------------------------------------------- dropout


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
    inputs = make_inputs(90, 70, 8, heads=4, dtype=_dtype(name))
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
    inputs = make_inputs(20, 30, 8, dtype=_dtype(name))
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
        relu_attention(*make_inputs(dtype=_dtype(name)))
        after = torch.rand(3)
    torch.manual_seed(0)
    assert torch.equal(after, torch.rand(3))


@pytest.mark.parametrize("name", DROPOUT)
@pytest.mark.parametrize("is_causal", [False, True])
def test_backward_drops_what_forward_dropped(name: str, is_causal: bool) -> None:
    query, key, value = make_inputs(9, 7, 4, dv=7, dtype=_dtype(name))
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
    inputs = make_inputs(dtype=_dtype(name))
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
    inputs = make_inputs(9, 5, 4, dtype=_dtype(name))
    threshold = torch.tensor([0.1, -0.2], dtype=_dtype(name)).requires_grad_()
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


# ---------------------------------------------------------------------- memory


def _largest(run: Callable[[], object]) -> int:
    with LargestTensor() as seen:
        run()
    return seen.elements


@pytest.mark.parametrize("name", FAST)
@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"dropout_p": 0.1}, {"threshold": 0.3}])
def test_memory_never_grows_with_the_square(name: str, options: dict[str, Any]) -> None:
    length = 2048
    inputs = make_inputs(length, length, 8, batch=(1,), heads=1, dtype=torch.float32)

    def run() -> None:
        relu_attention(*inputs, **options).sum().backward()

    with kernel(name):
        assert _largest(run) <= 1 << 19
    if not options:
        with kernel("naive"):
            assert _largest(run) >= length * length  # so that the measure is known to work


@pytest.mark.parametrize("name", FAST)
def test_memory_with_a_length_power_never_grows_with_the_square(name: str) -> None:
    length = 2048
    inputs = make_inputs(length, length, 8, batch=(1,), heads=1, dtype=torch.float32)
    padding = draw_mask(1, 1, 1, length)

    def run(**options: Any) -> None:
        relu_attention(*inputs, length_power=0.5, **options).sum().backward()

    with kernel(name):
        assert _largest(lambda: run(attn_mask=padding)) <= 1 << 19
        assert _largest(lambda: run(is_causal=True)) <= 1 << 19


# ---------------------------------------------------------------------- the norms


@pytest.mark.parametrize("name", FAST)
@pytest.mark.parametrize("gated", [True, False])
@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (2, 5, 16), (33, 17), (2, 3, 4, 31), (7, 512), (64,)])
def test_norm_kernels_equal_the_plain_formulas(name: str, gated: bool, shape: tuple[int, ...]) -> None:
    dim = shape[-1]
    generator = torch.Generator().manual_seed(0)
    dtype = _dtype(name)
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
    _assert_same(name, *found)


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
