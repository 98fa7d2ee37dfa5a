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
    count,
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


STATE_OPTIONS = [
    {},
    {"bias": False},
    {"kdim": 5},
    {"vdim": 7, "bias": False},
    {"add_bias_kv": True},
    {"kdim": EMBED, "vdim": EMBED},
]


class TestStateDict:
    @pytest.mark.parametrize("options", STATE_OPTIONS)
    def test_names_are_torchs(self, options: dict[str, Any]) -> None:
        theirs, ours = twins(**options)
        assert list(ours.state_dict()) == list(theirs.state_dict())
        assert {n: p.shape for n, p in ours.named_parameters()} == {n: p.shape for n, p in theirs.named_parameters()}
        new = rela.MultiheadAttention(EMBED, HEADS, attention="rela-g", **options)
        assert new.state_dict().keys() - theirs.state_dict().keys() == {"norm.weight", "norm.gate"}

    @pytest.mark.parametrize(
        ("attention", "names"),
        [
            ("rela-i", ["norm.weight"]),
            ("rela-g", ["norm.weight", "norm.gate"]),
            ("rela-g-layernorm", ["norm.weight", "norm.bias", "norm.gate"]),
            ("entmax", ["alpha_logit"]),
            (LEARNED_THRESHOLD, ["threshold", "norm.weight", "norm.gate"]),
        ],
    )
    @pytest.mark.parametrize("strict", [True, False])
    def test_torchs_loads_with_a_warning(self, attention: str, names: list[str], strict: bool) -> None:
        state = nn.MultiheadAttention(EMBED, HEADS).state_dict()
        ours = rela.MultiheadAttention(EMBED, HEADS, attention=attention)
        own = {name: p.clone() for name, p in ours.own_parameters().items()}
        assert set(own) == set(names)
        with pytest.warns(UserWarning, match="torch.nn.MultiheadAttention") as seen:
            result = ours.load_state_dict(state, strict=strict)
        assert len(seen) == 1
        assert all(name in str(seen[0].message) for name in names)
        assert result.missing_keys == []
        assert result.unexpected_keys == []
        assert_same(ours.state_dict(), state | own, 0.0)

    def test_softmax_loads_without_a_warning(self) -> None:
        rela.MultiheadAttention(EMBED, HEADS, attention="softmax").load_state_dict(
            nn.MultiheadAttention(EMBED, HEADS).state_dict()
        )

    def test_the_callers_dict_stays_as_it_is(self) -> None:
        state = nn.MultiheadAttention(EMBED, HEADS).state_dict()
        names = list(state)
        with pytest.warns(UserWarning, match="keep their present values"):
            rela.MultiheadAttention(EMBED, HEADS).load_state_dict(state)
        assert list(state) == names

    @pytest.mark.parametrize("attention", ["softmax", "rela-g", "entmax", LEARNED_THRESHOLD])
    def test_round_trip(self, attention: str) -> None:
        module = build(attention)
        twin = rela.MultiheadAttention(EMBED, HEADS, batch_first=True, dtype=torch.float64, attention=attention)
        twin.load_state_dict(module.state_dict())
        x = inputs(B, TQ, EMBED)
        torch.testing.assert_close(twin(x, x, x)[0], module(x, x, x)[0], rtol=0, atol=0)

    @pytest.mark.parametrize(
        ("source", "target", "message"),
        [
            ("rela-g", "softmax", "Unexpected key.*norm.weight"),
            ("rela-i", "rela-g", "Missing key.*norm.gate"),
            ("rela-g", "rela-i", "Unexpected key.*norm.gate"),
            ("entmax", "softmax", "Unexpected key.*alpha_logit"),
            ("rela-g", LEARNED_THRESHOLD, "Missing key.*threshold"),
        ],
    )
    def test_of_another_attention_fails_loudly(self, source: str, target: str, message: str) -> None:
        state = rela.MultiheadAttention(EMBED, HEADS, attention=source).state_dict()
        with pytest.raises(RuntimeError, match=message):
            rela.MultiheadAttention(EMBED, HEADS, attention=target).load_state_dict(state)

    def test_empty_fails_loudly(self) -> None:
        with pytest.raises(RuntimeError, match=r"Missing key.*norm\.weight"):
            rela.MultiheadAttention(EMBED, HEADS).load_state_dict({})

    @pytest.mark.parametrize("attention", ["rela-g", "entmax"])
    def test_one_of_ours_that_lost_its_own_parameters_fails_loudly(self, attention: str) -> None:
        module = nn.Sequential(rela.MultiheadAttention(EMBED, HEADS, attention=attention))
        state = module.state_dict()
        for name in list(state):
            if "norm" in name or "alpha" in name:
                del state[name]
        with pytest.raises(RuntimeError, match=r"Missing key.*(norm\.weight|alpha_logit)"):
            module.load_state_dict(state)

    def test_of_our_softmax_counts_as_torchs(self) -> None:
        state = rela.MultiheadAttention(EMBED, HEADS, attention="softmax").state_dict()
        with pytest.warns(UserWarning, match="keep their present values"):
            rela.MultiheadAttention(EMBED, HEADS, attention="rela-g").load_state_dict(state)

    def test_a_model_of_many_warns_once_at_the_callers_line(self) -> None:
        model = rela.convert(nn.Transformer(EMBED, 4, 1, 1, 8, batch_first=True), "rela-g")
        state = nn.Transformer(EMBED, 4, 1, 1, 8, batch_first=True).state_dict()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            model.load_state_dict(state)
        assert [w.filename for w in caught] == [__file__]

    def test_inside_a_model(self) -> None:
        model = nn.ModuleDict({"a": rela.MultiheadAttention(EMBED, HEADS), "b": nn.Linear(2, 2)})
        state = nn.ModuleDict({"a": nn.MultiheadAttention(EMBED, HEADS), "b": nn.Linear(2, 2)}).state_dict()
        with pytest.warns(UserWarning, match=r"has no norm\.weight, norm\.gate for MultiheadAttention"):
            model.load_state_dict(state)

    def test_assign(self) -> None:
        theirs = nn.MultiheadAttention(EMBED, HEADS)
        ours = rela.MultiheadAttention(EMBED, HEADS, attention="rela-g")
        with pytest.warns(UserWarning, match="keep their present values"):
            ours.load_state_dict(theirs.state_dict(), assign=True)
        assert all(isinstance(p, nn.Parameter) and p.requires_grad for p in ours.parameters())
        x = inputs(B, TQ, EMBED, dtype=torch.float32)
        ours(x, x, x)[0].sum().backward()


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
        seen: list[tuple[rela.MultiheadAttention, Any]] = []
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
