"""rela.MultiheadAttention: torch's module when it is softmax, the definitions by hand for every other attention."""

import itertools
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
    assert_same,
    build,
    by_hand,
    causal,
    forbidden_places,
    gradients,
    inputs,
    padding,
    twins,
    weighted_sum,
)
from torch import Tensor, nn

import rela

B, TQ, TK = 3, 5, 6
MASKS = ("none", "padding", "float padding", "2d", "float 2d", "3d", "float 3d", "padding and 2d", "both float")


def masks_of(kind: str, batch: int, num_queries: int, num_keys: int, batched: bool = True) -> dict[str, Tensor]:
    """Keyword arguments for a kind of mask."""
    lengths = (num_keys, num_keys - 2, 1, 4)[:batch]
    pad = padding(*lengths, longest=num_keys)
    pad = pad if batched else pad[0] | (torch.arange(num_keys) == num_keys - 1)
    flat = forbidden_places(num_queries, num_keys)
    deep = forbidden_places(batch * HEADS, num_queries, num_keys)
    added = 0.5 * inputs(num_queries, num_keys, seed=8)
    return {
        "none": {},
        "padding": {"key_padding_mask": pad},
        "float padding": {"key_padding_mask": as_float_mask(pad)},
        "2d": {"attn_mask": flat},
        "float 2d": {"attn_mask": as_float_mask(flat) + added},
        "3d": {"attn_mask": deep},
        "float 3d": {"attn_mask": as_float_mask(deep) + added},
        "padding and 2d": {"key_padding_mask": pad, "attn_mask": flat},
        "both float": {"key_padding_mask": as_float_mask(pad), "attn_mask": as_float_mask(flat) + added},
    }[kind]


def three_inputs(same: str, batch_first: bool, batched: bool, kdim: int, vdim: int) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value: one object, two, or three."""

    def draw(length: int, size: int, seed: int) -> Tensor:
        x = inputs(B, length, size, seed=seed)
        x = x if batched and batch_first else x.transpose(0, 1).contiguous() if batched else x[0]
        return x.requires_grad_()

    query = draw(TQ, EMBED, 0)
    if same == "self":
        return query, query, query
    key = draw(TK, kdim, 1)
    return (query, key, key) if same == "cross" else (query, key, draw(TK, vdim, 2))


class TestEqualsTorch:
    """With attention="softmax" the module is torch's: outputs, weights, gradients."""

    def compare(self, options: dict[str, Any], same: str, batched: bool, masks: dict[str, Tensor], **call: Any) -> None:
        theirs, ours = twins(**options)
        kdim, vdim = options.get("kdim", EMBED), options.get("vdim", EMBED)
        x = three_inputs(same, options.get("batch_first", False), batched, kdim, vdim)
        leaves = list({id(t): t for t in x}.values())
        expected = theirs(*x, **masks, **call)
        got = ours(*x, **masks, **call)
        if call.get("need_weights", True):
            torch.testing.assert_close(got[1], expected[1], rtol=1e-10, atol=1e-12)
        else:
            assert got[1] is None
        torch.testing.assert_close(got[0], expected[0], rtol=1e-10, atol=1e-12)
        assert_same(
            gradients(ours, weighted_sum(*got), *leaves),
            gradients(theirs, weighted_sum(*expected), *leaves),
            1e-9,
        )
        with torch.no_grad(), warnings.catch_warnings():  # torch's fused path
            warnings.filterwarnings("ignore", ".*nested.*")
            expected = theirs.eval()(*x, **masks, **call)
            got = ours.eval()(*x, **masks, **call)
        torch.testing.assert_close(got[0], expected[0], rtol=1e-9, atol=1e-11)

    @pytest.mark.parametrize("masks", MASKS)
    @pytest.mark.parametrize(
        ("same", "batched", "batch_first"),
        [
            *itertools.product(("self", "cross", "all different"), (True,), (True, False)),
            ("self", False, True),
            ("all different", False, False),
        ],
    )
    def test_masks_and_inputs(self, same: str, batched: bool, batch_first: bool, masks: str) -> None:
        num_keys = TQ if same == "self" else TK
        arguments = masks_of(masks, B if batched else 1, TQ, num_keys, batched)
        for need_weights, average in ((True, True), (True, False), (False, True)):
            self.compare(
                {"batch_first": batch_first},
                same,
                batched,
                arguments,
                need_weights=need_weights,
                average_attn_weights=average,
            )

    @pytest.mark.parametrize("masks", ["none", "padding", "padding and 2d", "both float", "3d"])
    @pytest.mark.parametrize(
        ("sizes", "bias", "bias_kv", "zero"),
        [
            case
            for case in itertools.product(({}, {"kdim": 5}, {"kdim": 5, "vdim": 7}), *[(False, True)] * 3)
            if case != ({}, True, False, False)  # that is the test above
        ],
    )
    def test_options(self, sizes: dict[str, Any], bias: bool, bias_kv: bool, zero: bool, masks: str) -> None:
        options = {"bias": bias, "add_bias_kv": bias_kv, "add_zero_attn": zero, "batch_first": True} | sizes
        same = "all different" if sizes else "cross"
        for need_weights in (True, False):
            self.compare(options, same, True, masks_of(masks, B, TQ, TK), need_weights=need_weights)
        if not sizes:
            self.compare(options, "self", True, masks_of(masks, B, TQ, TQ))

    @pytest.mark.parametrize("bias_kv", [False, True])
    @pytest.mark.parametrize("zero", [False, True])
    def test_options_unbatched(self, bias_kv: bool, zero: bool) -> None:
        options = {"add_bias_kv": bias_kv, "add_zero_attn": zero}
        self.compare(options, "cross", False, masks_of("padding and 2d", 1, TQ, TK, batched=False))

    @pytest.mark.parametrize("need_weights", [True, False])
    @pytest.mark.parametrize("pad", [False, True])
    @pytest.mark.parametrize("as_float", [False, True])
    def test_causal_with_its_mask(self, need_weights: bool, pad: bool, as_float: bool) -> None:
        mask = as_float_mask(causal(TQ)) if as_float else causal(TQ)
        masks = {"attn_mask": mask}
        if pad:
            keys = padding(5, 3, 1)
            masks["key_padding_mask"] = as_float_mask(keys) if as_float else keys
        self.compare({"batch_first": True}, "self", True, masks, need_weights=need_weights, is_causal=True)

    def test_gradient_of_a_learned_mask(self) -> None:
        theirs, ours = twins(batch_first=True)
        mask = inputs(TQ, TQ, seed=4).requires_grad_()
        x = inputs(B, TQ, EMBED)
        for need_weights in (True, False):
            found = [
                torch.autograd.grad(weighted_sum(m(x, x, x, attn_mask=mask, need_weights=need_weights)[0]), mask)[0]
                for m in (theirs, ours)
            ]
            torch.testing.assert_close(found[1], found[0])

    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
    def test_dtypes(self, dtype: torch.dtype) -> None:
        theirs, ours = twins(batch_first=True, dtype=dtype)
        x = inputs(B, TQ, EMBED, dtype=dtype)
        tolerance = 1e-5 if dtype == torch.float32 else 8 * torch.finfo(dtype).eps
        for need_weights in (True, False):
            expected, got = theirs(x, x, x, need_weights=need_weights), ours(x, x, x, need_weights=need_weights)
            torch.testing.assert_close(got[0], expected[0], rtol=tolerance, atol=tolerance)
            if need_weights:
                torch.testing.assert_close(got[1], expected[1], rtol=tolerance, atol=tolerance)

    @pytest.mark.parametrize("attention", ["softmax", "rela-g"])
    @pytest.mark.parametrize(
        "options", [{}, {"kdim": 5, "vdim": 7}, {"bias": False}, {"add_bias_kv": True}, {"dtype": torch.float64}]
    )
    def test_same_seed_same_start(self, options: dict[str, Any], attention: str) -> None:
        torch.manual_seed(11)
        theirs = nn.MultiheadAttention(EMBED, HEADS, **options)
        torch.manual_seed(11)
        ours = rela.MultiheadAttention(EMBED, HEADS, **options, attention=attention)
        started = ours.state_dict()
        for name, value in theirs.state_dict().items():
            assert torch.equal(value, started[name]), name

    def test_reset_parameters(self) -> None:
        torch.manual_seed(11)
        module = rela.MultiheadAttention(EMBED, HEADS, attention=LEARNED_THRESHOLD)
        first = {name: p.clone() for name, p in module.named_parameters()}
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.fill_(9.0)
        torch.manual_seed(11)
        module.reset_parameters()
        assert_same(dict(module.named_parameters()), first, 0.0)

    def test_dropout_drops_weights(self) -> None:
        _, ours = twins(dropout=0.5, batch_first=True)
        x = inputs(B, TQ, EMBED)
        outputs = [ours(x, x, x) for _ in range(2)]
        assert not torch.equal(outputs[0][0], outputs[1][0])
        torch.testing.assert_close(outputs[0][1], outputs[1][1], rtol=0, atol=0)  # reported is A, not A'
        ours.eval()
        torch.testing.assert_close(ours(x, x, x)[0], ours(x, x, x)[0], rtol=0, atol=0)


class TestEqualsTheDefinition:
    @pytest.mark.parametrize("attention", [*ALL_PRESETS, LEARNED_THRESHOLD], ids=str)
    @pytest.mark.parametrize("masks", ["none", "padding and 2d", "both float"])
    def test_by_hand(self, attention: str, masks: str) -> None:
        module = build(attention)
        query, key = inputs(B, TQ, EMBED), inputs(B, TK, EMBED, seed=1)
        arguments = masks_of(masks, B, TQ, TK)
        allowed, bias = _allowed_and_bias(arguments)
        expected, weights = by_hand(module, query, key, key, allowed, bias)
        got, got_weights = module(query, key, key, **arguments, average_attn_weights=False)
        torch.testing.assert_close(got_weights, weights, rtol=1e-7, atol=1e-9)
        torch.testing.assert_close(got, expected, rtol=1e-7, atol=1e-9)
        torch.testing.assert_close(module(query, key, key, **arguments)[1], weights.mean(1), rtol=1e-7, atol=1e-9)
        fast, nothing = module(query, key, key, **arguments, need_weights=False)
        assert nothing is None
        torch.testing.assert_close(fast, expected, rtol=1e-7, atol=1e-9)

    @pytest.mark.parametrize("attention", ["rela-g", "rela-i", "entmax15", "softmax"])
    @pytest.mark.parametrize("options", [{}, {"kdim": 5, "vdim": 7}, {"bias": False}, {"kdim": 5, "bias": False}])
    def test_options(self, attention: str, options: dict[str, Any]) -> None:
        module = build(attention, **options)
        query = inputs(B, TQ, EMBED)
        key = inputs(B, TK, options.get("kdim", EMBED), seed=1)
        value = inputs(B, TK, options.get("vdim", EMBED), seed=2)
        expected, weights = by_hand(module, query, key, value)
        got, got_weights = module(query, key, value, average_attn_weights=False)
        torch.testing.assert_close(got, expected, rtol=1e-7, atol=1e-9)
        torch.testing.assert_close(got_weights, weights, rtol=1e-7, atol=1e-9)

    @pytest.mark.parametrize("attention", ["rela-g", "sparsemax"])
    def test_causal_needs_no_mask(self, attention: str) -> None:
        module = build(attention)
        x = inputs(B, TQ, EMBED)
        expected, _ = by_hand(module, x, x, x, ~causal(TQ))
        torch.testing.assert_close(module(x, x, x, is_causal=True)[0], expected, rtol=1e-7, atol=1e-9)
        both = forbidden_places(TQ, TQ)
        expected, _ = by_hand(module, x, x, x, ~causal(TQ) & ~both)
        got, _ = module(x, x, x, is_causal=True, attn_mask=both)
        torch.testing.assert_close(got, expected, rtol=1e-7, atol=1e-9)

    @pytest.mark.parametrize("num_keys", [3, 5, 8])
    def test_causal_at_the_bottom_right(self, num_keys: int) -> None:
        module = build("rela-g")
        query, key = inputs(B, TQ, EMBED), inputs(B, num_keys, EMBED, seed=1)
        allowed = torch.arange(num_keys) <= torch.arange(TQ)[:, None] + num_keys - TQ
        expected, _ = by_hand(module, query, key, key, allowed)
        got, _ = module(query, key, key, is_causal="bottom-right")
        torch.testing.assert_close(got, expected, rtol=1e-7, atol=1e-9)

    def test_the_norm_is_over_all_heads(self) -> None:
        module = build("relu-rmsnorm")
        x = inputs(B, TQ, EMBED)
        with torch.no_grad():
            module.out_proj.weight.copy_(torch.eye(EMBED))
            module.out_proj.bias.zero_()
            module.get_parameter("norm.weight").fill_(1.0)
        output, _ = module(x, x, x)
        size = output.square().mean(-1)
        alive = size > 0.01
        assert alive.any()
        torch.testing.assert_close(size[alive], torch.ones_like(size[alive]), rtol=1e-3, atol=1e-3)
        by_head = output.unflatten(-1, (HEADS, -1)).square().mean(-1)
        assert (by_head - 1).abs().max() > 0.1

    def test_fixed_threshold_and_length_power(self) -> None:
        for spec in (
            rela.AttentionSpec(map="relu", norm="gated-rmsnorm", threshold=0.3),
            rela.AttentionSpec(map="relu2", norm="rmsnorm", threshold=-0.2, length_power=0.5),
            rela.AttentionSpec(map="relu", length_power=1.0, scale=0.7),
        ):
            module = build(spec)
            x = inputs(B, TQ, EMBED)
            pad = padding(5, 3, 1)
            expected, _ = by_hand(module, x, x, x, ~pad[:, None, None])
            for need_weights in (True, False):
                got, _ = module(x, x, x, key_padding_mask=pad, need_weights=need_weights)
                torch.testing.assert_close(got, expected, rtol=1e-7, atol=1e-9)

    @pytest.mark.parametrize("attention", [*ALL_PRESETS, LEARNED_THRESHOLD], ids=str)
    def test_gradients_do_not_depend_on_the_kernel(self, attention: str) -> None:
        module = build(attention)
        query, key = inputs(B, TQ, EMBED).requires_grad_(), inputs(B, TK, EMBED, seed=1).requires_grad_()
        pad = padding(6, 4, 1)
        found = [
            gradients(module, weighted_sum(module(query, key, key, pad, need_weights=need)[0]), query, key)
            for need in (True, False)
        ]
        assert_same(found[1], found[0], 1e-8)
        unused = [name for name, grad in found[0].items() if grad is None]
        assert unused == []


class TestFloat32:
    """float32 has kernels of its own: they give what float64 gives, with every form of mask and layout."""

    @pytest.mark.parametrize("attention", [*ALL_PRESETS, LEARNED_THRESHOLD], ids=str)
    @pytest.mark.parametrize("masks", [*MASKS, "causal", "bottom-right"])
    def test_close_to_float64(self, attention: str, masks: str) -> None:
        arguments: dict[str, Any] = {"need_weights": False}
        if masks in MASKS:
            arguments |= masks_of(masks, B, TQ, TK)
        else:
            arguments["is_causal"] = masks == "causal" or masks
        for options in ({}, {"batch_first": False, "add_bias_kv": True, "add_zero_attn": True}):
            found: list[dict[str, Tensor | None]] = []
            for dtype in (torch.float64, torch.float32):
                module = build(attention, dtype=dtype, **options)
                x, y = (inputs(B, t, EMBED, seed=t, dtype=dtype).requires_grad_() for t in (TQ, TK))
                query, key = (x, y) if module.batch_first else (x.transpose(0, 1), y.transpose(0, 1))
                call = {
                    name: value.to(dtype) if isinstance(value, Tensor) and value.is_floating_point() else value
                    for name, value in arguments.items()
                }
                output, _ = module(query, key, key, **call)
                loss = output[..., ::2].sum()  # its gradient has strides of 0
                found.append({"output": output.double()} | _as_double(gradients(module, loss, x, y)))
            assert_same(found[1], found[0], 2e-3 if attention == "relu2" else 2e-4)

    @pytest.mark.parametrize("attention", ["relu", "rela-g", "rela-i", LEARNED_THRESHOLD], ids=str)
    @pytest.mark.parametrize(("length", "heads", "size"), [(1, 1, 1), (63, 2, 8), (111, 1, 80), (130, 3, 64)])
    def test_awkward_shapes(self, attention: str, length: int, heads: int, size: int) -> None:
        found: list[dict[str, Tensor | None]] = []
        for dtype in (torch.float64, torch.float32):
            module = rela.MultiheadAttention(heads * size, heads, batch_first=True, dtype=dtype, attention=attention)
            with torch.no_grad():
                for index, parameter in enumerate(module.parameters()):
                    parameter.copy_(0.3 * inputs(*parameter.shape, seed=index) / size**0.5)
            x = inputs(2, length, heads * size, dtype=dtype).requires_grad_()
            pad = padding(length, max(length - 5, 1))
            output, _ = module(x, x, x, pad, need_weights=False, is_causal=True)
            found.append({"output": output.double()} | _as_double(gradients(module, weighted_sum(output), x)))
        scale = max(float(t.detach().abs().max()) for t in found[0].values() if t is not None)
        scaled = [{name: t / scale for name, t in f.items() if t is not None} for f in found]
        assert_same(scaled[1], scaled[0], 1e-4)


def _as_double(tensors: dict[str, Tensor | None]) -> dict[str, Tensor | None]:
    return {name: None if t is None else t.double() for name, t in tensors.items()}


def _allowed_and_bias(arguments: dict[str, Tensor]) -> tuple[Tensor | None, Tensor | None]:
    allowed, bias = torch.ones(1, 1, 1, 1, dtype=torch.bool), torch.zeros(1, 1, 1, 1, dtype=torch.float64)
    for name, mask in arguments.items():
        wide = mask[:, None, None, :] if name == "key_padding_mask" else mask
        if wide.dtype == torch.bool:
            allowed = allowed & ~wide
        else:
            allowed = allowed & ~wide.isinf()
            bias = bias + wide.masked_fill(wide.isinf(), 0.0)
    return allowed, bias
