"""rela.convert: which attentions it finds, what it keeps, and that nothing computes softmax behind its back."""

import copy
import functools
import itertools
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.attention.module_helpers import (
    ALL_PRESETS,
    LEARNED_THRESHOLD,
    as_float_mask,
    causal,
    inputs,
    padding,
    randomise,
)
from torch import Tensor, nn
from torch.nn.utils import prune

import rela
from rela.attention import Conversion

D, H = 16, 4
LENGTHS = (7, 4, 1)
PADDING = padding(*LENGTHS)
# torch warns that nested tensors are a prototype, and about layers that cannot use them.
ignore_nested_warnings = pytest.mark.filterwarnings("ignore:.*nested.*:UserWarning")


def encoder_layer(num_heads: int = H, **options: Any) -> nn.TransformerEncoderLayer:
    settings: dict[str, Any] = {"batch_first": True, "dropout": 0.0, "dtype": torch.float64} | options
    layer = nn.TransformerEncoderLayer(D, num_heads, 24, **settings)
    randomise(layer)
    return layer


def encoder(num_layers: int = 2, nested: bool = True, **options: Any) -> nn.TransformerEncoder:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = nn.TransformerEncoder(encoder_layer(**options), num_layers, enable_nested_tensor=nested)
    randomise(model)
    return model


def transformer(**options: Any) -> nn.Transformer:
    settings: dict[str, Any] = {"batch_first": True, "dropout": 0.0, "dtype": torch.float64} | options
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = nn.Transformer(D, H, 2, 2, 24, **settings)
    randomise(model)
    return model


def attentions(module: nn.Module) -> dict[str, str]:
    """What each attention of a model is, by name."""
    found: dict[str, str] = {}
    for name, child in module.named_modules(remove_duplicate=False):
        if isinstance(child, rela.MultiheadAttention):
            found[name] = child.attention.name
        elif isinstance(child, nn.MultiheadAttention):
            found[name] = "torch"
    return found


def in_all_modes(model: nn.Module, run: Callable[[], Tensor]) -> dict[str, Tensor]:
    """The output in training and in every kind of evaluation that may take another path."""
    results = {"train": run_in(model.train(), run)}
    results["eval"] = run_in(model.eval(), run)
    with torch.no_grad():
        results["eval, no_grad"] = run()
    with torch.inference_mode():
        results["eval, inference_mode"] = run().clone()
    frozen = [p for p in model.parameters() if p.requires_grad]
    for parameter in frozen:
        parameter.requires_grad_(False)
    results["eval, frozen"] = run()
    for parameter in frozen:
        parameter.requires_grad_(True)
    return results


def run_in(_: nn.Module, run: Callable[[], Tensor]) -> Tensor:
    return run().detach()


def assert_all_equal(results: dict[str, Tensor]) -> Tensor:
    for name, result in results.items():
        assert not result.isnan().any(), name
        torch.testing.assert_close(
            result, results["train"], rtol=1e-9, atol=1e-9, msg=lambda text, name=name: f"{name}: {text}"
        )
    return results["train"]


MASKS: dict[str, dict[str, Any]] = {
    "none": {},
    "padding": {"src_key_padding_mask": PADDING},
    "float padding": {"src_key_padding_mask": as_float_mask(PADDING)},
    "causal": {"mask": causal(7), "is_causal": True},
    "float causal": {"mask": as_float_mask(causal(7)), "is_causal": True},
    "causal, to be detected": {"mask": as_float_mask(causal(7))},
    "causal and padding": {"mask": causal(7), "is_causal": True, "src_key_padding_mask": PADDING},
}


class TestTheFusedPath:
    """In eval mode torch's encoder computes softmax without calling the attention module."""

    @pytest.mark.parametrize("attention", ALL_PRESETS)
    @pytest.mark.parametrize("masks", MASKS)
    def test_encoder_same_in_eval_and_train(self, attention: str, masks: str) -> None:
        model = encoder()
        x = inputs(3, 7, D)
        softmax = model.train()(x, **MASKS[masks]).detach()
        rela.convert(model, attention)
        for module in model.modules():
            if isinstance(module, rela.MultiheadAttention):
                randomise_own(module)
        output = assert_all_equal(in_all_modes(model, lambda: model(x, **MASKS[masks])))
        if attention == "softmax":
            torch.testing.assert_close(output, softmax, rtol=1e-9, atol=1e-9)
        elif attention != "topk":  # which keeps all keys of so short a sentence
            assert (output - softmax)[~PADDING].abs().max() > 1e-3

    @pytest.mark.parametrize(
        ("norm_first", "bias", "batch_first", "heads", "nested", "activation"),
        [
            *itertools.product((False, True), (False, True), (False, True), (4,), (False, True), ("relu",)),
            (False, True, True, 1, True, "gelu"),
            (True, True, True, 1, True, "gelu"),
            (False, True, True, 2, True, "gelu"),
        ],
    )
    def test_encoder_options(
        self, norm_first: bool, bias: bool, batch_first: bool, heads: int, nested: bool, activation: str
    ) -> None:
        model = encoder(
            nested=nested,
            norm_first=norm_first,
            bias=bias,
            batch_first=batch_first,
            num_heads=heads,
            activation=activation,
        )
        x = inputs(3, 7, D) if batch_first else inputs(7, 3, D)
        softmax = model.train()(x, src_key_padding_mask=PADDING).detach()
        rela.convert(model, "rela-g")
        output = assert_all_equal(in_all_modes(model, lambda: model(x, src_key_padding_mask=PADDING)))
        valid = ~PADDING if batch_first else ~PADDING.T
        assert (output - softmax)[valid].abs().max() > 1e-3

    @pytest.mark.parametrize("norm_first", [False, True])
    @pytest.mark.parametrize("heads", [1, 2, 4])
    def test_layer_same_in_eval_and_train(self, heads: int, norm_first: bool) -> None:
        layer = encoder_layer(heads, norm_first=norm_first)
        x = inputs(3, 7, D)
        softmax = layer.train()(x, src_key_padding_mask=PADDING).detach()
        rela.convert(layer, "rela-g")
        output = assert_all_equal(in_all_modes(layer, lambda: layer(x, src_key_padding_mask=PADDING)))
        assert (output - softmax)[~PADDING].abs().max() > 1e-3

    def test_odd_head_count(self) -> None:
        layer = nn.TransformerEncoderLayer(15, 3, 20, dropout=0.0, batch_first=True, dtype=torch.float64)
        with pytest.warns(UserWarning, match="num_heads is odd"):
            model = nn.TransformerEncoder(layer, 2)
        rela.convert(model, "rela-g")
        x = inputs(3, 7, 15)
        assert_all_equal(in_all_modes(model, lambda: model(x, src_key_padding_mask=PADDING)))

    def test_converted_in_eval_mode(self) -> None:
        model = encoder().eval()
        x = inputs(3, 7, D)
        with torch.no_grad():
            rela.convert(model, "rela-g")
            in_eval = model(x, src_key_padding_mask=PADDING)
        torch.testing.assert_close(model.train()(x, src_key_padding_mask=PADDING), in_eval)

    def test_whole_transformer(self) -> None:
        model = transformer()
        src, tgt = inputs(3, 7, D), inputs(3, 5, D, seed=1)
        masks = {
            "tgt_mask": causal(5),
            "tgt_is_causal": True,
            "src_key_padding_mask": PADDING,
            "memory_key_padding_mask": PADDING,
            "tgt_key_padding_mask": padding(5, 3, 2),
        }
        softmax = model.train()(src, tgt, **masks).detach()
        for attention in ("rela-g", "rela-i", "entmax15", "softmax"):
            rela.convert(model, attention)
            output = assert_all_equal(in_all_modes(model, lambda: model(src, tgt, **masks)))
            different = (output - softmax).abs().max() > 1e-3
            assert different == (attention != "softmax")

    def test_only_some_layers(self) -> None:
        model = encoder(3)
        x = inputs(3, 7, D)
        rela.convert(model, "rela-g", where=lambda name, _: name == "layers.1.self_attn")
        assert attentions(model) == {
            "layers.0.self_attn": "torch",
            "layers.1.self_attn": "rela-g",
            "layers.2.self_attn": "torch",
        }
        assert_all_equal(in_all_modes(model, lambda: model(x, src_key_padding_mask=PADDING)))

    @ignore_nested_warnings
    def test_layers_converted_behind_the_encoders_back(self) -> None:
        # The encoder still makes nested tensors in eval: padding comes back as zeros, as in torch, the rest is equal.
        model = encoder()
        x = inputs(3, 7, D)
        rela.convert(model.layers, "rela-g")
        expected = model.train()(x, src_key_padding_mask=PADDING).detach()
        with torch.no_grad():
            got = model.eval()(x, src_key_padding_mask=PADDING)
        torch.testing.assert_close(got[~PADDING], expected[~PADDING])

    def test_encoder_made_from_a_converted_layer(self) -> None:
        layer = rela.convert(encoder_layer(), "rela-g")
        with pytest.warns(UserWarning, match="use_nested_tensor is False"):
            model = nn.TransformerEncoder(layer, 2)  # pyright: ignore[reportArgumentType]
        x = inputs(3, 7, D)
        assert_all_equal(in_all_modes(model, lambda: model(x, src_key_padding_mask=PADDING)))

    def test_encoder_layer_with_our_module_put_in_by_hand(self) -> None:
        layer = encoder_layer()
        layer.self_attn = _sized("rela-g")  # pyright: ignore[reportAttributeAccessIssue]
        x = inputs(3, 7, D)
        assert_all_equal(in_all_modes(layer, lambda: layer(x, src_key_padding_mask=PADDING)))

    def test_every_call_reaches_the_module(self) -> None:
        model = rela.convert(encoder(), "rela-g").eval()
        calls: list[str] = []
        for name, module in model.named_modules():
            if isinstance(module, rela.MultiheadAttention):
                module.register_observer(lambda *_, name=name: calls.append(name))  # pyright: ignore[reportUnknownLambdaType]
        with torch.no_grad():
            model(inputs(3, 7, D), src_key_padding_mask=PADDING)
        assert calls == ["layers.0.self_attn", "layers.1.self_attn"]

    def test_a_copy_and_a_pickle_stay_converted(self) -> None:
        model = rela.convert(encoder(), "rela-g")
        x = inputs(3, 7, D)
        expected = model.train()(x, src_key_padding_mask=PADDING).detach()
        twin = copy.deepcopy(model).eval()
        with torch.no_grad():
            torch.testing.assert_close(twin(x, src_key_padding_mask=PADDING), expected)


def _sized(attention: str) -> rela.MultiheadAttention:
    return rela.MultiheadAttention(D, H, batch_first=True, dtype=torch.float64, attention=attention)


def randomise_own(module: rela.MultiheadAttention) -> None:
    """Also thresholds, alphas and gates away from where they start."""
    with torch.no_grad():
        for parameter in module.own_parameters().values():
            parameter.add_(inputs(*parameter.shape, seed=5) * 0.2)


@ignore_nested_warnings
class TestNestedInput:
    @staticmethod
    def rows() -> list[Tensor]:
        return [inputs(length, D, seed=length) for length in LENGTHS]

    @pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
    @pytest.mark.parametrize("attention", ALL_PRESETS)
    def test_module(self, attention: str, layout: torch.layout) -> None:
        module = _sized(attention)
        x = torch.nested.nested_tensor(self.rows(), layout=layout)
        output, weights = module(x, x, x, need_weights=False)
        assert weights is None
        assert output.is_nested
        assert output.layout == layout
        for row, got in zip(self.rows(), output.unbind(), strict=True):
            torch.testing.assert_close(got, module(row, row, row)[0])

    @pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
    def test_module_cross(self, layout: torch.layout) -> None:
        module = _sized("rela-g")
        memory = [inputs(length, D, seed=9) for length in (2, 5, 3)]
        x = torch.nested.nested_tensor(self.rows(), layout=layout)
        m = torch.nested.nested_tensor(memory, layout=layout)
        output, _ = module(x, m, m, need_weights=False)
        for query, key, got in zip(self.rows(), memory, output.unbind(), strict=True):
            torch.testing.assert_close(got, module(query, key, key)[0])

    @pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
    def test_module_cross_bottom_right(self, layout: torch.layout) -> None:
        """The corner is another one in every row."""
        module = _sized("rela-g")
        memory = [inputs(length, D, seed=9) for length in (9, 3, 6)]
        x = torch.nested.nested_tensor(self.rows(), layout=layout)
        m = torch.nested.nested_tensor(memory, layout=layout)
        output, _ = module(x, m, m, need_weights=False, is_causal="bottom-right")
        for query, key, got in zip(self.rows(), memory, output.unbind(), strict=True):
            torch.testing.assert_close(got, module(query, key, key, is_causal="bottom-right")[0])

    @pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
    def test_rows_of_nothing(self, layout: torch.layout) -> None:
        module = _sized("rela-g")
        x = torch.nested.nested_tensor([inputs(0, D), inputs(0, D)], layout=layout)
        output, _ = module(x, x, x, need_weights=False)
        assert [tuple(row.shape) for row in output.unbind()] == [(0, D), (0, D)]

    @pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
    def test_module_causal_and_gradients(self, layout: torch.layout) -> None:
        module = _sized("rela-g")
        rows = [row.requires_grad_() for row in self.rows()]
        x = torch.nested.as_nested_tensor(rows, layout=layout)
        output, _ = module(x, x, x, need_weights=False, is_causal=True)
        got = torch.autograd.grad(sum(o.square().sum() for o in output.unbind()), rows)  # pyright: ignore[reportArgumentType, reportCallIssue]
        outputs = [module(row, row, row, is_causal=True)[0] for row in rows]
        expected = torch.autograd.grad(sum(o.square().sum() for o in outputs), rows)  # pyright: ignore[reportArgumentType, reportCallIssue]
        for a, b in zip(got, expected, strict=True):
            torch.testing.assert_close(a, b)

    @pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
    @pytest.mark.parametrize("norm_first", [False, True])
    @pytest.mark.parametrize("heads", [4, 1])
    def test_encoder_layer(self, layout: torch.layout, norm_first: bool, heads: int) -> None:
        layer = rela.convert(encoder_layer(heads, norm_first=norm_first), "rela-g").eval()
        x = torch.nested.nested_tensor(self.rows(), layout=layout)
        with torch.no_grad():
            output = layer(x)
        layer.train()
        for row, got in zip(self.rows(), output.unbind(), strict=True):
            torch.testing.assert_close(got, layer(row))

    @pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
    def test_encoder_layers_in_a_row(self, layout: torch.layout) -> None:
        layers = rela.convert(nn.Sequential(encoder_layer(), encoder_layer()), "rela-g").eval()
        x = torch.nested.nested_tensor(self.rows(), layout=layout)
        with torch.no_grad():
            output = layers(x)
        for row, got in zip(self.rows(), output.unbind(), strict=True):
            torch.testing.assert_close(got, layers.train()(row))

    def test_refusals(self) -> None:
        module = _sized("rela-g")
        x = torch.nested.nested_tensor(self.rows(), layout=torch.jagged)
        with pytest.raises(ValueError, match=r"nested.*expected.*need_weights=False"):
            module(x, x, x)
        with pytest.raises(ValueError, match=r"nested.*expected.*key_padding_mask"):
            module(x, x, x, key_padding_mask=PADDING, need_weights=False)
        with pytest.raises(ValueError, match=r"nested.*expected.*all nested"):
            module(x, inputs(3, 7, D), inputs(3, 7, D), need_weights=False)
        fewer = torch.nested.nested_tensor([row[:1] for row in self.rows()], layout=torch.jagged)
        with pytest.raises(ValueError, match=r"nested.*as many values as keys.*\[1, 1, 1\] and \[7, 4, 1\]"):
            module(x, x, fewer, need_weights=False)
        other = rela.MultiheadAttention(D, H, dtype=torch.float64)
        with pytest.raises(ValueError, match=r"nested.*expected batch_first=True"):
            other(x, x, x, need_weights=False)


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
        attention = _sized("rela-i")
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
