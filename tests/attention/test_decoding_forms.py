"""The forms that decoding needs give what one forward pass over the whole gives."""

from typing import Any

import pytest
import torch
from tests.attention.module_helpers import (
    ALL_PRESETS,
    EMBED,
    HEADS,
    LEARNED_THRESHOLD,
    build,
    causal,
    forbidden_places,
    inputs,
    padding,
)
from torch import Tensor

import rela

B, T, TK = 3, 7, 6
EXTRAS = [{}, {"add_bias_kv": True}, {"add_zero_attn": True}, {"add_bias_kv": True, "add_zero_attn": True}]
every_attention = pytest.mark.parametrize("attention", [*ALL_PRESETS, LEARNED_THRESHOLD], ids=str)


def close(actual: Tensor | None, expected: Tensor | None) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-10)


class TestAttend:
    @every_attention
    @pytest.mark.parametrize("extras", EXTRAS, ids=str)
    def test_equals_forward(self, attention: str, extras: dict[str, Any]) -> None:
        module = build(attention, **extras)
        memory = inputs(B, TK, EMBED, seed=1)
        projected = module.project_keys_values(memory)
        for seed in (2, 3):  # projected once, used twice
            query = inputs(B, T, EMBED, seed=seed)
            expected, weights = module(query, memory, memory, average_attn_weights=False)
            close(module.attend(query, projected)[0], expected)
            output, got = module.attend(query, projected, need_weights=True)
            close(output, expected)
            close(got, weights)

    @pytest.mark.parametrize("options", [{"kdim": 5, "vdim": 7}, {"bias": False}, {"batch_first": False}], ids=str)
    def test_options(self, options: dict[str, Any]) -> None:
        module = build("rela-g", **options)
        query = inputs(B, T, EMBED)
        key = inputs(B, TK, options.get("kdim", EMBED), seed=1)
        value = inputs(B, TK, options.get("vdim", EMBED), seed=2)
        got, _ = module.attend(query, module.project_keys_values(key, value))  # always batch first
        if not module.batch_first:
            query, key, value = (t.transpose(0, 1) for t in (query, key, value))
        expected, _ = module(query, key, value)
        close(got, expected if module.batch_first else expected.transpose(0, 1))

    @pytest.mark.parametrize("attention", ["rela-g", "softmax", "entmax15"])
    def test_masks(self, attention: str) -> None:
        module = build(attention)
        query, memory = inputs(B, T, EMBED), inputs(B, TK, EMBED, seed=1)
        projected = module.project_keys_values(memory)
        for masks in (
            {"key_padding_mask": padding(6, 4, 1)},
            {"attn_mask": forbidden_places(T, TK)},
            {"attn_mask": forbidden_places(B * HEADS, T, TK), "key_padding_mask": padding(6, 4, 2)},
            {"is_causal": True},
            {"is_causal": "bottom-right"},
        ):
            close(module.attend(query, projected, **masks)[0], module(query, memory, memory, **masks)[0])  # pyright: ignore[reportArgumentType]

    def test_no_weights_unless_wanted(self) -> None:
        module = build("rela-g")
        projected = module.project_keys_values(inputs(B, TK, EMBED))
        assert module.attend(inputs(B, T, EMBED), projected)[1] is None

    def test_gradients(self) -> None:
        module = build("rela-g")
        query, memory = inputs(B, T, EMBED).requires_grad_(), inputs(B, TK, EMBED, seed=1).requires_grad_()
        one = module.attend(query, module.project_keys_values(memory))[0].square().sum()
        other = module(query, memory, memory)[0].square().sum()
        for a, b in zip(
            torch.autograd.grad(one, (query, memory, module.get_parameter("in_proj_weight"))),
            torch.autograd.grad(other, (query, memory, module.get_parameter("in_proj_weight"))),
            strict=True,
        ):
            close(a, b)

    def test_refusals(self) -> None:
        module = build("rela-g")
        memory = module.project_keys_values(inputs(B, TK, EMBED))
        with pytest.raises(ValueError, match=r"expected key \[B, T, 12\].*got \(3, 6, 5\)"):
            module.project_keys_values(inputs(B, TK, 5))
        with pytest.raises(ValueError, match=r"expected key \[B, T, 12\].*got \(6, 12\)"):
            module.project_keys_values(inputs(TK, EMBED))
        with pytest.raises(ValueError, match=r"expected key.*got \(3, 6, 12\) and \(3, 5, 12\)"):
            module.project_keys_values(inputs(B, TK, EMBED), inputs(B, 5, EMBED))
        with pytest.raises(ValueError, match=r"memory: expected.*\(2, 3, 6, 4\), got \(3, 3, 6, 4\).*same batch"):
            module.attend(inputs(2, T, EMBED), memory)
        with pytest.raises(ValueError, match=r"query: expected.*got \(3, 7, 5\)"):
            module.attend(inputs(B, T, 5), memory)
        with pytest.raises(ValueError, match=r"key_padding_mask: expected.*\(3, 6\), got \(3, 7\)"):
            module.attend(inputs(B, T, EMBED), memory, padding(7, 3, 2))


class TestStep:
    @every_attention
    @pytest.mark.parametrize("extras", EXTRAS, ids=str)
    @pytest.mark.parametrize("pieces", [(1,) * T, (3, 1, 3), (T,), (5, 2)], ids=str)
    def test_equals_one_causal_pass(self, attention: str, extras: dict[str, Any], pieces: tuple[int, ...]) -> None:
        module = build(attention, **extras)
        x = inputs(B, T, EMBED)
        expected, weights = module(x, x, x, attn_mask=causal(T), average_attn_weights=False)
        num_extra = sum(extras.values())
        cache = None
        start = 0
        for piece in x.split(list(pieces), dim=1):
            stop = start + piece.shape[1]
            output, got, cache = module.step(piece, cache, need_weights=True)
            close(output, expected[:, start:stop])
            assert got is not None
            close(got[..., :stop], weights[:, :, start:stop, :stop])
            close(got[..., stop:], weights[:, :, start:stop, T : T + num_extra])
            assert cache.length == stop
            start = stop

    @pytest.mark.parametrize("attention", ["rela-g", "softmax", "sparsemax"])
    def test_weights_change_nothing(self, attention: str) -> None:
        module = build(attention)
        _, _, cache = module.step(inputs(B, 4, EMBED))
        piece = inputs(B, 2, EMBED, seed=1)
        with_weights = module.step(piece, cache, need_weights=True)
        without = module.step(piece, cache)
        assert without[1] is None
        close(without[0], with_weights[0])

    @pytest.mark.parametrize("attention", ["rela-g", "softmax", "entmax15"])
    @pytest.mark.parametrize("extras", EXTRAS, ids=str)
    def test_with_padding_on_the_left(self, attention: str, extras: dict[str, Any]) -> None:
        # Prompts of different lengths end together; the first positions of the shorter ones are padding.
        module = build(attention, **extras)
        x = inputs(B, T, EMBED)
        pad = torch.arange(T) < torch.tensor([0, 2, 3])[:, None]
        expected, _ = module(x, x, x, pad, attn_mask=causal(T))
        output, _, cache = module.step(x[:, :4], None, pad[:, :4])
        close(output, expected[:, :4])
        for position in range(4, T):
            piece = x[:, position : position + 1]
            output, _, cache = module.step(piece, cache, pad[:, : position + 1])
            close(output, expected[:, position : position + 1])

    def test_the_old_cache_stays_as_it_is(self) -> None:
        module = build("rela-g")
        _, _, cache = module.step(inputs(B, 3, EMBED))
        kept = cache.keys.clone()
        module.step(inputs(B, 1, EMBED, seed=1), cache)
        assert cache.length == 3
        assert torch.equal(cache.keys, kept)

    def test_beams(self) -> None:
        # Three hypotheses go on as copies of 0, 0 and 2: then each equals its own sentence from the start.
        module = build("rela-g", add_bias_kv=True)
        x = inputs(B, T, EMBED)
        chosen = torch.tensor([0, 0, 2])
        _, _, cache = module.step(x[:, :4])
        continued = inputs(B, 3, EMBED, seed=5)
        output, _, cache = module.step(continued, cache.select(chosen))
        whole = torch.cat([x[chosen, :4], continued], dim=1)
        expected, _ = module(whole, whole, whole, is_causal=True)
        close(output, expected[:, 4:])
        assert cache.keys.shape == (B, HEADS, T, EMBED // HEADS)

    def test_beams_may_grow_and_shrink(self) -> None:
        module = build("rela-g")
        memory = module.project_keys_values(inputs(B, TK, EMBED))
        assert memory.select(torch.tensor([0, 0, 1, 1, 2, 2])).keys.shape[0] == 6
        one = memory.select(torch.tensor([2]))
        query = inputs(B, 1, EMBED, seed=2)
        close(module.attend(query[2:], one)[0], module.attend(query, memory)[0][2:])

    def test_append(self) -> None:
        module = build("rela-g")
        x = inputs(B, T, EMBED)
        parts = [module.project_keys_values(part) for part in (x[:, :3], x[:, 3:])]
        whole = module.project_keys_values(x)
        joined = parts[0].append(parts[1])
        close(joined.keys, whole.keys)
        close(joined.values, whole.values)
        assert joined.length == whole.length == T

    def test_observers_see_steps(self) -> None:
        module = build("rela-g")
        shapes: list[torch.Size] = []
        module.register_observer(lambda _, what: shapes.append(what.weights.shape))
        _, _, cache = module.step(inputs(B, 2, EMBED))
        module.step(inputs(B, 1, EMBED), cache)
        assert shapes == [(B, HEADS, 2, 2), (B, HEADS, 1, 3)]

    @pytest.mark.parametrize("attention", ["softmax", "rela-g"])
    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
    def test_dtypes(self, attention: str, dtype: torch.dtype) -> None:
        module = rela.MultiheadAttention(EMBED, HEADS, batch_first=True, dtype=dtype, attention=attention)
        x = inputs(B, T, EMBED, dtype=dtype)
        expected, _ = module(x, x, x, is_causal=True)
        _, _, cache = module.step(x[:, :4])
        output, _, cache = module.step(x[:, 4:], cache)
        assert output.dtype == cache.keys.dtype == dtype
        tolerance = 8 * torch.finfo(dtype).eps
        torch.testing.assert_close(output, expected[:, 4:], rtol=tolerance, atol=tolerance)

    def test_needs_keys_of_the_querys_size(self) -> None:
        with pytest.raises(ValueError, match=r"step: expected kdim = vdim = embed_dim = 12.*got 5 and 12; .*attend"):
            build("rela-g", kdim=5).step(inputs(B, 1, EMBED))
