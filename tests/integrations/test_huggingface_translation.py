"""Our translation models in transformers: the same folder, the same translations, and back again."""

import json
from pathlib import Path

import pytest
import torch
from tests.integrations.translation_models import SOURCES, Made, load
from transformers import AutoConfig, AutoModelForSeq2SeqLM

import rela
from rela.attention.spec import KINDS
from rela.integrations import huggingface
from rela.integrations.huggingface import RelaForConditionalGeneration, RelaTokenizer

pytestmark = pytest.mark.usefixtures("quiet_transformers")


def test_a_model_directory_is_found_by_the_auto_classes(made: Made):
    assert isinstance(made.model, RelaForConditionalGeneration)
    assert isinstance(made.tokenizer, RelaTokenizer)
    assert not made.model.training
    config = AutoConfig.from_pretrained(made.folder)
    assert (config.hidden_size, config.num_hidden_layers, config.source_language) == (32, 2, "en")


def test_with_and_without_a_cache(made: Made):
    assert made.translated(use_cache=False) == made.translated()
    batch = made.batch()
    labels = made.tokenizer(text_target=["eins zwei drei vier!"] * len(SOURCES), return_tensors="pt").input_ids
    with torch.no_grad():
        whole = made.model(**batch, decoder_input_ids=labels).logits
        first = made.model(**batch, decoder_input_ids=labels[:, :3], use_cache=True)
        rest = made.model(**batch, decoder_input_ids=labels[:, 3:], past_key_values=first.past_key_values)
    torch.testing.assert_close(torch.cat([first.logits, rest.logits], dim=1), whole)


def test_padding_and_what_comes_later_change_nothing(made: Made):
    batch = made.batch()
    ids = made.tokenizer(text_target=["eins zwei drei!"] * len(SOURCES), return_tensors="pt").input_ids
    with torch.no_grad():
        expected = made.model(**batch, decoder_input_ids=ids).logits
        wide = {name: torch.cat([tensor, torch.zeros_like(tensor[:, :3])], dim=1) for name, tensor in batch.items()}
        wide["input_ids"][:, -3:] = 7  # whatever stands there, the mask says that it is none
        torch.testing.assert_close(made.model(**wide, decoder_input_ids=ids).logits, expected)
        other = ids.clone()
        other[:, -1] = 9
        torch.testing.assert_close(made.model(**batch, decoder_input_ids=other).logits[:, :-1], expected[:, :-1])


@pytest.mark.parametrize("with_mask", [True, False])
def test_padding_is_seen_where_the_encoder_has_run_before(made: Made, with_mask: bool):
    """By the mask, by the ids, or by both."""
    batch = made.batch()
    ids = made.tokenizer(text_target=["eins zwei drei!"] * len(SOURCES), return_tensors="pt").input_ids
    with torch.no_grad():
        expected = made.model(**batch, decoder_input_ids=ids).logits
        states = made.model.get_encoder()(**batch)
        if with_mask:
            batch.pop("input_ids")
        else:
            batch.pop("attention_mask")
        torch.testing.assert_close(made.model(**batch, encoder_outputs=states, decoder_input_ids=ids).logits, expected)
        with pytest.raises(AssertionError):  # padding is seen as words
            torch.testing.assert_close(made.model(encoder_outputs=states, decoder_input_ids=ids).logits, expected)


def test_loss_is_the_mean_over_labels(made: Made):
    labels = made.tokenizer(text_target=["eins zwei!", "vier!"], padding=True, return_tensors="pt").input_ids
    labels[labels == 0] = -100
    batch = made.batch(["one two!", "four!"])
    with torch.no_grad():
        found = made.model(**batch, labels=labels)
        scored = rela.inspect(rela.Translator.load(made.folder), ["one two!", "four!"], ["eins zwei!", "vier!"])
    losses = torch.cat([torch.from_numpy(one.loss) for one in scored])
    torch.testing.assert_close(found.loss, losses.mean(), rtol=1e-4, atol=1e-4)
    total = made.model(**batch, labels=labels, num_items_in_batch=2 * len(losses)).loss
    torch.testing.assert_close(total, losses.sum() / (2 * len(losses)), rtol=1e-4, atol=1e-4)


def test_attentions_and_hidden_states(made: Made):
    [seen] = rela.inspect(rela.Translator.load(made.folder), ["one two!"], ["eins zwei!"])
    labels = made.tokenizer(text_target=["eins zwei!"], return_tensors="pt").input_ids
    with torch.no_grad():
        found = made.model(**made.batch(["one two!"]), labels=labels, output_attentions=True, output_hidden_states=True)
    for kind in KINDS:
        weights = found.cross_attentions if kind == "cross" else found[f"{kind}_attentions"]
        torch.testing.assert_close(torch.cat(weights), torch.from_numpy(seen[kind]), rtol=1e-4, atol=1e-5)
    assert len(found.encoder_hidden_states) == len(found.decoder_hidden_states) == 3
    torch.testing.assert_close(made.model.model.logits(found.decoder_hidden_states[-1]), found.logits)
    generated = made.model.generate(
        **made.batch(["one two!"]), output_attentions=True, output_hidden_states=True, return_dict_in_generate=True
    )
    assert len(generated.cross_attentions[0]) == 2
    assert len(generated.decoder_hidden_states[0]) == 3


def test_saved_and_loaded_by_both(made: Made, tmp_path: Path):
    made.model.save_pretrained(tmp_path)
    made.tokenizer.save_pretrained(tmp_path)
    again = load(tmp_path)
    assert again.translated() == made.translated()
    assert again.model.generation_config.length_penalty == 0.6
    ours = rela.Translator.load(tmp_path)
    assert ours.languages == ("en", "de")
    assert [one.text for one in ours.translate(SOURCES)] == made.translated()
    for name, parameter in rela.Translator.load(made.folder).model.named_parameters():
        assert torch.equal(parameter, ours.model.get_parameter(name))


@pytest.mark.parametrize(("dtype", "options"), [(torch.bfloat16, {}), (torch.float32, {"max_shard_size": "10KB"})])
def test_saved_from_other_types_and_sizes(made: Made, tmp_path: Path, dtype: torch.dtype, options: dict[str, str]):
    """As one file of float32, which is what ours reads."""
    model = AutoModelForSeq2SeqLM.from_pretrained(made.folder, dtype=dtype)
    model.save_pretrained(tmp_path, **options)
    made.tokenizer.save_pretrained(tmp_path)
    ours = rela.Translator.load(tmp_path).model
    for name, parameter in rela.Translator.load(made.folder).model.named_parameters():
        assert torch.equal(parameter.to(dtype).float(), ours.get_parameter(name))


def test_weights_that_are_missing_are_an_error(made: Made, tmp_path: Path):
    from safetensors.torch import load_file, save_file

    for path in made.folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    weights = load_file(tmp_path / "model.safetensors")
    del weights["decoder.0.cross_attention.norm.gate"]
    save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(ValueError, match=r"got none for model\.decoder\.0\.cross_attention\.norm\.gate"):
        AutoModelForSeq2SeqLM.from_pretrained(tmp_path)


class TestTokenizer:
    TEXT = "⟨s⟩ naïve  数字 ⟨/s⟩ one two!"

    def test_pieces_are_ours_and_an_end(self, made: Made):
        ours = rela.Translator.load(made.folder).tokenizers
        found = made.tokenizer(self.TEXT, text_target=self.TEXT)
        assert found["input_ids"] == [*ours.source.encode(self.TEXT), 2]
        assert found["labels"] == [*ours.target.encode(self.TEXT), 2]
        assert made.tokenizer.decode(found["labels"], skip_special_tokens=True) == self.TEXT

    def test_it_is_fast_and_knows_offsets(self, made: Made):
        assert made.tokenizer.is_fast
        found = made.tokenizer("one two!", return_offsets_mapping=True)
        assert found["offset_mapping"][-2] == (7, 8)

    def test_two_texts_have_two_ends(self, made: Made):
        ids = made.tokenizer("one!", "two!").input_ids
        assert ids == made.tokenizer("one!").input_ids + made.tokenizer("two!").input_ids


class TestErrors:
    def test_padding_of_the_decoder_on_the_left(self, made: Made):
        ids = torch.tensor([[0, 1, 5]])
        with pytest.raises(ValueError, match="expected padding on the right"):
            made.model(**made.batch(["one!"]), decoder_input_ids=ids, decoder_attention_mask=ids.ne(0).long())

    @pytest.mark.parametrize("by", ["mask", "ids"])
    def test_padding_of_the_source_on_the_left(self, made: Made, by: str):
        batch = {name: tensor.flip(1) for name, tensor in made.batch(["one!", "one two three!"]).items()}
        if by == "ids":
            del batch["attention_mask"]
        for call in (made.model.get_encoder(), made.model.generate):
            with pytest.raises(ValueError, match=r"source: expected padding on the right.*padding_side"):
                call(**batch)

    def test_nothing_to_decode(self, made: Made):
        with pytest.raises(ValueError, match="expected decoder_input_ids or labels, got neither"):
            made.model(**made.batch(["one!"]))

    def test_a_config_that_is_none(self, made: Made, tmp_path: Path):
        description = json.loads((made.folder / "config.json").read_text(encoding="utf-8"))
        description["model"]["num_heads"] = 5
        (tmp_path / "config.json").write_text(json.dumps(description), encoding="utf-8")
        with pytest.raises(ValueError, match="dim: expected a multiple of num_heads 5"):
            AutoConfig.from_pretrained(tmp_path)

    def test_another_vocabulary(self, made: Made):
        with pytest.raises(NotImplementedError, match="tokens that the model was trained with, got 7"):
            made.model.resize_token_embeddings(7)
        made.model.resize_token_embeddings(made.model.model.source_embedding.num_embeddings)
        with pytest.raises(NotImplementedError, match=r"got new tokens \(<x>\)"):
            made.tokenizer.add_tokens(["<x>"])


def test_names_are_there():
    assert set(huggingface.__all__) <= set(dir(huggingface))
