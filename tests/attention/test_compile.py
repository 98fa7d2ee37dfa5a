"""torch.compile without graph breaks and torch.export with shapes that vary, for every preset."""

from typing import Any

import pytest
import torch
from tests.attention.module_helpers import (
    ALL_PRESETS,
    EMBED,
    HEADS,
    LEARNED_THRESHOLD,
    assert_same,
    build,
    gradients,
    inputs,
    padding,
    weighted_sum,
)
from torch import Tensor, nn

import rela
from rela.functional import relu_attention

B, T = 3, 9
# The compiler's own modules use deprecated parts of Python and torch.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
QUICK = {"softmax", "entmax15", "rela-g"}  # the others in `make test-all`
every_attention = pytest.mark.parametrize(
    "attention",
    [
        *(name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in ALL_PRESETS),
        LEARNED_THRESHOLD,
    ],
    ids=str,
)


@pytest.fixture(autouse=True)
def _fresh_compiler() -> None:
    torch.compiler.reset()


class SelfAttention(nn.Module):
    """Only tensors in and out, as torch.export wants it."""

    def __init__(self, attention: str | rela.AttentionSpec, need_weights: bool = False, **options: Any) -> None:
        super().__init__()
        self.inner = build(attention, **options)
        self.need_weights = need_weights

    def forward(self, x: Tensor, pad: Tensor) -> tuple[Tensor, ...]:
        output, weights = self.inner(x, x, x, pad, need_weights=self.need_weights, is_causal=True)
        return (output,) if weights is None else (output, weights)


def compare_compiled(module: nn.Module, backend: str, tolerance: float = 1e-9, **options: Any) -> None:
    """Outputs and gradients of the compiled module are the eager one's."""
    dtype = next(module.parameters()).dtype
    x = inputs(B, T, EMBED, dtype=dtype).requires_grad_()
    pad = padding(9, 5, 0)
    compiled = torch.compile(module, fullgraph=True, backend=backend, **options)
    expected, got = module(x, pad), compiled(x, pad)
    for a, b in zip(got, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)
    assert_same(gradients(module, weighted_sum(*got), x), gradients(module, weighted_sum(*expected), x), tolerance * 10)


class TestCompile:
    @every_attention
    def test_whole_graph(self, attention: str) -> None:
        compare_compiled(SelfAttention(attention), "aot_eager")

    @pytest.mark.parametrize("attention", ["softmax", "rela-g"])
    def test_with_weights(self, attention: str) -> None:
        compare_compiled(SelfAttention(attention, need_weights=True), "aot_eager")

    @pytest.mark.parametrize("attention", ["softmax", "rela-g"])
    def test_extra_keys(self, attention: str) -> None:
        compare_compiled(SelfAttention(attention, add_bias_kv=True, add_zero_attn=True), "aot_eager")

    @pytest.mark.parametrize("attention", ["softmax", "rela-g", "topk"])
    def test_lengths_that_vary(self, attention: str) -> None:
        module = SelfAttention(attention)
        compiled = torch.compile(module, fullgraph=True, backend="eager", dynamic=True)
        for batch, length in ((2, 5), (3, 7), (4, 12)):
            x, pad = inputs(batch, length, EMBED), padding(*[length] * batch)
            torch.testing.assert_close(compiled(x, pad), module(x, pad))

    @pytest.mark.parametrize("name", ["scale", "threshold"])
    def test_numbers_that_vary(self, name: str) -> None:
        query = torch.randn(2, 3, 6, 8)

        def attend(x: Tensor, number: float) -> Tensor:
            return (
                relu_attention(x, x, x, scale=number) if name == "scale" else relu_attention(x, x, x, threshold=number)
            )

        compiled = torch.compile(attend, fullgraph=True, backend="aot_eager", dynamic=True)
        for number in (0.5, 0.7, 0.3):
            torch.testing.assert_close(compiled(query, number), attend(query, number))

    @pytest.mark.parametrize("attention", ["softmax", "rela-g"])
    def test_training_with_dropout(self, attention: str) -> None:
        module = SelfAttention(attention, dropout=0.5)
        compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
        x, pad = inputs(B, T, EMBED), padding(9, 5, 1)
        assert not torch.equal(compiled(x, pad)[0], compiled(x, pad)[0])

    @pytest.mark.parametrize("attention", ["softmax", "rela-g"])
    def test_steps(self, attention: str) -> None:
        module = build(attention)

        def two_steps(x: Tensor) -> Tensor:
            first, _, cache = module.step(x[:, :4])
            second, _, _ = module.step(x[:, 4:], cache)
            return torch.cat([first, second], dim=1)

        x = inputs(B, T, EMBED)
        expected, _ = module(x, x, x, is_causal=True)
        torch.testing.assert_close(torch.compile(two_steps, fullgraph=True, backend="aot_eager")(x), expected)

    @pytest.mark.parametrize("attention", ["softmax", "rela-g"])
    def test_converted_encoder(self, attention: str) -> None:
        layer = nn.TransformerEncoderLayer(EMBED, HEADS, 16, dropout=0.0, batch_first=True, dtype=torch.float64)
        rela.convert(layer, attention)
        x, pad = inputs(B, T, EMBED), padding(9, 5, 1)
        for mode in (True, False):
            layer.train(mode)
            compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
            torch.testing.assert_close(compiled(x, src_key_padding_mask=pad), layer(x, src_key_padding_mask=pad))

    @pytest.mark.slow
    @pytest.mark.parametrize("attention", ["softmax", "rela-g"])
    @pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
    def test_inductor(self, attention: str, dtype: torch.dtype) -> None:
        tolerance = 1e-9 if dtype == torch.float64 else 1e-4
        compare_compiled(SelfAttention(attention, dtype=dtype), "inductor", tolerance)


def export(module: nn.Module, strict: bool = False, shortest: int = 2) -> nn.Module:
    """The exported program of a module, for any batch and length."""
    batch, length = torch.export.Dim("batch", min=1), torch.export.Dim("length", min=shortest)
    shapes = ({0: batch, 1: length}, {0: batch, 1: length})
    example = (inputs(B, max(T, shortest), EMBED), padding(*[max(T, shortest)] * B))
    return torch.export.export(module, example, dynamic_shapes=shapes, strict=strict).module()


def assert_same_program(program: nn.Module, module: nn.Module, lengths: tuple[tuple[int, ...], ...]) -> None:
    for rows in lengths:
        x, pad = inputs(len(rows), max(rows), EMBED, seed=4), padding(*rows)
        for got, expected in zip(program(x, pad), module(x, pad), strict=True):
            torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-9)


class TestExport:
    @every_attention
    def test_any_batch_and_length(self, attention: str) -> None:
        module = SelfAttention(attention, need_weights=attention in ("rela-i", "softmax")).eval()
        assert_same_program(export(module), module, ((9, 5, 1), (2, 2), (17, 3, 4, 16), (4, 0)))

    @pytest.mark.parametrize(
        "attention", ["softmax", "sparsemax", pytest.param("entmax", marks=pytest.mark.slow), "rela-g"]
    )
    def test_strict(self, attention: str) -> None:
        module = SelfAttention(attention).eval()
        assert_same_program(export(module, strict=True, shortest=9), module, ((9, 5, 1), (17, 3, 4, 16)))

    @pytest.mark.parametrize("attention", ["softmax", "rela-g"])
    def test_extra_keys(self, attention: str) -> None:
        module = SelfAttention(attention, add_bias_kv=True, add_zero_attn=True).eval()
        assert_same_program(export(module), module, ((9, 5, 1), (12, 2)))

    def test_saved_and_loaded(self, tmp_path: Any) -> None:
        module = SelfAttention("rela-g").eval()
        example = (inputs(B, T, EMBED), padding(9, 5, 1))
        path = f"{tmp_path}/attention.pt2"
        torch.export.save(torch.export.export(module, example), path)
        torch.testing.assert_close(torch.export.load(path).module()(*example), module(*example))

    @pytest.mark.parametrize("attention", ["softmax", "rela-g"])
    def test_cross(self, attention: str) -> None:
        class Cross(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.inner = build(attention)

            def forward(self, query: Tensor, memory: Tensor) -> Tensor:
                return self.inner(query, memory, memory, need_weights=False)[0]

        module = Cross().eval()
        queries, keys = torch.export.Dim("queries"), torch.export.Dim("keys")
        program = torch.export.export(
            module, (inputs(2, 5, EMBED), inputs(2, 7, EMBED)), dynamic_shapes=({1: queries}, {1: keys}), strict=False
        ).module()
        for num_queries, num_keys in ((3, 9), (8, 4)):
            x, y = inputs(2, num_queries, EMBED), inputs(2, num_keys, EMBED, seed=1)
            torch.testing.assert_close(program(x, y), module(x, y))


def test_heads_that_were_expanded_and_lengths_that_vary() -> None:
    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return relu_attention(query, key.expand(-1, 4, -1, -1), value.expand(-1, 4, -1, -1))

    compiled: Any = torch.compile(attend, fullgraph=True, backend="aot_eager", dynamic=True)
    for length in (20, 100):
        query, (key, value) = torch.randn(3, 4, length, 32), torch.randn(2, 3, 1, length, 32)
        assert torch.equal(compiled(query, key, value), attend(query, key, value))
