"""State dicts of rela.MultiheadAttention and of torch's module, in each other's place."""

import warnings
from typing import Any

import pytest
import torch
from tests.attention.module_helpers import (
    EMBED,
    HEADS,
    LEARNED_THRESHOLD,
    assert_same,
    build,
    inputs,
    twins,
)
from torch import nn

import rela

B, TQ = 3, 5
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
