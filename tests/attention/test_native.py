"""The native operators: what torch asks of operators, memory, halves and groups, and what sanitizers say."""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.attention.helpers import draw_mask, gradients, kernel, make_inputs
from tests.sanitized import COMPILER, NO_SILENT_MISTAKES, assert_clean
from torch import Tensor

from rela.attention import kernels
from rela.attention.functional import attend, relu_attention
from rela.attention.kernels import build, native
from rela.attention.masks import Mask
from rela.attention.spec import resolve

pytestmark = pytest.mark.skipif(COMPILER is None or native.load().library is None, reason="no compiler here")
RELU = resolve("relu")


@pytest.fixture(autouse=True)
def _native(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELA_KERNEL", "native")


def _arguments(seed: Tensor | None = None, dropout_p: float = 0.0, **changes: Any) -> tuple[Any, ...]:
    query, key, value = make_inputs(6, 9, 8, dtype=torch.float32)
    thresholds = torch.rand(2, 1, 1, requires_grad=True)
    allowed, bias = draw_mask(2, 1, 1, 9), torch.randn(1, 2, 6, 9)
    options = {"thresholds": thresholds, "allowed": allowed, "bias": bias, "seed": seed, "scale": 0.35}
    options |= {"threshold": 0.0, "causal_offset": 3, "dropout_p": dropout_p}
    return query, key, value, *(options | changes).values()


class TestOperators:
    """torch's own checks: schema, gradients, shapes without numbers, and how the compiler sees them."""

    @pytest.mark.parametrize("dropout_p", [0.0, 0.3])
    def test_attention(self, dropout_p: float) -> None:
        seed = torch.tensor(5) if dropout_p else None
        torch.library.opcheck(torch.ops.rela.relu_attention.default, _arguments(seed, dropout_p))

    def test_attention_without_anything(self) -> None:
        nothing: dict[str, Any] = {"thresholds": None, "allowed": None, "bias": None, "causal_offset": None}
        torch.library.opcheck(torch.ops.rela.relu_attention.default, _arguments(**nothing))

    @pytest.mark.parametrize("scale", [None, 0.35])
    def test_attention_plain(self, scale: float | None) -> None:
        query, key, value, *_ = _arguments()
        torch.library.opcheck(torch.ops.rela.relu_attention_plain.default, (query, key, value, scale))
        for wrong in ((query.double(), key.double(), value.double()), (query, key[:, :1], value[:, :1])):
            with pytest.raises(RuntimeError, match=r"expected float32 \[B, H, T, d\]"):
                torch.ops.rela.relu_attention_plain(*wrong, scale)

    def test_shown(self) -> None:
        query, key, value, *rest = (x.detach() if isinstance(x, Tensor) else x for x in _arguments())
        torch.library.opcheck(torch.ops.rela.relu_attention_shown.default, (query, key, value, None, True, *rest))

    @pytest.mark.parametrize("gated", [True, False])
    def test_norm(self, gated: bool) -> None:
        x, weight, gate = torch.randn(3, 5, 16), torch.randn(16), torch.randn(16) if gated else None
        torch.library.opcheck(torch.ops.rela.rms_norm_forward.default, (x, weight, gate, 1e-6))

    def test_dropout(self) -> None:
        x, y = (torch.randn(4, 33, requires_grad=True) for _ in range(2))
        torch.library.opcheck(torch.ops.rela.dropout_add.default, (x, y, torch.tensor(3), 0.4))

    def test_what_does_not_fit_is_refused(self) -> None:
        op = torch.ops.rela.relu_attention.default
        query, key, value, *rest = _arguments()
        with pytest.raises(RuntimeError, match=r"expected query \[B, H, Tq, d\]"):
            op(query, key[:, :, :, :4], value, *rest)
        with pytest.raises(RuntimeError, match="expected float32 or bfloat16"):
            op(query.double(), key.double(), value.double(), *rest)
        with pytest.raises(RuntimeError, match="expected a mask of four dimensions"):
            op(query, key, value, rest[0], torch.ones(1, 1, 1, 4, dtype=torch.bool), *rest[2:])
        with pytest.raises(RuntimeError, match="expected a seed"):
            op(*_arguments(None, 0.5))


class TestCompiled:
    def test_the_operator_is_in_the_graph_and_the_matrix_is_not(self) -> None:
        graphs: list[torch.fx.GraphModule] = []

        def backend(graph: torch.fx.GraphModule, _: list[Tensor]) -> torch.fx.GraphModule:
            graphs.append(graph)
            return graph

        inputs = make_inputs(dtype=torch.float32)
        compiled: Any = torch.compile(relu_attention, fullgraph=True, backend=backend)
        torch.testing.assert_close(compiled(*inputs), relu_attention(*inputs))
        targets = {str(node.target) for graph in graphs for node in graph.graph.nodes}
        assert "rela.relu_attention" in " ".join(targets)
        assert not any("matmul" in target for target in targets)

    @pytest.mark.parametrize("dropout_p", [0.0, 0.4])
    def test_gradients_through_the_compiler(self, dropout_p: float) -> None:
        inputs = make_inputs(20, 30, 16, dtype=torch.float32)
        compiled: Any = torch.compile(relu_attention, fullgraph=True, backend="aot_eager")

        def run(function: Any) -> list[Tensor]:
            torch.manual_seed(3)
            output = function(*inputs, dropout_p=dropout_p)
            return [output, *gradients(output, list(inputs))]

        for got, expected in zip(run(compiled), run(relu_attention), strict=True):
            torch.testing.assert_close(got, expected)

    def test_an_exported_program_needs_nothing_of_ours(self) -> None:
        class Module(torch.nn.Module):
            def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
                return relu_attention(query, key, value)

        inputs = tuple(x.detach() for x in make_inputs(dtype=torch.float32))
        program = torch.export.export(Module(), inputs)
        assert not any("rela." in str(node.target) for node in program.graph.nodes)


class TestHalvesAndGroups:
    @pytest.mark.parametrize("kv_heads", [1, 2, 4])
    @pytest.mark.parametrize("is_causal", [False, True])
    def test_fewer_key_heads(self, kv_heads: int, is_causal: bool) -> None:
        inputs = make_inputs(70, 70, 16, heads=4, kv_heads=kv_heads, dtype=torch.float32)
        threshold = torch.rand(4, requires_grad=True)

        def run(name: str) -> list[Tensor]:
            with kernel(name):
                output = relu_attention(*inputs, is_causal=is_causal, enable_gqa=True, threshold=threshold)
                return [output, *gradients(output, [*inputs, threshold])]

        for got, expected in zip(run("native"), run("naive"), strict=True):
            torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)

    def test_second_derivatives_of_groups(self) -> None:
        inputs = make_inputs(5, 6, 4, heads=4, kv_heads=2, dtype=torch.float32)

        def run(name: str) -> list[Tensor]:
            with kernel(name):
                output = relu_attention(*inputs, enable_gqa=True)
                first = torch.autograd.grad(output.square().sum(), inputs, create_graph=True)
                return list(torch.autograd.grad(sum(x.square().sum() for x in first), inputs))  # pyright: ignore[reportArgumentType, reportCallIssue]

        for got, expected in zip(run("native"), run("naive"), strict=True):
            torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-3)

    def test_bfloat16_is_read_as_it_is_and_added_up_in_float32(self) -> None:
        inputs = make_inputs(100, 90, 64, dtype=torch.bfloat16)
        assert type(kernels.attention_kernel(*inputs)) is native.NativeKernel
        output = attend(*inputs, RELU, Mask()).output
        wide = inputs.leaves(torch.float32)
        expected = attend(*wide, RELU, Mask()).output
        assert output.dtype == torch.float32
        torch.testing.assert_close(output, expected)
        for got, reference in zip(gradients(output, list(inputs)), gradients(expected, list(wide)), strict=True):
            assert got.dtype == torch.bfloat16
            torch.testing.assert_close(got, reference.bfloat16(), rtol=1e-2, atol=1e-2)


class TestNumbers:
    @pytest.mark.parametrize("threshold", [-9.0, -1.0, 0.0, 1.0, 2.5, 9.0])
    def test_any_density(self, threshold: float) -> None:
        """From all weights, by dense products, over few, by lists of them, to none."""
        inputs = make_inputs(150, 140, 64, dtype=torch.float32)

        def run(name: str) -> list[Tensor]:
            with kernel(name):
                output = relu_attention(*inputs, threshold=threshold)
                return [output, *gradients(output, list(inputs))]

        for got, expected in zip(run("native"), run("naive"), strict=True):
            torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-3)

    def test_a_value_that_nobody_attends_to_is_not_read(self) -> None:
        """Zeros are skipped: not even an infinity behind one is seen."""
        query, key, value = (x.detach() for x in make_inputs(40, 40, 16, dtype=torch.float32))
        value[:, :, 7] = torch.inf
        key[:, :, 7] = 0.0
        assert relu_attention(query, key, value).isfinite().all()

    @pytest.mark.parametrize("kind", ["keys", "places", "additive", "causal"])
    @pytest.mark.parametrize("length", [40, 128])
    def test_what_is_behind_a_mask_is_not_read(self, kind: str, length: int) -> None:
        """Also where hardly any weight is zero, and the products would be dense."""
        query, key, value = inputs = [torch.rand(1, 2, length, 16, requires_grad=True) for _ in range(3)]
        with torch.no_grad():
            key[:, :, -3:] = value[:, :, -3:] = torch.nan
        allowed = (torch.arange(length) < length - 3).expand(1, 1, length if kind == "places" else 1, length)
        masks: dict[str, dict[str, Any]] = {
            "additive": {"attn_mask": torch.zeros(allowed.shape).masked_fill(~allowed, -torch.inf)},
            "causal": {"is_causal": True},
        }
        output = relu_attention(query, key, value, **masks.get(kind, {"attn_mask": allowed}))
        seen = slice(length - 3)  # the last queries of a causal mask see the last keys
        assert output[:, :, seen].isfinite().all()
        for x in torch.autograd.grad(output[:, :, seen].sum(), inputs):
            assert x[:, :, seen].isfinite().all()

    @pytest.mark.parametrize("d", [8, 24, 32, 64, 128])
    def test_other_queries_do_not_change_a_bit(self, d: int) -> None:
        """Whether a tile's product is dense or not depends on all its rows; the result of one does not."""
        query, key, value = (x.detach() for x in make_inputs(70, 90, d, dtype=torch.float32))
        few, many = query.clone(), query.clone()
        few[:, :, 1:], many[:, :, 1:] = 0.0, key.mean(-2, keepdim=True) * 50
        first = [relu_attention(q, key, value, threshold=t)[:, :, 0] for q in (query, few, many) for t in (-0.2, -9.0)]
        assert all(torch.equal(x, y) for x, y in zip(first[:2] * 2, first[2:], strict=True))

    def test_nan_stays_nan(self) -> None:
        query, key, value = (x.detach() for x in make_inputs(40, 40, 16, dtype=torch.float32))
        query[0, 1, 5, 2] = torch.nan
        output = relu_attention(query, key, value)
        assert output[0, 1, 5].isnan().all()
        assert output.isnan().sum() == output.shape[-1]

    def test_few_heads_and_long_rows_are_shared_out_among_threads(self) -> None:
        """The keys are cut into parts then; the number of threads does not change a bit."""
        inputs = make_inputs(60, 1200, 8, batch=(1,), heads=1, dtype=torch.float32)
        before = torch.get_num_threads()
        try:
            results: list[list[Tensor]] = []
            for threads in (1, 2, 3):
                torch.set_num_threads(threads)
                output = relu_attention(*inputs)
                results.append([output, *gradients(output, list(inputs))])
        finally:
            torch.set_num_threads(before)
        for other in results[1:]:
            assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


@st.composite
def _cases(draw: st.DrawFn) -> dict[str, Any]:
    """Sizes on both sides of a tile's 64, densities from all to none, dropout, groups, masks."""
    groups = draw(st.sampled_from([1, 1, 2]))
    return {
        "tq": draw(st.sampled_from([1, 5, 63, 64, 65, 100])),
        "tk": draw(st.sampled_from([1, 7, 48, 64, 66, 130])),
        "d": draw(st.sampled_from([1, 8, 24, 64, 72, 128])),
        "dv": draw(st.sampled_from([3, 16, 40, 64, 128])),
        "heads": 2,
        "kv_heads": 2 // groups,
        "threshold": draw(st.sampled_from([-8.0, -1.0, 0.0, 0.5, 1.5, 8.0])),
        "dropout_p": draw(st.sampled_from([0.0, 0.1, 0.6, 1.0])),
        "offset": draw(st.sampled_from([None, 0, 20, -3])),
        "mask": draw(st.sampled_from([None, "keys", "places"])),
        "seed": draw(st.integers(0, 50)),
    }


@settings(max_examples=40)
@given(case=_cases())
def test_dropout_and_densities_against_formulas_in_float64(case: dict[str, Any]) -> None:
    """With the very factors that the operator draws, output and gradients are those of the definition."""
    sizes = {name: case[name] for name in ("tq", "tk", "d", "dv", "heads", "kv_heads", "seed")}
    inputs = make_inputs(**sizes, dtype=torch.float32)
    tq, tk, group = case["tq"], case["tk"], case["heads"] // case["kv_heads"]
    shape = {None: None, "keys": (2, 1, 1, tk), "places": (1, 2, tq, tk)}[case["mask"]]
    allowed = None if shape is None else draw_mask(*shape, seed=case["seed"])
    p, seed, scale = case["dropout_p"], torch.tensor(case["seed"]), case["d"] ** -0.5
    options = (None, allowed, None, seed, scale, case["threshold"], case["offset"], p)
    output = torch.ops.rela.relu_attention(*inputs, *options)

    double = inputs.leaves(torch.float64)
    key, value = (x.repeat_interleave(group, 1) for x in (double.key, double.value))
    scores = double.query @ key.mT * scale - case["threshold"]
    clear = bool((scores.detach().abs() > 1e-5).all())  # else a score may round to the other side of zero
    valid = Mask(allowed, None, case["offset"]).all_allowed(tq, tk, scores.device)
    weights = scores.relu() if valid is None else scores.relu().masked_fill(~valid, 0.0)
    factors = torch.ops.rela.relu_attention_factors(inputs.query, inputs.key, seed, p) if p > 0 else torch.ones(())
    gain = 1 / (1 - p) if p < 1 else 0.0
    assert bool(((factors == 0) | ((factors - gain).abs() < 1e-5)).all())
    expected = (weights * factors.double()) @ value
    pairs = [(output, expected)]
    if clear:
        pairs += zip(gradients(output, list(inputs)), gradients(expected, list(double)), strict=True)
    for got, wanted in pairs:
        size = max(1.0, wanted.abs().max().item())
        torch.testing.assert_close(got.double() / size, wanted / size, rtol=1e-4, atol=1e-5)


def _resident_kib() -> int:
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_ten_thousand_calls_leave_no_memory_behind() -> None:
    inputs = make_inputs(24, 40, 16, dtype=torch.float32)

    def call(count: int) -> None:
        for _ in range(count):
            relu_attention(*inputs, dropout_p=0.1).sum().backward()  # pyright: ignore[reportUnknownMemberType]
            for x in inputs:
                x.grad = None

    call(500)
    before = _resident_kib()
    call(10_000)
    assert _resident_kib() - before < 4096


_FLAGS = ("-std=gnu++20", "-march=native", "-DRELA_WITHOUT_TORCH", "-Wno-ignored-attributes")


@pytest.mark.slow  # it compiles
@pytest.mark.parametrize(
    "flags",
    [
        ("-O1", *NO_SILENT_MISTAKES, "-fno-sanitize=alignment"),
        ("-O2", "-mno-avx512f"),  # as most laptops are
        ("-O2", "-march=x86-64"),  # any machine of this kind
    ],
    ids=["sanitizers", "avx2", "oldest"],
)
def test_sanitizers_find_nothing(tmp_path: Path, flags: tuple[str, ...]) -> None:
    """Out of bounds, undefined, leaked: every buffer of the exercise ends where its tensor ends."""
    program = Path(__file__).with_name("exercise_kernels.cpp")
    assert_clean(program, (*_FLAGS, *flags), Path(build.__file__).parent, tmp_path)
