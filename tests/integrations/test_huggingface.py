"""ReLA inside models of transformers: the same weights, another attention, and it stays when they are saved."""

import copy
import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

pytest.importorskip("transformers")

import transformers
from safetensors.torch import load_file, save_file
from tests.integrations.huggingface_models import MODELS, PAD, VOCABULARY, build, texts
from transformers import AttentionInterface, AttentionMaskInterface, AutoModel, PreTrainedModel
from transformers.masking_utils import eager_mask

import rela
from rela.attention.conversion import Conversion
from rela.attention.naive import naive_attention, naive_norm
from rela.attention.spec import KINDS, PRESETS, resolve
from rela.integrations import huggingface
from rela.integrations.huggingface.heads import ConvertedHeads, forward_function
from rela.integrations.huggingface.modules import attentions_of

SEQ2SEQ = ("marian", "bart", "mbart", "m2m100", "t5")
DECODERS = ("llama", "gpt2")


pytestmark = pytest.mark.usefixtures("quiet_transformers")


def converted(name: str, attention: str = "rela-g", where: Any = KINDS) -> PreTrainedModel:
    """A model whose new parameters are not at their start, so that it matters whether they are there."""
    model = huggingface.convert(build(name), attention, where)
    torch.manual_seed(3)
    with torch.no_grad():
        for module in heads_of(model):
            for parameter in module.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.3)
    return model


def heads_of(model: nn.Module) -> list[ConvertedHeads]:
    return [module for module in model.modules() if isinstance(module, ConvertedHeads)]


def logits(model: PreTrainedModel, **arguments: Any) -> Tensor:
    with torch.no_grad():
        return model(**arguments).logits


def loaded_with_report(like: PreTrainedModel, folder: Path, **arguments: Any) -> tuple[PreTrainedModel, dict[str, Any]]:
    kind: Any = type(like)
    return kind.from_pretrained(folder, output_loading_info=True, **arguments)


def _one_cross(name: str, module: nn.Module) -> bool:
    return "layers.1" in name and "encoder_attn" in name


def _nowhere(name: str, module: nn.Module) -> bool:
    return False


class TestConvert:
    @pytest.mark.parametrize("name", MODELS)
    def test_all_attentions_of_each_kind(self, name: str) -> None:
        found: list[Conversion] = []
        model = huggingface.convert(build(name), "rela-g", report=found.append)
        kinds = [conversion.kind for conversion in found]
        expected = ["encoder", "encoder", *(["decoder", "cross"] * 2)] if name in SEQ2SEQ else ["decoder", "decoder"]
        assert kinds == expected
        assert len(heads_of(model)) == len(expected)
        assert all(conversion.new_parameters == 64 for conversion in found)  # a gain and a gate of 32

    @pytest.mark.parametrize("name", MODELS)
    @pytest.mark.parametrize("attention", ["rela-g", "sparsemax"])
    def test_weights_are_kept_and_outputs_change(self, name: str, attention: str) -> None:
        model = build(name)
        before = {key: parameter.clone() for key, parameter in model.named_parameters()}
        arguments = texts(model).arguments()
        softmax = logits(model, **arguments)
        huggingface.convert(model, attention)
        after = dict(model.named_parameters())
        assert all(torch.equal(after[key], value) for key, value in before.items())
        assert not torch.allclose(logits(model, **arguments), softmax, atol=1e-3)

    @pytest.mark.parametrize("name", MODELS)
    def test_softmax_by_us_is_the_models_own(self, name: str) -> None:
        """What attentions that stay softmax compute in a model of which others are converted."""
        AttentionInterface.register("softmax_of_ours", forward_function(resolve("softmax")))
        AttentionMaskInterface.register("softmax_of_ours", eager_mask)
        model = build(name)
        arguments = texts(model).arguments()
        expected = logits(model, **arguments)
        model.set_attn_implementation("softmax_of_ours")
        torch.testing.assert_close(logits(model, **arguments), expected)

    @pytest.mark.parametrize("name", MODELS)
    def test_softmax_everywhere_is_the_model_as_it_was(self, name: str) -> None:
        model = build(name)
        arguments = texts(model).arguments()
        expected, modules = logits(model, **arguments), str(model)
        config, implementation = model.config.to_dict(), model.config._attn_implementation  # pyright: ignore[reportPrivateUsage]
        found: list[Conversion] = []
        huggingface.convert(huggingface.convert(model, "rela-g"), "softmax", report=found.append)
        assert {(each.before, each.after, each.new_parameters) for each in found} == {("rela-g", "softmax", 0)}
        assert model.config.to_dict() == config
        assert model.config._attn_implementation == implementation  # pyright: ignore[reportPrivateUsage]
        assert str(model) == modules
        assert not any(vars(module)["_forward_pre_hooks"] for module in model.modules())
        assert torch.equal(logits(model, **arguments), expected)

    def test_the_config_has_what_is_there_once(self) -> None:
        model = build("marian")
        huggingface.convert(model, "sparsemax")
        for attention in ("rela-i", "rela-g", "rela-g"):
            huggingface.convert(model, attention, where={"encoder", "cross"})
        names = {entry["attention"]["map"]: entry["modules"] for entry in model.config.rela_attention}
        assert names["sparsemax"] == ["model.decoder.layers.0.self_attn", "model.decoder.layers.1.self_attn"]
        assert len(model.config.rela_attention) == 2
        assert len(names["relu"]) == 4

    def test_the_callers_config_stays_as_it_is(self, tmp_path: Path) -> None:
        plain = build("marian")
        shared = plain.config
        before = shared.to_dict()
        model = huggingface.convert(type(plain)(shared), "rela-g")
        assert shared.to_dict() == before
        decoder: Any = model.get_decoder()
        assert model.config is decoder.config is decoder.layers[0].self_attn.config  # still one
        plain.save_pretrained(tmp_path)
        arguments = texts(plain).arguments()
        again = type(plain).from_pretrained(tmp_path)
        assert torch.equal(logits(again, **arguments), logits(plain, **arguments))
        assert not heads_of(type(plain)(shared))

    def test_a_name_that_was_set_before_counts(self) -> None:
        model = build("marian")
        model.set_attn_implementation("entmax15")
        huggingface.convert(model, "rela-g", where="cross")
        assert [heads.attention.name for heads in heads_of(model)] == ["entmax15"] * 2 + ["entmax15", "rela-g"] * 2

    def test_an_adapter_around_the_projection(self) -> None:
        model = build("llama")
        arguments = texts(model).arguments()
        expected = logits(huggingface.convert(build("llama"), "relu-rmsnorm"), **arguments)
        for layer in model.model.layers:
            layer.self_attn.o_proj = _Adapter(layer.self_attn.o_proj)
        assert torch.equal(logits(huggingface.convert(model, "relu-rmsnorm"), **arguments), expected)

    def test_what_does_not_use_the_interface_stays_with_a_warning(self) -> None:
        config = transformers.LongT5Config(vocab_size=50, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4)
        model = transformers.LongT5ForConditionalGeneration(config)
        with pytest.warns(UserWarning, match=r"stay as they are, 2: encoder\.block\.0\..* \(LongT5LocalAttention"):
            huggingface.convert(model, "rela-g")
        assert len(heads_of(model)) == 4
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            huggingface.convert(transformers.LongT5ForConditionalGeneration(config), "rela-g", where="decoder")

    @pytest.mark.parametrize("name", MODELS)
    def test_one_attention_is_the_naive_one(self, name: str) -> None:
        """What an attention module gives, computed from its own projections by the naive formulas."""
        model = converted(name)
        place = next(iter(attentions_of(model)))
        seen: dict[str, Any] = {}

        def look(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
            seen.update(query=args[0], memory=args[1], mask=args[2], scale=kwargs["scale"], output=output[0])

        heads = place.module.rela
        assert isinstance(heads, ConvertedHeads)
        heads.register_forward_hook(look, with_kwargs=True)
        logits(model, **texts(model).arguments())
        query, (keys, values), mask = seen["query"], seen["memory"], seen["mask"]
        groups = query.shape[1] // keys.shape[1]
        mixed, _ = naive_attention(
            query,
            keys.repeat_interleave(groups, 1),
            values.repeat_interleave(groups, 1),
            resolve(heads.attention, scale=seen["scale"]),
            allowed=mask.all_allowed(query.shape[2], keys.shape[2], query.device),
            bias=mask.bias,
        )
        assert heads.norm is not None
        expected = naive_norm(mixed.transpose(1, 2).flatten(2), heads.attention, dict(heads.norm.named_parameters()))
        torch.testing.assert_close(seen["output"].double(), expected, atol=1e-5, rtol=1e-5)

    @pytest.mark.parametrize("where", ["cross", ("decoder", "cross"), {"encoder"}])
    def test_where(self, where: Any) -> None:
        model = huggingface.convert(build("marian"), "rela-g", where)
        wanted = {where} if isinstance(where, str) else set(where)
        for place in attentions_of(model):
            assert hasattr(place.module, "rela") == (place.kind in wanted)
        logits(model, **texts(model).arguments())

    def test_where_as_a_function(self, tmp_path: Path) -> None:
        model = converted("marian", where=_one_cross)
        assert len(heads_of(model)) == 1
        arguments = texts(model).arguments()
        model.save_pretrained(tmp_path)
        again = type(model).from_pretrained(tmp_path)
        assert len(heads_of(again)) == 1
        assert torch.equal(logits(again, **arguments), logits(model, **arguments))
        assert len(heads_of(AutoModel.from_pretrained(tmp_path))) == 1  # without the head, and its prefix

    def test_twice(self) -> None:
        """The later conversion counts; other kinds keep the earlier one."""
        model = huggingface.convert(huggingface.convert(build("marian"), "rela-g"), "sparsemax", where="encoder")
        names = {place.kind: cast("ConvertedHeads", place.module.rela).attention.name for place in attentions_of(model)}
        assert names == {"encoder": "sparsemax", "decoder": "rela-g", "cross": "rela-g"}

    def test_a_frozen_model_can_still_learn_what_is_new(self) -> None:
        model = huggingface.convert(build("marian").requires_grad_(False), "rela-g")
        assert {name.split(".")[-3] for name, p in model.named_parameters() if p.requires_grad} == {"rela"}

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"where": "everywhere"}, "where: expected kinds out of encoder, decoder, cross"),
            ({"where": _nowhere}, "which chooses none"),
            ({"attention": "rela-h"}, "did you mean"),
            ({"where": []}, "expected kinds out of"),
        ],
    )
    def test_wrong_use(self, arguments: dict[str, Any], message: str) -> None:
        model = build("gpt2")
        with pytest.raises(ValueError, match=message):
            huggingface.convert(model, **arguments)
        assert not heads_of(model)

    @pytest.mark.parametrize("where", [None, 5, [1, "cross"]])
    def test_where_of_another_type(self, where: Any) -> None:
        with pytest.raises(TypeError, match="where: expected kinds out of encoder, decoder, cross, or a function"):
            huggingface.convert(build("gpt2"), where=where)

    def test_no_model_of_transformers(self) -> None:
        wrapped = nn.ModuleDict({"base_model": build("gpt2")})
        for model, remedy in (
            (nn.Linear(2, 2), "use rela.convert"),
            ("folder", "got str; load one first"),
            (wrapped, "convert the base model first"),
        ):
            with pytest.raises(TypeError, match=remedy):
                huggingface.convert(cast("Any", model))

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("Bert", r"whose projection of the output is not found.* Tested: Marian"),
            ("Falcon", r"an attention in FalconForCausalLM that attn_implementation does not choose"),
            ("Gemma2", r"Gemma2Attention inside, which has a soft cap on scores"),
            ("GptOss", r"GptOssAttention inside, which has sinks"),
        ],
    )
    def test_models_that_cannot_be_converted_stay_as_they_are(self, name: str, message: str) -> None:
        sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 48}
        config = getattr(transformers, f"{name}Config")(vocab_size=50, pad_token_id=0, num_local_experts=2, **sizes)
        model = getattr(transformers, f"{name}{'ForMaskedLM' if name == 'Bert' else 'ForCausalLM'}")(config)
        before = config.to_dict(), config._attn_implementation
        with pytest.raises(ValueError, match=message):
            huggingface.convert(model)
        assert not heads_of(model)
        assert (model.config.to_dict(), model.config._attn_implementation) == before

    def test_a_form_that_is_not_known_among_others(self) -> None:
        model = build("llama")
        model.model.layers[1].self_attn.o_proj = nn.Identity()
        with pytest.raises(ValueError, match=r"1: model\.layers\.1\.self_attn \(LlamaAttention, whose projection"):
            huggingface.convert(model)
        assert not heads_of(model)

    def test_a_config_that_asks_for_weights_could_not_be_saved(self) -> None:
        model = build("marian")
        model.set_attn_implementation("eager")
        model.config.output_attentions = True
        with pytest.raises(ValueError, match=r"set model\.config\.output_attentions = False"):
            huggingface.convert(model)


class TestByName:
    @pytest.mark.parametrize("name", MODELS)
    @pytest.mark.parametrize("implementation", ["sparsemax", "entmax15", "relu"])
    def test_without_parameters_of_its_own_a_name_is_enough(self, name: str, implementation: str) -> None:
        model = build(name)
        model.set_attn_implementation(implementation)
        arguments = texts(model).arguments()
        expected = logits(huggingface.convert(build(name), implementation), **arguments)
        torch.testing.assert_close(logits(model, **arguments), expected)

    def test_rela_itself_is_for_converted_models(self, tmp_path: Path) -> None:
        model = build("marian")
        with pytest.raises(ValueError, match=r"expected a model that rela converted for 'rela'.*convert\(model"):
            model.set_attn_implementation("rela")
        model.config._attn_implementation = "rela"  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(ValueError, match="of one that was not, which would compute softmax"):
            logits(model, **texts(model).arguments())

    def test_names_that_need_no_conversion(self) -> None:
        """As the documentation has them."""
        page = Path(__file__).parents[2].joinpath("docs", "huggingface.md").read_text(encoding="utf-8")
        sentence = next(line for line in page.splitlines() if line.startswith("Without any conversion"))
        alone, needy = sentence.partition("; ")[::2]
        for name, spec in PRESETS.items():
            if name == "softmax":
                continue
            model = build("gpt2")
            model.set_attn_implementation(name.replace("-", "_"))
            if f"`{name.replace('-', '_')}`" in alone:
                logits(model, **texts(model).arguments())
            else:
                assert f"`{name.replace('-', '_')}`" in needy, spec
                with pytest.raises(ValueError, match="expected the parameters that"):
                    logits(model, **texts(model).arguments())

    def test_with_parameters_it_is_refused(self) -> None:
        model = build("marian")
        model.set_attn_implementation("rela_g")
        with pytest.raises(ValueError, match=r'convert\(model, "rela-g"\)'):
            logits(model, **texts(model).arguments())

    def test_another_name_than_that_of_the_conversion_is_refused(self) -> None:
        model = converted("marian")
        model.set_attn_implementation("rela_g")
        logits(model, **texts(model).arguments())  # that is what it is
        model.set_attn_implementation("rela_i")
        with pytest.raises(ValueError, match="expected a model converted to rela-i"):
            logits(model, **texts(model).arguments())
        model.set_attn_implementation("eager")
        with pytest.raises(ValueError, match="would compute softmax"):
            logits(model, **texts(model).arguments())

    def test_names_keep_clear_of_those_that_transformers_treats_apart(self) -> None:
        assert {"rela", "rela_g", "rela_i", "sparsemax", "entmax15"} <= huggingface.NAMES
        assert not [name for name in huggingface.NAMES for part in ("flash", "sdpa", "flex", "/") if part in name]


class TestMasks:
    @pytest.mark.parametrize("name", MODELS)
    @pytest.mark.parametrize("attention", ["rela-g", "entmax15"])
    def test_the_future_changes_nothing(self, name: str, attention: str) -> None:
        model = converted(name, attention)
        given = texts(model, target=8)
        other = given.target.clone()
        other[:, 5:] = (other[:, 5:] + 1).clamp_max(VOCABULARY - 1)
        first = logits(model, **given.arguments())
        second = logits(model, **given._replace(target=other).arguments())
        assert torch.equal(first[:, :5], second[:, :5])
        assert not torch.equal(first[:, 5:], second[:, 5:])

    @pytest.mark.parametrize("name", SEQ2SEQ)
    @pytest.mark.parametrize("attention", ["rela-g", "entmax15"])
    def test_padding_of_the_source_changes_nothing(self, name: str, attention: str) -> None:
        model = converted(name, attention)
        given = texts(model, length=6)
        assert given.source is not None
        expected = logits(model, **given.arguments())
        padded = torch.cat([given.source, torch.full((2, 3), PAD)], 1)
        seen = torch.arange(9).expand(2, -1) < 6
        found = logits(model, **given._replace(source=padded).arguments(seen))
        torch.testing.assert_close(found, expected)
        junk = torch.where(seen, padded, padded + 7)
        torch.testing.assert_close(logits(model, **given._replace(source=junk).arguments(seen)), expected)

    @pytest.mark.parametrize("name", DECODERS)
    def test_padding_on_the_left_changes_nothing(self, name: str) -> None:
        model = converted(name)
        given = texts(model, target=6)
        places = torch.arange(6).expand(2, -1)
        expected = logits(model, **given.arguments(), position_ids=places)
        padded = torch.cat([torch.full((2, 3), PAD), given.target], 1)
        seen = torch.arange(9).expand(2, -1) >= 3
        shifted = torch.cat([torch.zeros(2, 3, dtype=torch.long), places], 1)
        found = logits(model, **given._replace(target=padded).arguments(seen), position_ids=shifted)
        torch.testing.assert_close(found[:, 3:], expected)
        assert found.isfinite().all()

    @pytest.mark.parametrize("name", MODELS)
    def test_boolean_masks_mean_the_same_as_float_ones(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

        def boolean(**arguments: Any) -> Tensor | None:
            arguments["allow_is_causal_skip"] = False
            return sdpa_mask(**arguments)

        model = converted(name)
        given = texts(model)
        seen = torch.ones(2, 7 if given.source is not None else 5, dtype=torch.bool)
        seen[0, -2:] = False
        expected = logits(model, **given.arguments(seen))
        monkeypatch.setitem(AttentionMaskInterface._global_mapping, "rela", boolean)  # pyright: ignore[reportPrivateUsage]
        torch.testing.assert_close(logits(model, **given.arguments(seen)), expected)


class TestOutputs:
    @pytest.mark.parametrize("name", MODELS)
    def test_weights_on_request(self, name: str) -> None:
        model = converted(name)
        arguments = texts(model).arguments()
        with torch.no_grad():
            plain = model(**arguments)
            shown = model(**arguments, output_attentions=True)
        torch.testing.assert_close(shown.logits, plain.logits)
        if name in SEQ2SEQ:
            assert plain.cross_attentions is None
            found, shape = shown.cross_attentions, (2, 4, 5, 7)
        else:
            assert plain.attentions is None
            found, shape = shown.attentions, (2, 4, 5, 5)
        assert [tuple(weights.shape) for weights in found] == [shape, shape]
        assert any((weights == 0).any() and (weights > 0).any() for weights in found)

    @pytest.mark.parametrize("name", MODELS)
    def test_generation_with_a_cache_equals_generation_without(self, name: str) -> None:
        model = converted(name)
        given = texts(model)
        ids = given.target if given.source is None else given.source
        options: dict[str, Any] = {"num_beams": 3, "max_new_tokens": 8, "min_new_tokens": 8, "do_sample": False}
        seen = torch.ones_like(ids)
        found = [model.generate(ids, attention_mask=seen, use_cache=cache, **options) for cache in (True, False)]  # pyright: ignore[reportCallIssue]
        assert torch.equal(*found)

    @pytest.mark.parametrize("name", MODELS)
    @pytest.mark.parametrize("attention", ["rela-g", "rela-i"])
    def test_gradients_reach_everything(self, name: str, attention: str) -> None:
        model = converted(name, attention).train()
        model(**texts(model).arguments()).logits.square().mean().backward()
        used = [p for heads in heads_of(model) for p in heads.parameters()]
        assert used
        assert all(p.grad is not None and p.grad.isfinite().all() and p.grad.any() for p in used)

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
    def test_half_precision(self, dtype: torch.dtype) -> None:
        model = converted("llama")
        arguments = texts(model).arguments()
        expected = logits(model, **arguments)
        half: Any = copy.deepcopy(model)
        found = logits(half.to(dtype), **arguments)
        assert found.dtype == dtype
        torch.testing.assert_close(found.float(), expected, atol=0.15, rtol=0.1)

    def test_what_it_cannot_do_is_refused(self) -> None:
        forward = AttentionInterface()["sparsemax"]
        heads = torch.randn(1, 2, 3, 4)
        for name in ("softcap", "s_aux", "sinks", "indices", "block_indices"):
            with pytest.raises(ValueError, match=name):
                forward(nn.Module(), heads, heads, heads, None, **{name: torch.ones(2)})


class TestSaved:
    @pytest.mark.parametrize("name", MODELS)
    @pytest.mark.parametrize("attention", ["rela-g", "rela-i", "sparsemax"])
    def test_comes_back(self, name: str, attention: str, tmp_path: Path) -> None:
        model = converted(name, attention)
        arguments = texts(model).arguments()
        model.save_pretrained(tmp_path)
        again, report = loaded_with_report(model, tmp_path)
        assert not any(report.values())
        assert torch.equal(logits(again, **arguments), logits(model, **arguments))
        again.save_pretrained(tmp_path / "again")  # and from there once more
        third = type(model).from_pretrained(tmp_path / "again")
        assert torch.equal(logits(third, **arguments), logits(model, **arguments))
        assert len(heads_of(AutoModel.from_pretrained(tmp_path))) == len(heads_of(model))

    def test_options_come_back(self, tmp_path: Path) -> None:
        spec = resolve("rela-g", threshold=0.5, learn_threshold=True, length_power=0.5)
        model = huggingface.convert(build("marian"), spec)
        arguments = texts(model).arguments()
        model.save_pretrained(tmp_path)
        again = type(model).from_pretrained(tmp_path)
        assert {heads.attention for heads in heads_of(again)} == {spec}
        assert torch.equal(logits(again, **arguments), logits(model, **arguments))

    @pytest.mark.parametrize("name", ["marian", "gpt2"])
    def test_where_rela_is_not_imported_loading_is_refused_by_what_to_do(self, name: str, tmp_path: Path) -> None:
        model = converted(name)
        model.save_pretrained(tmp_path)
        kind = type(model).__name__
        code = f"import transformers; transformers.{kind}.from_pretrained({str(tmp_path)!r})"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.returncode != 0
        assert 'attn_implementation="import rela.integrations.huggingface" is not supported' in done.stderr.replace(
            "`", ""
        )

    @pytest.mark.parametrize("implementation", ["eager", "sdpa"])
    def test_with_another_attention_loading_is_refused(self, implementation: str, tmp_path: Path) -> None:
        model = converted("marian")
        model.save_pretrained(tmp_path)
        with pytest.raises(ValueError, match="would compute softmax"):
            type(model).from_pretrained(tmp_path, attn_implementation=implementation)

    def test_a_new_model_by_the_same_config(self) -> None:
        model = converted("marian", "rela-i")
        torch.manual_seed(5)
        new = type(model)(copy.deepcopy(model.config))
        gains = torch.cat([heads.norm.weight for heads in heads_of(new) if heads.norm is not None])
        assert len(heads_of(new)) == 6
        assert 0.1 < gains.std() < 0.3  # ReLA-i's start, not ones: sqrt(3/32) / sqrt(3) = 0.18
        logits(new.eval(), **texts(new).arguments())

    def test_no_attention_asked_for_is_the_models_own(self, tmp_path: Path) -> None:
        model = converted("marian")
        arguments = texts(model).arguments()
        model.save_pretrained(tmp_path)
        again = type(model).from_pretrained(tmp_path, attn_implementation=None)
        assert torch.equal(logits(again, **arguments), logits(model, **arguments))

    def test_softmax_again_is_saved_as_it_was(self, tmp_path: Path) -> None:
        model = huggingface.convert(converted("marian"), "softmax")
        model.save_pretrained(tmp_path)
        entries = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
        assert not {"rela_attention", "attn_implementation"} & entries.keys()
        again = type(model).from_pretrained(tmp_path)
        assert again.config._attn_implementation == "sdpa"  # pyright: ignore[reportPrivateUsage]

    @pytest.mark.parametrize("name", SEQ2SEQ)
    @pytest.mark.parametrize("part", ["get_encoder", "get_decoder"])
    @pytest.mark.parametrize("attention", ["rela-g", "sparsemax"])
    def test_a_part_that_was_converted_alone(self, name: str, part: str, attention: str, tmp_path: Path) -> None:
        model = build(name)
        shared = model.config
        huggingface.convert(getattr(model, part)(), attention)
        arguments, count = texts(model).arguments(), len(heads_of(model))
        expected = logits(model, **arguments)
        model.save_pretrained(tmp_path)
        assert "rela_attention" not in shared.to_dict()
        again, report = loaded_with_report(model, tmp_path)
        assert not any(report.values())
        assert count == len(heads_of(again)) == (2 if part == "get_encoder" else 4)
        torch.testing.assert_close(logits(again, **arguments), expected)

    @pytest.mark.parametrize("alone", [False, True])
    def test_a_part_with_a_config_of_its_own(self, alone: bool, tmp_path: Path) -> None:
        sizes: Any = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 4}
        kind: Any = transformers.LlavaConfig
        config = kind(
            text_config=transformers.LlamaConfig(vocab_size=50, **sizes),
            vision_config=transformers.CLIPVisionConfig(image_size=16, patch_size=8, **sizes),
            image_token_id=49,
        )
        model = transformers.LlavaForConditionalGeneration(config).eval()
        huggingface.convert(model.model.language_model if alone else model, "rela-g", where="decoder")
        ids = texts(build("llama")).target
        expected = logits(model, input_ids=ids)
        model.save_pretrained(tmp_path)
        again, report = loaded_with_report(model, tmp_path)
        assert not any(report.values())
        assert len(heads_of(again)) == 1
        torch.testing.assert_close(logits(again, input_ids=ids), expected)

    def test_a_part_of_a_converted_model(self, tmp_path: Path) -> None:
        model = converted("t5")
        arguments = texts(model).arguments()
        expected = logits(model, **arguments)
        model.get_encoder().save_pretrained(tmp_path / "part")
        model.save_pretrained(tmp_path / "whole")
        part = type(model.get_encoder()).from_pretrained(tmp_path / "part")
        assert len(heads_of(part)) == 2
        whole = type(model).from_pretrained(tmp_path / "whole")
        assert torch.equal(logits(whole, **arguments), expected)
        encoder = transformers.T5EncoderModel.from_pretrained(tmp_path / "whole")
        with torch.no_grad():
            found, wanted = (
                one(input_ids=arguments["input_ids"]).last_hidden_state for one in (encoder, model.get_encoder())
            )
        assert torch.equal(found, wanted)

    def test_weights_that_are_lost_are_missed(self, tmp_path: Path) -> None:
        model = converted("marian")
        model.save_pretrained(tmp_path)
        weights = load_file(tmp_path / "model.safetensors")
        kept = {name: weight for name, weight in weights.items() if "decoder.layers.0.encoder_attn.rela" not in name}
        save_file(kept, tmp_path / "model.safetensors", {"format": "pt"})
        with pytest.raises(ValueError, match=r"got none for model\.decoder\.layers\.0\.encoder_attn\.rela\.norm"):
            type(model).from_pretrained(tmp_path)

    def test_weights_of_a_model_that_was_not_converted(self, tmp_path: Path) -> None:
        model = converted("marian", "rela-i")
        build("marian").save_pretrained(tmp_path)
        with pytest.raises(ValueError, match="load a model that was not converted and convert it"):
            type(model).from_pretrained(tmp_path, config=copy.deepcopy(model.config))

    def test_a_config_that_lost_the_conversion(self, tmp_path: Path) -> None:
        model = converted("marian")
        model.save_pretrained(tmp_path)
        file = tmp_path / "config.json"
        entries = json.loads(file.read_text(encoding="utf-8"))
        del entries["rela_attention"]
        file.write_text(json.dumps(entries), encoding="utf-8")
        with pytest.raises(ValueError, match="whose config has no rela_attention"):
            type(model).from_pretrained(tmp_path)
        del entries["attn_implementation"]
        file.write_text(json.dumps(entries), encoding="utf-8")
        with pytest.raises(ValueError, match=r"expected a config\.json that says what the model was converted to"):
            type(model).from_pretrained(tmp_path)

    @pytest.mark.parametrize(
        ("entries", "message"),
        [
            ([{"attention": {"map": "relu"}, "kinds": ["cross"]}], "expected an attention and the names"),
            ([{"attention": {"map": "relu"}, "modules": ["elsewhere"]}], "got elsewhere and others, none of which"),
        ],
    )
    def test_a_config_that_fits_nothing(self, entries: Any, message: str, tmp_path: Path) -> None:
        model = converted("marian", "relu")
        model.save_pretrained(tmp_path)
        file = tmp_path / "config.json"
        file.write_text(json.dumps(json.loads(file.read_text(encoding="utf-8")) | {"rela_attention": entries}))
        with pytest.raises(ValueError, match=message):
            type(model).from_pretrained(tmp_path)

    def test_copies(self) -> None:
        model = converted("marian")
        arguments = texts(model).arguments()
        assert torch.equal(logits(copy.deepcopy(model), **arguments), logits(model, **arguments))


def test_observers_and_penalty() -> None:
    """What the library knows to do with its own modules, it does with these."""
    model = converted("marian").train()
    penalty = rela.SparsityPenalty(model, target=0.9)
    model(**texts(model).arguments())
    penalty().backward()
    assert heads_of(model)[0].attention.name == "rela-g"
    queries = model.model.encoder.layers[0].self_attn.q_proj.weight
    assert queries.grad is not None
    assert queries.grad.any()


class _Adapter(nn.Module):
    """As those of low rank: around a projection, without a weight of its own."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.base_layer = inner

    def forward(self, hidden: Tensor) -> Tensor:
        return self.base_layer(hidden)
