"""rela.convert: which attentions it finds, and what it keeps."""

import functools
from typing import Any

import pytest
import torch
from tests.attention.conversion_helpers import PADDING, D, H, attentions, encoder, encoder_layer, sized, transformer
from tests.attention.module_helpers import (
    LEARNED_THRESHOLD,
    causal,
    inputs,
    randomise,
)
from torch import nn
from torch.nn.utils import prune

import rela
from rela.attention import Conversion


class TestKinds:
    ALL = {f"encoder.layers.{i}.self_attn": "encoder" for i in range(2)} | {
        f"decoder.layers.{i}.{n}": k
        for i in range(2)
        for n, k in (("self_attn", "decoder"), ("multihead_attn", "cross"))
    }

    @pytest.mark.parametrize(
        "where",
        [{"encoder"}, {"decoder"}, {"cross"}, ("decoder", "cross"), ["encoder", "decoder", "cross"], "cross"],
    )
    def test_transformer(self, where: Any) -> None:
        model = rela.convert(transformer(), "rela-g", where=where)
        assert attentions(model) == {name: "rela-g" if kind in where else "torch" for name, kind in self.ALL.items()}

    def test_each_kind_its_own_attention(self) -> None:
        model = transformer()
        for kind, attention in (("encoder", "softmax"), ("decoder", "rela-g"), ("cross", "entmax15")):
            rela.convert(model, attention, where={kind})
        assert attentions(model) == {
            name: {"encoder": "softmax", "decoder": "rela-g", "cross": "entmax15"}[kind]
            for name, kind in self.ALL.items()
        }

    def test_only_that_kind_changes_what_is_computed(self) -> None:
        src, tgt = inputs(3, 7, D), inputs(3, 5, D, seed=1)
        plain = transformer().train()
        changed = rela.convert(transformer(), "rela-g", where={"cross"}).train()
        torch.testing.assert_close(plain.encoder(src), changed.encoder(src), rtol=0, atol=0)  # pyright: ignore[reportCallIssue]
        assert (plain(src, tgt) - changed(src, tgt)).abs().max() > 1e-3

    def test_decoder_layer_alone(self) -> None:
        layer = nn.TransformerDecoderLayer(D, H, 24)
        rela.convert(layer, "rela-i", where={"cross"})
        assert attentions(layer) == {"self_attn": "torch", "multihead_attn": "rela-i"}

    def test_by_name(self) -> None:
        model = nn.ModuleDict(
            {
                "encoder": nn.ModuleList([attention_block("attn")]),
                "decoder": nn.ModuleList([attention_block("self_attn", "cross_attn", "encoder_attn", "src_attn")]),
            }
        )
        rela.convert(model, "rela-g", where={"encoder"})
        rela.convert(model, "rela-i", where={"decoder"})
        rela.convert(model, "relu", where={"cross"})
        assert attentions(model) == {
            "encoder.0.attn": "rela-g",
            "decoder.0.self_attn": "rela-i",
            "decoder.0.cross_attn": "relu",
            "decoder.0.encoder_attn": "relu",
            "decoder.0.src_attn": "relu",
        }

    @pytest.mark.parametrize("outer", ["encoder_decoder", "encdec", "crossword"])
    def test_the_nearest_name_decides(self, outer: str) -> None:
        inner = nn.ModuleDict({"encoder": attention_block("self_attn"), "decoder": attention_block("self_attn")})
        model = nn.ModuleDict({outer: inner})
        rela.convert(model, "rela-g", where={"encoder"})
        assert attentions(model) == {
            f"{outer}.encoder.self_attn": "rela-g",
            f"{outer}.decoder.self_attn": "torch",
        }

    def test_unknown_kind_is_an_error_that_leaves_the_model_alone(self) -> None:
        model = nn.ModuleDict({"encoder": attention_block("attn"), "mixer": attention_block("attn")})
        with pytest.raises(ValueError, match=r"cannot tell.*'mixer\.attn'.*function"):
            rela.convert(model, "rela-g", where={"encoder"})
        assert set(attentions(model).values()) == {"torch"}
        rela.convert(model, "rela-g")  # all kinds: nothing to tell apart
        assert set(attentions(model).values()) == {"rela-g"}

    def test_function(self) -> None:
        model = nn.ModuleDict({"mixer": attention_block("a", "b")})
        seen: list[tuple[str, nn.Module]] = []

        def choose(name: str, module: nn.Module) -> bool:
            seen.append((name, module))
            return name.endswith("b")

        before = [("mixer.a", model["mixer"].a), ("mixer.b", model["mixer"].b)]
        rela.convert(model, "rela-g", where=choose)
        assert seen == before
        assert attentions(model) == {"mixer.a": "torch", "mixer.b": "rela-g"}

    @pytest.mark.parametrize("where", [{"encoders"}, "self", set(), {"encoder", "x"}])
    def test_wrong_where(self, where: Any) -> None:
        with pytest.raises(ValueError, match=r"where: expected kinds out of encoder, decoder, cross.*got"):
            rela.convert(transformer(), "rela-g", where=where)

    @pytest.mark.parametrize("where", [{"cross"}, lambda *_: False])  # pyright: ignore[reportUnknownLambdaType]
    def test_nothing_chosen(self, where: Any) -> None:
        with pytest.raises(ValueError, match=r"where.*expected.*got"):
            rela.convert(encoder(), "rela-g", where=where)

    def test_an_attention_alone_has_no_kind(self) -> None:
        with pytest.raises(ValueError, match="where"):
            rela.convert(nn.MultiheadAttention(D, H), "rela-g", where={"encoder"})


def attention_block(*names: str) -> nn.Module:
    block = nn.Module()
    for name in names:
        setattr(block, name, nn.MultiheadAttention(D, H, batch_first=True))
    return block


class TestPlaces:
    def test_an_attention_itself(self) -> None:
        old = nn.MultiheadAttention(D, H, batch_first=True)
        new = rela.convert(old, "rela-i")
        assert isinstance(new, rela.MultiheadAttention)
        assert new.in_proj_weight is old.in_proj_weight
        assert new.attention.name == "rela-i"

    def test_containers(self) -> None:
        model = nn.Sequential(
            nn.ModuleList([nn.MultiheadAttention(D, H), nn.Linear(2, 2)]),
            nn.ModuleDict({"x": nn.MultiheadAttention(D, H), "deeper": nn.Sequential(nn.MultiheadAttention(D, H))}),
        )
        rela.convert(model)
        assert attentions(model) == {"0.0": "rela-g", "1.x": "rela-g", "1.deeper.0": "rela-g"}

    def test_shared_between_two_parents(self) -> None:
        attention = nn.MultiheadAttention(D, H)
        model = nn.ModuleDict({"a": nn.ModuleList([attention]), "b": nn.ModuleList([attention])})
        reported: list[Conversion] = []
        rela.convert(model, report=reported.append)
        assert attentions(model) == {"a.0": "rela-g", "b.0": "rela-g"}
        assert model["a"][0] is model["b"][0]  # pyright: ignore[reportIndexIssue]
        assert len(reported) == 1

    def test_shared_within_one_parent(self) -> None:
        attention = nn.MultiheadAttention(D, H)
        model = nn.ModuleList([attention, nn.Identity(), attention])
        rela.convert(model)
        assert attentions(model) == {"0": "rela-g", "2": "rela-g"}
        assert model[0] is model[2]

    def test_shared_layer(self) -> None:
        layer = encoder_layer()
        model = nn.Sequential(layer, layer)
        rela.convert(model)
        assert attentions(model) == {"0.self_attn": "rela-g", "1.self_attn": "rela-g"}
        assert model[0] is model[1]

    def test_nothing_to_convert(self) -> None:
        with pytest.raises(ValueError, match=r"expected at least one nn\.MultiheadAttention inside, got Sequential"):
            rela.convert(nn.Sequential(nn.Linear(2, 2)))

    def test_unknown_attention(self) -> None:
        with pytest.raises(ValueError, match="unknown attention 'rela'"):
            rela.convert(transformer(), "rela")

    @pytest.mark.parametrize("base", [nn.MultiheadAttention, rela.MultiheadAttention])
    def test_a_forward_of_its_own_is_not_thrown_away(self, base: Any) -> None:
        class Scaled(base):
            def forward(self, *args: Any, **kwargs: Any) -> Any:
                output, weights = super().forward(*args, **kwargs)
                return 2 * output, weights

        class Renamed(base):
            pass

        model = nn.ModuleList([Renamed(D, H), Scaled(D, H)])
        with pytest.raises(ValueError, match=r"1: expected.*own forward, got Scaled.*where"):
            rela.convert(model, "rela-i")
        assert type(model[0]) is Renamed
        rela.convert(model, "rela-i", where=lambda name, _: name == "0")
        assert attentions(model)["0"] == "rela-i"
        assert type(model[1]) is Scaled

    def test_a_forward_put_in_by_hand_is_not_thrown_away(self) -> None:
        layer = encoder_layer()
        layer.self_attn.forward = functools.partial(nn.MultiheadAttention.forward, layer.self_attn)
        with pytest.raises(ValueError, match=r"self_attn: expected.*own forward"):
            rela.convert(layer, "rela-g")

    def test_parameters_that_would_be_lost_are_named(self) -> None:
        class More(nn.MultiheadAttention):
            def __init__(self) -> None:
                super().__init__(D, H)
                self.extra = nn.Linear(2, 2)

        with pytest.raises(ValueError, match=r"got extra\.bias, extra\.weight too, which would be lost"):
            rela.convert(nn.Sequential(More()), "rela-g")
        layer = encoder_layer()
        prune.l1_unstructured(layer.self_attn, "in_proj_weight", 0.5)
        with pytest.raises(ValueError, match=r"in_proj_weight_mask, in_proj_weight_orig too.*prune\.remove"):
            rela.convert(layer, "rela-g")
        prune.remove(layer.self_attn, "in_proj_weight")
        rela.convert(layer, "rela-g")

    def test_parametrized(self) -> None:
        model = encoder()
        attention = model.layers[1].self_attn
        nn.utils.parametrizations.weight_norm(attention, "in_proj_weight")  # pyright: ignore[reportArgumentType]
        with pytest.raises(ValueError, match=r"layers\.1\.self_attn: expected plain.*remove_parametrizations"):
            rela.convert(model)
        assert set(attentions(model).values()) == {"torch"}, "an error must leave the model as it was"

    def test_parametrized_output_projection(self) -> None:
        model = encoder()
        nn.utils.parametrizations.weight_norm(model.layers[0].self_attn.out_proj, "weight")  # pyright: ignore[reportArgumentType, reportAttributeAccessIssue]
        with pytest.raises(ValueError, match=r"layers\.0\.self_attn.*expected plain.*remove_parametrizations"):
            rela.convert(model)


class TestWhatIsKept:
    @pytest.mark.parametrize(
        "options",
        [
            {},
            {"bias": False},
            {"kdim": 5, "vdim": 6},
            {"add_bias_kv": True, "add_zero_attn": True, "dropout": 0.25},
            {"batch_first": True, "dtype": torch.float64},
        ],
    )
    def test_parameters_are_the_same_objects(self, options: dict[str, Any]) -> None:
        old = nn.MultiheadAttention(D, H, **options)
        new = rela.convert(old, "rela-g")
        assert isinstance(new, rela.MultiheadAttention)
        kept = dict(new.named_parameters())
        for name, parameter in old.named_parameters():
            assert kept.pop(name) is parameter
        assert set(kept) == {"norm.weight", "norm.gate"}
        for attribute in ("embed_dim", "num_heads", "kdim", "vdim", "dropout", "batch_first", "add_zero_attn"):
            assert getattr(new, attribute) == getattr(old, attribute)

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
    def test_dtype(self, dtype: torch.dtype) -> None:
        model = rela.convert(nn.TransformerEncoderLayer(D, H, dtype=dtype), LEARNED_THRESHOLD)
        assert {p.dtype for p in model.parameters()} == {dtype}

    def test_device(self) -> None:
        model = rela.convert(nn.TransformerEncoderLayer(D, H, device="meta"), LEARNED_THRESHOLD)
        assert {p.device.type for p in model.parameters()} == {"meta"}
        model = rela.convert(nn.TransformerEncoderLayer(D, H), LEARNED_THRESHOLD)
        assert {p.device.type for p in model.parameters()} == {"cpu"}

    @pytest.mark.parametrize("training", [False, True])
    def test_training_flag(self, training: bool) -> None:
        model = rela.convert(encoder().train(training), "rela-g")
        assert {m.training for m in model.modules()} == {training}

    def test_own_parameters_start_as_in_a_new_module(self) -> None:
        new = rela.convert(nn.MultiheadAttention(D, H), LEARNED_THRESHOLD)
        own = dict(new.named_parameters())
        assert own["norm.weight"].eq(1).all()
        bound = (3 / D) ** 0.5
        assert own["norm.gate"].abs().max() <= bound
        assert own["norm.gate"].abs().max() > bound / 10
        assert own["threshold"].allclose(torch.full((H,), 0.1))

    def test_optimizer_still_trains_it(self) -> None:
        model = encoder()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        rela.convert(model)
        before = model.get_parameter("layers.0.self_attn.in_proj_weight").clone()
        model(inputs(3, 7, D)).square().sum().backward()
        optimizer.step()
        assert not torch.equal(before, model.get_parameter("layers.0.self_attn.in_proj_weight"))

    def test_state_dict_of_the_original_loads(self) -> None:
        state = transformer().state_dict()
        model = rela.convert(transformer(), "rela-g")
        randomise(model, seed=99)
        with pytest.warns(UserWarning, match=r"has no .*norm\.weight.*norm\.gate.*keep their present values") as seen:
            model.load_state_dict(state)
        assert len(seen) == 6  # one for each attention
        loaded = model.state_dict()
        assert all(torch.equal(loaded[name], value) for name, value in state.items())

    def test_softmax_equals_the_original(self) -> None:
        src, tgt = inputs(3, 7, D), inputs(3, 5, D, seed=1)
        model = transformer()
        before = model(src, tgt, tgt_mask=causal(5), src_key_padding_mask=PADDING)
        after = rela.convert(model, "softmax")(src, tgt, tgt_mask=causal(5), src_key_padding_mask=PADDING)
        torch.testing.assert_close(after, before, rtol=1e-12, atol=1e-12)

    def test_again_with_the_same_attention_changes_nothing(self) -> None:
        model = rela.convert(encoder(), "rela-g")
        before = [m for m in model.modules() if isinstance(m, rela.MultiheadAttention)]
        reported: list[Conversion] = []
        rela.convert(model, "rela-g", report=reported.append)
        after = [m for m in model.modules() if isinstance(m, rela.MultiheadAttention)]
        assert all(a is b for a, b in zip(before, after, strict=True))
        assert reported == []

    def test_from_one_of_ours_to_another(self) -> None:
        model = rela.convert(encoder(), "rela-i")
        weight = model.get_parameter("layers.0.self_attn.in_proj_weight")
        reported: list[Conversion] = []
        rela.convert(model, "rela-g", report=reported.append)
        assert set(attentions(model).values()) == {"rela-g"}
        assert model.get_parameter("layers.0.self_attn.in_proj_weight") is weight
        assert [c.before for c in reported] == ["rela-i", "rela-i"]
        back = rela.convert(model, "softmax")
        torch.testing.assert_close(back(inputs(3, 7, D)), encoder()(inputs(3, 7, D)))

    def test_observers_stay(self) -> None:
        attention = sized("rela-i")
        calls: list[int] = []
        handle = attention.register_observer(lambda *_: calls.append(1))  # pyright: ignore[reportUnknownLambdaType]
        new = rela.convert(attention, "rela-g")
        x = inputs(1, 3, D)
        new(x, x, x)
        assert calls == [1]
        handle.remove()
        new(x, x, x)
        assert calls == [1]


class TestHooks:
    """Hooks that users put on the attention go on to work, and their handles still remove them."""

    def run(self, module: nn.Module) -> None:
        x = inputs(1, 3, D).requires_grad_()
        module(x, x, value=x)[0].sum().backward()

    @pytest.mark.parametrize(
        ("register", "options"),
        [
            ("register_forward_hook", {}),
            ("register_forward_hook", {"with_kwargs": True}),
            ("register_forward_pre_hook", {}),
            ("register_forward_pre_hook", {"with_kwargs": True}),
            ("register_full_backward_hook", {}),
            ("register_full_backward_pre_hook", {}),
        ],
    )
    def test_called_and_removed(self, register: str, options: dict[str, Any]) -> None:
        old = nn.MultiheadAttention(D, H, batch_first=True, dtype=torch.float64)
        calls: list[int] = []
        handle = getattr(old, register)(lambda *args: calls.append(len(args)), **options)  # pyright: ignore[reportUnknownLambdaType]
        self.run(old)
        new = rela.convert(old, "rela-g")
        del old
        self.run(new)
        assert len(calls) == 2
        assert calls[0] == calls[1], "the hook must get as many arguments as before"
        handle.remove()
        self.run(new)
        assert len(calls) == 2

    def test_on_the_output_projection(self) -> None:
        old = nn.MultiheadAttention(D, H, batch_first=True, dtype=torch.float64)
        new = rela.convert(old, "rela-g")
        calls: list[int] = []
        new.out_proj.register_forward_hook(lambda *_: calls.append(1))  # pyright: ignore[reportAttributeAccessIssue, reportUnknownLambdaType]
        self.run(new)
        assert calls == [1]  # torch's module reads the weights and never calls it; adapters want to be called

    def test_changed_output_is_used(self) -> None:
        old = nn.MultiheadAttention(D, H, batch_first=True, dtype=torch.float64)
        old.register_forward_hook(lambda _, __, output: (output[0] * 0, output[1]))
        x = inputs(1, 3, D)
        assert rela.convert(old, "rela-g")(x, x, x)[0].eq(0).all()


class TestReport:
    def test_contents(self) -> None:
        reported: list[Conversion] = []
        rela.convert(transformer(), "rela-g", where={"decoder", "cross"}, report=reported.append)
        assert reported == [
            Conversion(f"decoder.layers.{i}.{name}", kind, "softmax", "rela-g", 2 * D)  # pyright: ignore[reportArgumentType]
            for i in range(2)
            for name, kind in (("self_attn", "decoder"), ("multihead_attn", "cross"))
        ]
        assert str(reported[0]) == "decoder.layers.0.self_attn (decoder): softmax -> rela-g, +32 parameters"

    @pytest.mark.parametrize(
        ("attention", "new"), [("rela-i", D), ("rela-g", 2 * D), ("entmax", H), ("softmax", 0), ("relu", 0)]
    )
    def test_new_parameters(self, attention: str, new: int) -> None:
        reported: list[Conversion] = []
        rela.convert(nn.MultiheadAttention(D, H), attention, report=reported.append)
        assert [(c.name, c.kind, c.new_parameters) for c in reported] == [("", None, new)]
        assert "the module itself" in str(reported[0])


def test_converted_model_learns() -> None:
    model = rela.convert(transformer(), "rela-g")
    src, tgt = inputs(3, 7, D), inputs(3, 5, D, seed=1)
    model(src, tgt).square().sum().backward()
    without = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.isfinite().all()]
    assert without == []
