"""Converted models of transformers under our lens: weights, losses and words are those of the model itself."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tests.cli.helpers import rela as program
from tests.integrations.huggingface_models import build
from tests.model.folders import make_folder
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch import Tensor, nn
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    LongT5Config,
    LongT5ForConditionalGeneration,
    PreTrainedTokenizerFast,
)

import rela
from rela.attention.spec import KINDS, Kind
from rela.integrations import huggingface
from rela.integrations.huggingface.looking import SeenModel, adapt, found_spans
from rela.model.opening import describe_model

SEQ2SEQ = ("marian", "bart", "mbart", "m2m100", "t5")
SOURCES = ["ein Hund läuft.", "der Mann und der Hund", "Wasser"]
TARGETS = ["a dog runs, and then it does not run.", "the man and the dog", "water"]


pytestmark = pytest.mark.usefixtures("quiet_transformers")


def make_tokenizer(template: str = "$A </s>", *, byte_level: bool = False) -> Any:
    """Fifty pieces at most: bytes or letters, and a few merges."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    if byte_level:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # pyright: ignore[reportAttributeAccessIssue]
        tokenizer.decoder = decoders.ByteLevel()  # pyright: ignore[reportAttributeAccessIssue]
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()  # pyright: ignore[reportAttributeAccessIssue]
        tokenizer.decoder = decoders.Metaspace()  # pyright: ignore[reportAttributeAccessIssue]
    special = ["<pad>", "<s>", "</s>", "<unk>", "<de>"]
    trainer = trainers.BpeTrainer(vocab_size=50, special_tokens=special, show_progress=False)  # pyright: ignore[reportCallIssue]
    tokenizer.train_from_iterator([*SOURCES, *TARGETS], trainer)
    tokenizer.post_processor = processors.TemplateProcessing(  # pyright: ignore[reportAttributeAccessIssue]
        single=template, special_tokens=[(name, number) for number, name in enumerate(special)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        extra_special_tokens=["<de>"],
    )


def make_model(name: str, attention: str = "rela-g", where: Any = KINDS) -> Any:
    model: Any = huggingface.convert(build(name), attention, where)
    torch.manual_seed(3)
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if ".rela." in key:
                parameter.add_(torch.randn_like(parameter) * 0.3)
    return model


class Theirs(NamedTuple):
    """One pair, as transformers has it."""

    weights: dict[Kind, Tensor]
    losses: Tensor


def theirs(model: Any, tokenizer: Any, source: str, target: str) -> Theirs:
    batch = tokenizer(source, text_target=target, return_tensors="pt")
    with torch.no_grad():
        found = model(**batch, output_attentions=True)
    weights: dict[Kind, Tensor] = {
        "encoder": torch.stack(found.encoder_attentions, 1)[0],
        "decoder": torch.stack(found.decoder_attentions, 1)[0],
        "cross": torch.stack(found.cross_attentions, 1)[0],
    }
    return Theirs(weights, F.cross_entropy(found.logits[0], batch["labels"][0], reduction="none"))


@pytest.mark.parametrize("template", ["$A </s>", "<s> $A </s>", "<de> $A </s>"])
@pytest.mark.parametrize("name", SEQ2SEQ)
def test_weights_and_losses_are_those_of_the_model(name: str, template: str):
    model, tokenizer = make_model(name), make_tokenizer(template)
    found = rela.inspect((model, tokenizer), SOURCES, TARGETS)  # one batch: the shorter ones are padded
    for source, target, inspection in zip(SOURCES, TARGETS, found, strict=True):
        expected = theirs(model, tokenizer, source, target)
        for kind in KINDS:
            np.testing.assert_allclose(inspection[kind], expected.weights[kind].numpy(), rtol=1e-4, atol=1e-4)
            assert inspection[kind].shape[2:] == (len(inspection.queries[kind]), len(inspection.keys[kind]))
        np.testing.assert_allclose(inspection.loss, expected.losses.numpy(), atol=1e-4)
        assert inspection.target_words == target.replace(",", " ,").replace(".", " .").split()


@pytest.mark.parametrize("byte_level", [False, True])
def test_pieces_and_words(byte_level: bool):
    found = rela.inspect((make_model("marian"), make_tokenizer(byte_level=byte_level)), SOURCES[0], TARGETS[0])
    letters = SOURCES[0].replace("ä", "\ufffd\ufffd" if byte_level else "ä")  # half a letter cannot be shown
    assert "".join(found.keys["encoder"][:-1]) == letters
    assert found.queries["decoder"][0] == "⟨s⟩"
    assert found.keys["cross"][-1] == "⟨/s⟩"
    for word, pieces in zip(found.source_words, found.source_word_pieces, strict=True):
        assert "".join(found.keys["encoder"][piece] for piece in pieces).strip() == word.replace(
            "ä", "\ufffd\ufffd" if byte_level else "ä"
        )
    assert found.words("cross").weights.shape[2:] == (len(found.target_words), len(found.source_words))


@pytest.mark.parametrize("name", SEQ2SEQ)
def test_attentions_that_were_not_converted_are_softmax(name: str):
    model, tokenizer = make_model(name, where={"cross"}), make_tokenizer()
    before = theirs(model, tokenizer, SOURCES[0], TARGETS[0])
    found = rela.inspect((model, tokenizer), SOURCES[0], TARGETS[0])
    np.testing.assert_allclose(found["encoder"].sum(-1), 1, atol=1e-5)
    np.testing.assert_allclose(found.loss, before.losses.numpy(), atol=1e-4)
    assert (found["cross"] == 0).any()
    after = theirs(model, tokenizer, SOURCES[0], TARGETS[0])
    torch.testing.assert_close(after.losses, before.losses)


@pytest.mark.parametrize("name", SEQ2SEQ)
def test_a_model_that_was_not_converted_is_softmax(name: str):
    model, tokenizer = build(name), make_tokenizer()
    found = rela.inspect((model, tokenizer), SOURCES[0], TARGETS[0])
    model.set_attn_implementation("eager")
    expected = theirs(model, tokenizer, SOURCES[0], TARGETS[0])
    for kind in KINDS:
        np.testing.assert_allclose(found[kind], expected.weights[kind].numpy(), atol=1e-5)
    np.testing.assert_allclose(found.loss, expected.losses.numpy(), atol=1e-4)


@pytest.mark.parametrize("where", [set[str](), {"cross"}])
def test_afterwards_the_model_is_as_it_was(where: set[str]):
    model = make_model("marian", where=where) if where else build("marian")
    model.train()
    model.model.encoder.eval()
    before = describe(model)
    rela.inspect((model, make_tokenizer()), SOURCES, TARGETS, ablate=[("cross", 1, 2), ("encoder", 0, 0)])
    assert describe(model) == before
    handle = model.model.encoder.register_forward_hook(_broken)
    with pytest.raises(ZeroDivisionError):
        rela.inspect((model, make_tokenizer()), SOURCES, TARGETS)
    handle.remove()
    assert describe(model) == before


def describe(model: Any) -> Any:
    hooks = [(len(module._forward_pre_hooks), len(module._forward_hooks)) for module in model.modules()]
    modes = [module.training for module in model.modules()]
    return str(model), hooks, modes, model.config.to_dict(), model.config._attn_implementation


@pytest.mark.parametrize("name", SEQ2SEQ)
def test_silencing_a_head_is_cutting_its_slice_before_the_norm(name: str):
    model, tokenizer = make_model(name), make_tokenizer()
    found = rela.inspect((model, tokenizer), SOURCES[0], TARGETS[0], ablate=[("cross", 1, 2), ("encoder", 0, 0)])
    assert all(np.abs(ablation.change).max() > 1e-4 for ablation in found.ablation)
    adapted, _ = adapt(model, tokenizer)
    heads = adapted.attentions()["cross"][1]
    assert heads.norm is not None

    def cut(_: Any, arguments: Any) -> Any:
        hidden = arguments[0].clone()
        hidden[..., 2 * 8 : 3 * 8] = 0
        return (hidden, *arguments[1:])

    handle = heads.norm.register_forward_pre_hook(cut)
    expected = theirs(model, tokenizer, SOURCES[0], TARGETS[0]).losses.numpy() - found.loss
    handle.remove()
    np.testing.assert_allclose(found.ablation[0].change, expected, atol=1e-4)


def test_our_own_model_in_transformers_is_seen_as_it_is(tmp_path: Path):
    folder = make_folder(tmp_path / "model")
    pair: Any = (AutoModelForSeq2SeqLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder))
    expected, found = (rela.inspect(model, "a dog", "ein Hund") for model in (folder, pair))
    for kind in KINDS:
        np.testing.assert_array_equal(found[kind], expected[kind])


class TestFolders:
    @pytest.fixture(scope="class")
    @classmethod
    def folder(cls, tmp_path_factory: pytest.TempPathFactory) -> Path:
        folder = tmp_path_factory.mktemp("saved")
        model = make_model("marian")
        model.config.source_language, model.config.target_language = "de", "en"
        model.save_pretrained(folder / "marian")
        make_tokenizer().save_pretrained(folder / "marian")
        (folder / "source.txt").write_text("\n".join(SOURCES * 4) + "\n", encoding="utf-8")
        (folder / "target.txt").write_text("\n".join(TARGETS * 4) + "\n", encoding="utf-8")
        return folder

    def test_inspect_by_path(self, folder: Path):
        found = rela.inspect(folder / "marian", SOURCES[0], TARGETS[0])
        expected = rela.inspect((make_model("marian"), make_tokenizer()), SOURCES[0], TARGETS[0])
        np.testing.assert_array_equal(found["cross"], expected["cross"])

    def test_the_microscope(self, folder: Path, tmp_path: Path):
        texts = ["--src", str(folder / "source.txt"), "--tgt", str(folder / "target.txt")]
        done = program("analyze", str(folder / "marian"), *texts, "--ablate", "3", "--out", str(tmp_path / "out"))
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "out" / "report.html").is_file()
        assert "rela-g: 12 pairs" in done.stdout

    def test_links(self, folder: Path):
        texts = ["--src", str(folder / "source.txt"), "--tgt", str(folder / "target.txt")]
        done = program("align", str(folder / "marian"), *texts)
        assert done.returncode == 0, done.stderr
        assert len(done.stdout.splitlines()) == 12

    def test_a_text_longer_than_the_models_positions(self, folder: Path, tmp_path: Path):
        for side in ("source", "target"):
            lines = (folder / f"{side}.txt").read_text(encoding="utf-8").splitlines()
            lines[1] = "Wasser " * 40
            (tmp_path / f"{side}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        texts = ["--src", str(tmp_path / "source.txt"), "--tgt", str(tmp_path / "target.txt")]
        done = program("align", str(folder / "marian"), *texts)
        assert done.returncode == 0, done.stderr
        assert len(done.stdout.splitlines()) == 12
        assert (
            "with more than 63 pieces, the words behind them have no links: 1 (line 2); the model has no" in done.stderr
        )
        done = program("analyze", str(folder / "marian"), *texts, "--out", str(tmp_path / "out"))
        assert done.returncode == 0, done.stderr
        assert "too-many-pieces: 1 (pairs with more than 63 pieces on a side; " in done.stderr

    def test_a_decoder_alone(self, folder: Path, tmp_path: Path):
        make_model("llama").save_pretrained(tmp_path)
        make_tokenizer().save_pretrained(tmp_path)
        texts = ["--src", str(folder / "source.txt"), "--tgt", str(folder / "target.txt")]
        done = program("align", str(tmp_path), *texts)
        assert done.returncode == 1
        assert done.stderr.endswith(
            "expected a model of an encoder and a decoder, got one of the type 'llama'; such a model shows its weights "
            "with output_attentions=True\n"
        )
        with pytest.raises(ValueError, match="got one of the type 'llama'"):
            describe_model(tmp_path)

    def test_no_tokenizer(self, tmp_path: Path):
        make_model("marian").save_pretrained(tmp_path)
        with pytest.raises(ValueError, match=r"expected the model's tokenizer beside it.*tokenizer\.save_pretrained"):
            rela.inspect(tmp_path, SOURCES, TARGETS)

    def test_what_only_our_own_models_do(self, folder: Path):
        with pytest.raises(ValueError, match=r"got one of transformers that was converted; .*generate.*`rela align`"):
            rela.Translator.load(folder / "marian")


class TestRefuses:
    def test_a_name_alone(self):
        model = build("marian")
        model.set_attn_implementation("entmax15")
        with pytest.raises(ValueError, match=r"attn_implementation='entmax15' alone; .*convert\(model, 'entmax15'\)"):
            rela.inspect((model, make_tokenizer()), SOURCES, TARGETS)

    def test_attentions_that_cannot_be_seen(self):
        config = LongT5Config(vocab_size=50, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4)
        with pytest.raises(ValueError, match="encoder: expected the same attention in all layers, got none in LongT5"):
            rela.inspect((LongT5ForConditionalGeneration(config), make_tokenizer()), SOURCES, TARGETS)

    def test_a_text_longer_than_the_models_positions(self):
        model = make_model("marian")
        with pytest.raises(
            ValueError, match=r"targets: expected at most 63 pieces, .* got \d+ as number 2; shorten it"
        ):
            rela.inspect((model, make_tokenizer()), SOURCES[:2], [TARGETS[0], "Wasser " * 40])
        adapted, _ = adapt(model, make_tokenizer())
        adapted(torch.full((1, 64), 9), torch.full((1, 64), 9))
        with pytest.raises(ValueError, match="expected at most 63 pieces of a side, which is what MarianMTModel has"):
            adapted(torch.full((1, 65), 9), torch.full((1, 4), 9))

    def test_a_tokenizer_of_more_ids(self):
        tokenizer = make_tokenizer()
        tokenizer.add_tokens(["more"])
        with pytest.raises(ValueError, match=r"at most 50 ids.* got 51; are they of different models\?"):
            rela.inspect((make_model("marian"), tokenizer), SOURCES, TARGETS)

    def test_a_tokenizer_of_another_kind(self, tmp_path: Path):
        folder = make_folder(tmp_path / "model")
        ours: Any = AutoModelForSeq2SeqLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
        for pair in ((ours[0], make_tokenizer()), (make_model("marian"), ours[1])):
            with pytest.raises(ValueError, match="tokenizer: expected the one that belongs to"):
                rela.inspect(pair, SOURCES, TARGETS)

    def test_a_decoder_alone(self):
        with pytest.raises(ValueError, match="expected an encoder and a decoder, got LlamaForCausalLM"):
            rela.inspect((make_model("llama"), make_tokenizer()), SOURCES, TARGETS)

    def test_attentions_that_differ_from_layer_to_layer(self):
        model = make_model("bart", where=_one_cross)
        with pytest.raises(ValueError, match="cross: expected the same attention in all layers, got rela-g, softmax"):
            rela.inspect((model, make_tokenizer()), SOURCES, TARGETS)

    def test_a_tokenizer_without_an_end(self):
        with pytest.raises(ValueError, match="expected one that ends a source with a special token"):
            rela.inspect((make_model("t5"), make_tokenizer("$A")), SOURCES, TARGETS)

    def test_scores_that_are_made_another_way(self):
        model = make_model("marian")
        model.final_logits_bias = model.final_logits_bias + 1.0
        assert isinstance(adapt(model, make_tokenizer())[0], SeenModel)  # a bias that is known is no reason
        model.register_forward_hook(_doubled)
        with pytest.raises(ValueError, match="got MarianMTModel, which does something else"):
            adapt(model, make_tokenizer())

    def test_something_else(self):
        with pytest.raises(TypeError, match=r"or \(model, tokenizer\) of transformers"):
            rela.inspect((build("marian"), "tokenizer"), SOURCES, TARGETS)


def _one_cross(name: str, _: nn.Module) -> bool:
    return "layers.1.encoder_attn" in name


def _broken(module: Any, _: Any, __: Any) -> None:
    if hasattr(module.layers[0].self_attn, "rela"):  # while it is looked at
        raise ZeroDivisionError


def _doubled(_: nn.Module, __: Any, found: Any) -> Any:
    found.logits = found.logits * 2
    return found


def test_spans_of_tokenizers_that_do_not_tell():
    class Slow:
        all_special_ids = (0, 1)

        def convert_ids_to_tokens(self, index: int) -> str:
            return ["<pad>", "</s>", "▁Stra", "ße", "▁", "<unk>", "▁lang", "Strasse"][index]

    slow: Any = Slow()
    assert found_spans(slow, [2, 3, 6, 1], "Straße lang") == [(0, 4), (4, 6), (7, 11), (11, 11)]
    assert found_spans(slow, [7, 6, 1], "Straße lang") == [(0, 0), (0, 0), (0, 0)]
    assert found_spans(slow, [4, 5, 6], "  lang") == [(0, 0), (0, 0), (2, 6)]
