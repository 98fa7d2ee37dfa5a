"""Converted models never compute softmax behind our back: torch's fused path, and nested tensors."""

import copy
import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.attention.conversion_helpers import (
    LENGTHS,
    PADDING,
    D,
    H,
    attentions,
    encoder,
    encoder_layer,
    ignore_nested_warnings,
    randomise_own,
    sized,
    transformer,
)
from tests.attention.module_helpers import (
    ALL_PRESETS,
    as_float_mask,
    causal,
    inputs,
    padding,
)
from torch import Tensor, nn

import rela


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
        layer.self_attn = sized("rela-g")  # pyright: ignore[reportAttributeAccessIssue]
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


@ignore_nested_warnings
class TestNestedInput:
    @staticmethod
    def rows() -> list[Tensor]:
        return [inputs(length, D, seed=length) for length in LENGTHS]

    @pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
    @pytest.mark.parametrize("attention", ALL_PRESETS)
    def test_module(self, attention: str, layout: torch.layout) -> None:
        module = sized(attention)
        x = torch.nested.nested_tensor(self.rows(), layout=layout)
        output, weights = module(x, x, x, need_weights=False)
        assert weights is None
        assert output.is_nested
        assert output.layout == layout
        for row, got in zip(self.rows(), output.unbind(), strict=True):
            torch.testing.assert_close(got, module(row, row, row)[0])

    @pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
    def test_module_cross(self, layout: torch.layout) -> None:
        module = sized("rela-g")
        memory = [inputs(length, D, seed=9) for length in (2, 5, 3)]
        x = torch.nested.nested_tensor(self.rows(), layout=layout)
        m = torch.nested.nested_tensor(memory, layout=layout)
        output, _ = module(x, m, m, need_weights=False)
        for query, key, got in zip(self.rows(), memory, output.unbind(), strict=True):
            torch.testing.assert_close(got, module(query, key, key)[0])

    @pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
    def test_module_cross_bottom_right(self, layout: torch.layout) -> None:
        """The corner is another one in every row."""
        module = sized("rela-g")
        memory = [inputs(length, D, seed=9) for length in (9, 3, 6)]
        x = torch.nested.nested_tensor(self.rows(), layout=layout)
        m = torch.nested.nested_tensor(memory, layout=layout)
        output, _ = module(x, m, m, need_weights=False, is_causal="bottom-right")
        for query, key, got in zip(self.rows(), memory, output.unbind(), strict=True):
            torch.testing.assert_close(got, module(query, key, key, is_causal="bottom-right")[0])

    @pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
    def test_rows_of_nothing(self, layout: torch.layout) -> None:
        module = sized("rela-g")
        x = torch.nested.nested_tensor([inputs(0, D), inputs(0, D)], layout=layout)
        output, _ = module(x, x, x, need_weights=False)
        assert [tuple(row.shape) for row in output.unbind()] == [(0, D), (0, D)]

    @pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
    def test_module_causal_and_gradients(self, layout: torch.layout) -> None:
        module = sized("rela-g")
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
        module = sized("rela-g")
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
