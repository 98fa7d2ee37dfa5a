"""rela.MultiheadAttention: its forms, rows without a valid key, observers, and what it refuses."""

import warnings
from typing import Any

import pytest
import torch
from tests.attention.module_helpers import (
    ALL_PRESETS,
    EMBED,
    HEADS,
    LEARNED_THRESHOLD,
    as_float_mask,
    build,
    causal,
    count,
    gradients,
    inputs,
    padding,
    weighted_sum,
)
from torch import Tensor, nn

import rela

B, TQ, TK = 3, 5, 6


class TestForms:
    @pytest.mark.parametrize("attention", ALL_PRESETS)
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
    def test_shapes_and_dtypes(self, attention: str, dtype: torch.dtype) -> None:
        for bias_kv, zero in ((False, False), (True, True)):
            module = rela.MultiheadAttention(
                EMBED, HEADS, add_bias_kv=bias_kv, add_zero_attn=zero, dtype=dtype, attention=attention
            )
            query, key = inputs(TQ, B, EMBED, dtype=dtype), inputs(TK, B, EMBED, seed=1, dtype=dtype)
            keys = TK + bias_kv + zero
            output, weights = module(query, key, key)
            assert (output.shape, weights.shape) == ((TQ, B, EMBED), (B, TQ, keys))
            assert output.dtype == weights.dtype == dtype
            output, weights = module(query, key, key, average_attn_weights=False)
            assert weights.shape == (B, HEADS, TQ, keys)
            output, weights = module(query, key, key, need_weights=False)
            assert (output.shape, output.dtype, weights) == ((TQ, B, EMBED), dtype, None)
            output, weights = module(query[:, 0], key[:, 0], key[:, 0], average_attn_weights=False)
            assert (output.shape, weights.shape) == ((TQ, EMBED), (HEADS, TQ, keys))
            assert output.isfinite().all()

    @pytest.mark.parametrize("attention", ALL_PRESETS)
    def test_batch_first_and_unbatched_agree(self, attention: str) -> None:
        first = build(attention)
        second = build(attention, batch_first=False)
        x, y = inputs(B, TQ, EMBED), inputs(B, TK, EMBED, seed=1)
        pad = padding(6, 4, 2)
        expected, weights = first(x, y, y, pad)
        got, got_weights = second(*(t.transpose(0, 1) for t in (x, y, y)), pad)
        torch.testing.assert_close(got.transpose(0, 1), expected)
        torch.testing.assert_close(got_weights, weights)
        for row in range(B):
            one, one_weights = second(x[row], y[row], y[row], pad[row])
            torch.testing.assert_close(one, expected[row])
            torch.testing.assert_close(one_weights, weights[row])

    @pytest.mark.parametrize(
        ("attention", "extra"),
        [
            ("softmax", 0),
            ("sparsemax", 0),
            ("entmax15", 0),
            ("relu", 0),
            ("relu-rmsnorm", EMBED),
            ("rela-i", EMBED),
            ("rela-g", 2 * EMBED),
            ("rela-g-layernorm", 3 * EMBED),
            ("rela-g-gelu", 2 * EMBED),
            ("rela-g-leaky", 2 * EMBED),
            ("entmax", HEADS),
            ("topk", 0),
            ("sigmoid", 0),
            ("relu2", 0),
            (LEARNED_THRESHOLD, 2 * EMBED + HEADS),
            (rela.AttentionSpec(map="relu", learn_threshold=True), HEADS),
        ],
        ids=str,
    )
    def test_extra_parameters(self, attention: str, extra: int) -> None:
        module = rela.MultiheadAttention(EMBED, HEADS, attention=attention)
        assert count(module) - count(nn.MultiheadAttention(EMBED, HEADS)) == extra
        assert sum(p.numel() for p in module.own_parameters().values()) == extra

    def test_all_presets_are_in_the_table_above(self) -> None:
        marks = TestForms.test_extra_parameters.pytestmark  # pyright: ignore[reportFunctionMemberAccess]
        assert {str(case[0]) for case in marks[0].args[1]} >= set(ALL_PRESETS)

    def test_repr_names_the_attention(self) -> None:
        assert "attention='rela-g'" in repr(rela.MultiheadAttention(EMBED, HEADS))

    @pytest.mark.parametrize("attention", ALL_PRESETS)
    @pytest.mark.parametrize(("num_queries", "num_keys"), [(0, 3), (3, 0), (1, 1)])
    def test_tiny_lengths(self, attention: str, num_queries: int, num_keys: int) -> None:
        module = build(attention)
        query, key = inputs(B, num_queries, EMBED).requires_grad_(), inputs(B, num_keys, EMBED).requires_grad_()
        for need_weights in (True, False):
            output, _ = module(query, key, key, need_weights=need_weights)
            assert output.shape == (B, num_queries, EMBED)
            assert output.isfinite().all()
            output.sum().backward()
        if num_keys == 0 and attention != "rela-g-layernorm":
            torch.testing.assert_close(output, module.out_proj.bias.expand_as(output))


class TestFullyMaskedRows:
    @pytest.mark.parametrize("attention", [*ALL_PRESETS, LEARNED_THRESHOLD], ids=str)
    @pytest.mark.parametrize("need_weights", [True, False])
    @pytest.mark.parametrize("form", ["padding", "float padding", "rows", "float rows", "finfo.min", "3d"])
    def test_zeros_and_finite_gradients(self, attention: str, need_weights: bool, form: str) -> None:
        module = build(attention)
        x = inputs(B, TQ, EMBED).requires_grad_()
        pad = padding(5, 0, 2)
        rows = torch.zeros(TQ, TQ, dtype=torch.bool)
        rows[1] = rows[4] = True
        masks = {
            "padding": {"key_padding_mask": pad},
            "float padding": {"key_padding_mask": as_float_mask(pad)},
            "rows": {"attn_mask": rows},
            "float rows": {"attn_mask": as_float_mask(rows)},
            "finfo.min": {"attn_mask": rows.double() * torch.finfo(torch.float64).min},
            "3d": {"attn_mask": rows.expand(B * HEADS, TQ, TQ)},
        }[form]
        output, weights = module(x, x, x, **masks, need_weights=need_weights)
        dead = output[1] if "padding" in form else output[:, [1, 4]]
        empty = module.out_proj.bias
        if attention == "rela-g-layernorm":  # it re-centres: zeros become its bias, half of it after the gate
            empty = module.out_proj(0.5 * module.get_parameter("norm.bias"))
        torch.testing.assert_close(dead, empty.expand_as(dead))
        if weights is not None:
            assert (weights[1] if "padding" in form else weights[:, [1, 4]]).eq(0).all()
        found = gradients(module, weighted_sum(output), x)
        broken = [name for name, grad in found.items() if grad is None or not grad.isfinite().all()]
        assert broken == []
        if "padding" in form and module.norm is None:
            assert found["input 0"][1].eq(0).all()  # pyright: ignore[reportOptionalSubscript]

    @pytest.mark.parametrize("attention", ["softmax", "rela-g", "entmax15"])
    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
    def test_other_dtypes(self, attention: str, dtype: torch.dtype) -> None:
        module = rela.MultiheadAttention(EMBED, HEADS, batch_first=True, dtype=dtype, attention=attention)
        x = inputs(B, TQ, EMBED, dtype=dtype).requires_grad_()
        for need_weights in (True, False):
            output, _ = module(x, x, x, padding(5, 0, 2), need_weights=need_weights)
            assert output[1].eq(module.out_proj.bias).all()
            output.float().square().sum().backward()
            assert x.grad is not None
            assert x.grad.isfinite().all()
            assert all(p.grad.isfinite().all() for p in module.parameters())  # pyright: ignore[reportOptionalMemberAccess]

    def test_dropout_one(self) -> None:
        module = build("rela-g", dropout=1.0)
        x = inputs(B, TQ, EMBED).requires_grad_()
        output, _ = module(x, x, x, need_weights=False)
        torch.testing.assert_close(output, module.out_proj.bias.expand_as(output))
        output.sum().backward()
        assert x.grad is not None
        assert x.grad.eq(0).all()


class TestObservers:
    @pytest.mark.parametrize("attention", ["rela-g", "rela-i", "relu2", "softmax"])
    @pytest.mark.parametrize("is_causal", [False, True])
    def test_without_scores(self, attention: str, is_causal: bool) -> None:
        """The weights are the same, by a kernel or not, and so is the output; long enough for several tiles."""
        module = build(attention).eval()
        x, pad = inputs(B, 150, EMBED), padding(150, 60, 1)
        seen: list[Any] = []
        with torch.no_grad():
            first = module.register_observer(lambda _, what: seen.append(what))
            expected, _ = module(x, x, x, pad, need_weights=False, is_causal=is_causal)
            first.remove()
            module.register_observer(lambda _, what: seen.append(what), scores=False)
            output, _ = module(x, x, x, pad, need_weights=False, is_causal=is_causal)
        torch.testing.assert_close(output, expected)
        torch.testing.assert_close(seen[1].weights, seen[0].weights)
        assert torch.equal(seen[1].weights.eq(0).all(-1), seen[0].weights.eq(0).all(-1))
        assert seen[0].scores is not None

    def test_what_they_see(self) -> None:
        module = build("rela-g")
        x, y = inputs(B, TQ, EMBED), inputs(B, TK, EMBED, seed=1)
        pad = padding(6, 4, 1)
        seen: list[tuple[Any, Any]] = []
        module.register_observer(lambda m, what: seen.append((m, what)))
        expected, weights = module(x, y, y, pad, average_attn_weights=False)
        ((who, what),) = seen
        assert who is module
        torch.testing.assert_close(what.weights, weights)
        allowed = ~pad[:, None, None].expand(B, HEADS, TQ, TK)
        assert torch.equal(what.allowed.expand(B, HEADS, TQ, TK), allowed)
        torch.testing.assert_close(what.scores.relu()[allowed], weights[allowed])
        assert what.scores[allowed].lt(0).any()
        assert what.weights[~allowed].eq(0).all()
        fast, nothing = module(x, y, y, pad, need_weights=False)
        assert nothing is None
        torch.testing.assert_close(fast, expected)
        assert len(seen) == 2

    def test_causal_and_no_mask(self) -> None:
        module = build("softmax")
        x = inputs(B, TQ, EMBED)
        seen: list[Any] = []
        module.register_observer(lambda _, what: seen.append(what.allowed))
        module(x, x, x)
        module(x, x, x, is_causal=True)
        assert seen[0] is None
        assert torch.equal(seen[1].expand(TQ, TQ), ~causal(TQ))

    def test_removed_by_the_handle(self) -> None:
        module = build("rela-g")
        x = inputs(B, TQ, EMBED)
        calls: list[str] = []
        first = module.register_observer(lambda *_: calls.append("first"))  # pyright: ignore[reportUnknownLambdaType]
        module.register_observer(lambda *_: calls.append("second"))  # pyright: ignore[reportUnknownLambdaType]
        module(x, x, x)
        first.remove()
        module(x, x, x)
        assert calls == ["first", "second", "second"]

    def test_gradients_flow_through_what_they_see(self) -> None:
        module = build("rela-g")
        x = inputs(B, TQ, EMBED)
        seen: list[Tensor] = []
        module.register_observer(lambda _, what: seen.append(what.weights))
        module(x, x, x, need_weights=False)
        (grad,) = torch.autograd.grad(seen[0].sum(), module.get_parameter("in_proj_weight"))
        assert grad.abs().sum() > 0

    def test_sees_weights_before_dropout(self) -> None:
        module = build("rela-g", dropout=0.5)
        x = inputs(B, TQ, EMBED)
        seen: list[Tensor] = []
        module.register_observer(lambda _, what: seen.append(what.weights))
        module.train()(x, x, x)
        module.eval()(x, x, x)
        torch.testing.assert_close(seen[0], seen[1], rtol=0, atol=0)


X = inputs(B, TQ, EMBED)


class TestRefusals:
    """Wrong input: a ValueError that names what was expected, what came, and a way out."""

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (
                (12, 5),
                r"expected embed_dim.*multiple of num_heads.*got embed_dim=12, num_heads=5; .*fit: 1, 2, 3, 4, 6, 12",
            ),
            ((12, 0), r"num_heads: expected a whole number, at least 1, got 0"),
            ((0, 1), r"embed_dim: expected a whole number, at least 1, got 0"),
            ((16.0, 2), r"embed_dim: expected a whole number, at least 1, got 16\.0"),
            ((12, 3, 0.0, True, False, False, 2.5), r"kdim: expected a whole number, at least 1, got 2\.5"),
            ((12, 3, 1.5), r"dropout: expected.*between 0 and 1, got 1\.5"),
        ],
    )
    def test_construction(self, arguments: tuple[Any, ...], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            rela.MultiheadAttention(*arguments)

    def test_unknown_attention(self) -> None:
        with pytest.raises(
            ValueError, match=r"unknown attention 'rela-h'; did you mean.*Known names: softmax, .*relu2"
        ):
            rela.MultiheadAttention(12, 3, attention="rela-h")

    @pytest.mark.parametrize(
        ("query", "key", "value", "message"),
        [
            (X[..., :5], X, X, r"expected .*embed_dim=12.*got \(5, 12, 12\)"),
            (X, X[..., :5], X, r"expected .*kdim=12.*got \(12, 5, 12\)"),
            (X, X, X[..., :5], r"expected .*vdim=12.*got \(12, 12, 5\)"),
            (X, X[0], X[0], r"expected .*all batched.*got shapes \(3, 5, 12\), \(5, 12\)"),
            (X[None], X[None], X[None], r"expected .*batched.*got shapes \(1, 3, 5, 12\)"),
            (X, X[:2], X[:2], r"expected .*one batch size.*batch_first"),
            (X, X, X[:, :4], r"expected .*as many keys as values.*got"),
            (X[0, 0], X[0, 0], X[0, 0], r"expected .*got shapes \(12,\)"),
        ],
    )
    def test_shapes(self, query: Tensor, key: Tensor, value: Tensor, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            build("rela-g")(query, key, value)

    @pytest.mark.parametrize(
        ("query", "key", "value"),
        [
            (X.float(), X.float(), X.float()),
            (X, X.float(), X.float()),
            (X, X, X.half()),
            (X.long(), X.long(), X.long()),
        ],
    )
    def test_dtypes(self, query: Tensor, key: Tensor, value: Tensor) -> None:
        with pytest.raises(ValueError, match=r"expected.*float64.*got"):
            build("rela-g")(query, key, value)

    @pytest.mark.parametrize(
        ("masks", "message"),
        [
            ({"key_padding_mask": padding(5, 3)}, r"key_padding_mask: expected .*\(3, 5\), got \(2, 5\)"),
            ({"key_padding_mask": padding(4, 3, 2)}, r"key_padding_mask: expected .*\(3, 5\), got \(3, 4\)"),
            ({"key_padding_mask": padding(5, 3, 2).int()}, r"mask: expected dtype bool.*got torch\.int32.*bool\(\)"),
            ({"attn_mask": causal(4)}, r"attn_mask: expected .*\(5, 5\) or .*\(9, 5, 5\), got \(4, 4\)"),
            ({"attn_mask": causal(5).expand(3, 5, 5)}, r"attn_mask: expected .*\(9, 5, 5\), got \(3, 5, 5\)"),
            ({"attn_mask": causal(5).long()}, r"mask: expected dtype bool.*got torch\.int64"),
            ({"is_causal": "top-left"}, r"is_causal: expected True, False or 'bottom-right', got 'top-left'"),
        ],
    )
    @pytest.mark.parametrize("attention", ["rela-g", "softmax"])
    def test_masks(self, masks: dict[str, Any], message: str, attention: str) -> None:
        with pytest.raises(ValueError, match=message):
            build(attention)(X, X, X, **masks)

    def test_unbatched_padding(self) -> None:
        for mask in (padding(5, 3), padding(5)):
            with pytest.raises(ValueError, match=r"key_padding_mask: expected shape \[Tk\] = \(5,\).*squeeze"):
                build("rela-g")(X[0], X[0], X[0], key_padding_mask=mask)

    @pytest.mark.parametrize(
        ("masks", "message"),
        [
            ({"key_padding_mask": padding(5, 3, 2).T}, r"got \(5, 3\); transpose it"),
            ({"attn_mask": causal(5).expand(3, 5, 5)}, r"got \(3, 5, 5\); .*repeat_interleave\(3, dim=0\)"),
            ({"attn_mask": padding(5, 3, 2)}, r"got \(3, 5\); .*key_padding_mask"),
        ],
    )
    def test_masks_in_other_peoples_shapes_get_a_remedy(self, masks: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            build("rela-g")(X, X, X, **masks)

    def test_what_is_no_tensor(self) -> None:
        rows: Any = X.tolist()
        with pytest.raises(TypeError, match=r"query: expected a torch\.Tensor, got list; .*as_tensor"):
            build("rela-g")(rows, X, X)
        with pytest.raises(TypeError, match=r"key_padding_mask: expected a torch\.Tensor, got list"):
            build("rela-g")(X, X, X, key_padding_mask=rows)
        with pytest.raises(TypeError, match=r"attn_mask: expected a torch\.Tensor, got ndarray"):
            build("rela-g")(X, X, X, attn_mask=X.numpy())


def test_quantize_dynamic_takes_the_rest_of_a_converted_model() -> None:
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(EMBED, 4, 8, batch_first=True), 1).eval()
    encoder = rela.convert(encoder, "rela-g")
    x = inputs(B, TQ, EMBED, dtype=torch.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own: quantization moves to another package
        quantize: Any = torch.ao.quantization.quantize_dynamic  # pyright: ignore[reportDeprecated]
        quantized = quantize(encoder, {nn.Linear}, dtype=torch.qint8)
    torch.testing.assert_close(quantized(x), encoder(x), rtol=0.1, atol=0.1)
