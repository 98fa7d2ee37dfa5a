"""The Translator: order, batches, odd lines, options, and what it gives back."""

import random
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from tests.decoding.naive import naive_beam_search
from tests.model.folders import WORDS, make_folder, text_model, tokenizers
from tests.model.small import random_model, small_config

import rela
from rela.decoding import search
from rela.decoding import translator as translator_module
from rela.decoding.search import SearchOptions
from rela.decoding.translator import Translation, Translator, group_by_length
from rela.text.words import pieces_of_words, split_words

EOS = 2


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator(*text_model(scale=1.5))


def sentences(count: int, seed: int = 0) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(1, 9))) for _ in range(count)]


class TestResults:
    @pytest.mark.parametrize("joint", [True, False])
    def test_equals_the_naive_search(self, joint: bool):
        model, sides = text_model(joint=joint, scale=1.5)
        translator = Translator(model.double(), sides)
        texts = ["the dog", "a"]
        found = translator.translate(texts, beam=3, nbest=2, length_penalty=0.9)
        for text, translation in zip(texts, found, strict=True):
            source = torch.tensor([*sides.source.encode(text), EOS])
            naive = naive_beam_search(model, source, SearchOptions(beam=3, length_penalty=0.9))
            for ours, theirs in zip((translation, *translation.alternatives), naive[:2], strict=True):
                assert ours.text == sides.target.decode(theirs.pieces)
                assert ours.score == pytest.approx(theirs.score, abs=1e-9)
                assert ours.log_probability == pytest.approx(theirs.log_probability, abs=1e-9)
                assert ours.finished == theirs.finished

    def test_in_order_whatever_the_order(self, translator: Translator):
        texts = sentences(30)
        found = translator.translate(texts)
        assert len({translation.text for translation in found}) > 10
        order = list(range(30))
        random.Random(1).shuffle(order)
        shuffled = translator.translate([texts[place] for place in order])
        for place, translation in zip(order, shuffled, strict=True):
            assert translation.text == found[place].text
            assert translation.score == pytest.approx(found[place].score, abs=1e-4)

    def test_batches_of_any_size(self, translator: Translator):
        texts = sentences(6)
        found = translator.translate(texts, beam=2)
        for places in (1, 100, 10**6):
            with mock.patch.object(translator_module, "_BATCH_PLACES", places):
                again = translator.translate(texts, beam=2)
            assert [t.text for t in again] == [t.text for t in found]

    def test_the_same_input_gives_the_same_numbers(self, translator: Translator):
        texts = sentences(25)
        assert translator.translate(texts, nbest=3) == translator.translate(texts, nbest=3)

    def test_nbest(self, translator: Translator):
        for translation in translator.translate(sentences(8), beam=4, nbest=4):
            every = [translation, *translation.alternatives]
            assert len(every) == 4
            assert all(not one.alternatives for one in translation.alternatives)
            ended = [one.score for one in every if one.finished]
            assert ended == sorted(ended, reverse=True)
        empty = translator.translate(["  "], beam=4, nbest=3)[0]
        assert (empty.text, empty.alternatives) == ("", (Translation("", 0.0, 0.0),) * 2)
        best = translator.translate(sentences(8), beam=4)
        assert [t.text for t in best] == [t.text for t in translator.translate(sentences(8), beam=4, nbest=4)]

    def test_duplicates_are_alike(self, translator: Translator):
        found = translator.translate(["the dog"] * 5)
        assert len({translation.text for translation in found}) == 1

    def test_progress_counts_every_sentence(self, translator: Translator):
        done: list[int] = []
        translator.translate(["a", "", "the dog", " "], progress=done.append)
        assert sum(done) == 4

    def test_alignment(self, translator: Translator):
        texts = ["the dog runs", "", "a cat sleeps under the house"]
        found = translator.translate(texts, beam=2, nbest=2, align=True)
        plain = translator.translate(texts, beam=2, nbest=2)
        for aligned, without, text in zip(found, plain, texts, strict=True):
            assert (aligned.text, aligned.score) == (without.text, without.score)
            assert without.alignment is None
            for one in (aligned, *aligned.alternatives):
                assert one.alignment is not None
                assert all(0 <= i < len(text.split()) for i, _ in one.alignment)
        assert found[1].alignment == ()
        assert any(translation.alignment for translation in found)


class TestOddLines:
    def test_empty_in_empty_out(self, translator: Translator):
        found = translator.translate(["", "the dog", "  \t ", "\u3000\u2028"])
        assert [found[place] for place in (0, 2, 3)] == [Translation("", 0.0, 0.0)] * 3
        assert found[1].text == translator.translate(["the dog"])[0].text
        assert translator.translate([]) == []
        assert translator.translate([""]) == [Translation("", 0.0, 0.0)]

    def test_an_over_long_line_is_a_warning(self, translator: Translator):
        texts = ["the dog", "the old dog runs " * 30]
        with pytest.warns(UserWarning, match="1 of 2 sentences have more than 20 pieces.*first number 2"):
            found = translator.translate(texts, beam=2, max_source=20)
        assert [t.truncated for t in found] == [False, True]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert translator.translate(texts, beam=2, max_source=20, warn_truncated=False) == found
        cut = translator.tokenizers.source.decode(translator.tokenizers.source.encode(texts[1])[:20])
        assert translator.translate([cut], beam=2)[0].text == found[1].text
        aligned = translator.translate(texts, beam=2, max_source=20, align=True, warn_truncated=False)
        spans = translator.tokenizers.source.encode_with_spans(texts[1]).spans[:20]
        inside = {word for word, found in enumerate(pieces_of_words(spans, split_words(texts[1]))) if found}
        assert aligned[1].alignment
        assert {source for source, _ in aligned[1].alignment} <= inside < set(range(4 * 30))

    def test_a_long_blank_line_is_no_warning(self, translator: Translator):
        assert translator.translate([" \t" * 500], max_source=5)[0].text == ""

    def test_more_positions_than_the_table_has(self, translator: Translator, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(search, "MAX_RATIO", 0)
        monkeypatch.setattr(search, "MAX_EXTRA", 260)
        found = translator.translate(["dog " * 400], beam=1)[0]
        assert isinstance(found.text, str)
        assert not found.truncated

    @pytest.mark.parametrize(
        "text",
        [
            "\0",
            "a\0b",
            "\ufffd\uffff",
            "🐕🐈" * 5,
            "e\u0301\u200d\u202e",
            "\U0010ffff",
            "\x1b[31m",
            "⟨/s⟩ ⟨pad⟩",
            "a\nb",
        ],
    )
    def test_any_text_is_translated(self, translator: Translator, text: str):
        found = translator.translate([text, "the dog"], align=True)
        assert found[1].text == translator.translate(["the dog"])[0].text
        found[0].text.encode()

    @pytest.mark.parametrize("text", ["\ud800", "dog \udc80 cat"])
    def test_half_a_character_is_an_error(self, translator: Translator, text: str):
        with pytest.raises(ValueError, match=r"lone surrogate, U\+D.* in number 2"):
            translator.translate(["fine", text])

    @pytest.mark.parametrize("wrong", [None, b"dog", 3, ["dog"]])
    def test_what_is_no_text_is_an_error(self, translator: Translator, wrong: Any):
        with pytest.raises(TypeError, match=r"expected strings, got .* as number 1"):
            translator.translate([wrong])
        with pytest.raises(TypeError, match="got one string; put it into a list"):
            translator.translate("the dog")

    @pytest.mark.parametrize("wrong", [None, b"dog", 3])
    def test_what_is_no_list_is_an_error(self, translator: Translator, wrong: Any):
        with pytest.raises(TypeError, match=rf"sentences: expected a list of strings, got {type(wrong).__name__}"):
            translator.translate(wrong)

    def test_pairs_that_are_none(self, translator: Translator):
        assert len(list(translator.align([("a dog", "ein Hund"), ["a", "ein"]]))) == 2  # pyright: ignore[reportArgumentType]
        for wrong in ("ab", ("a",), ("a", "b", "c"), ("a", None), 3):
            with pytest.raises(TypeError, match=r"pairs: expected pairs of strings .* as number 2"):
                translator.align([("a", "b"), wrong])  # pyright: ignore[reportArgumentType]
        with pytest.raises(TypeError, match=r"pairs: expected a list of pairs .*, got one string"):
            translator.align("a dog")  # pyright: ignore[reportArgumentType]
        with pytest.raises(TypeError, match=r"pairs: expected a list of pairs .*, got NoneType"):
            translator.align(None)  # pyright: ignore[reportArgumentType]


class TestOptions:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"beam": 0}, "beam: expected at least 1, got 0"),
            ({"beam": -1}, "beam: expected at least 1, got -1"),
            ({"beam": 2, "nbest": 3}, "nbest: expected 1 to beam = 2, got 3"),
            ({"nbest": 0}, "nbest: expected"),
            ({"max_source": 0}, "max_source: expected"),
            ({"length_penalty": -1}, "length_penalty: expected"),
        ],
    )
    def test_refused(self, translator: Translator, options: dict[str, Any], message: str):
        with pytest.raises(ValueError, match=message):
            translator.translate(["the dog"], **options)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"beam": "2"}, "beam: expected a whole number, got '2'"),
            ({"beam": 2.0}, "beam: expected a whole number, got 2.0"),
            ({"beam": None}, "beam: expected a whole number, got None"),
            ({"nbest": "1"}, "nbest: expected a whole number, got '1'"),
            ({"max_source": 9.5}, "max_source: expected a whole number, got 9.5"),
            ({"length_penalty": "0.6"}, "length_penalty: expected a number, got '0.6'"),
        ],
    )
    def test_refused_for_their_type(self, translator: Translator, options: dict[str, Any], message: str):
        with pytest.raises(TypeError, match=message):
            translator.translate(["the dog"], **options)

    def test_numbers_of_numpy(self, translator: Translator):
        options: Any = {"beam": np.int64(2), "length_penalty": np.float32(0.5)}
        assert translator.translate(["a"], **options) == translator.translate(["a"], beam=2, length_penalty=0.5)

    @pytest.mark.parametrize("wrong", [None, 3, b"model"])
    def test_a_folder_that_is_no_path(self, wrong: Any):
        with pytest.raises(TypeError, match="folder: expected the path of a model directory, got"):
            Translator.load(wrong)

    def test_a_model_in_training_translates_without_dropout(self):
        model, sides = text_model()
        translator = Translator(model, sides)
        expected = translator.translate(sentences(5), align=True)
        model.train()
        assert translator.translate(sentences(5), align=True) == expected
        assert all(module.training for module in model.modules())

    def test_load(self, tmp_path: Path):
        folder = make_folder(tmp_path / "model")
        loaded = rela.Translator.load(str(folder))
        assert loaded.languages == ("en", "de")
        assert loaded.translate(["A dog runs ."], beam=4) == Translator(*text_model()).translate(["A dog runs ."])
        assert isinstance(loaded.translate(["a"])[0], rela.Translation)

    @pytest.mark.parametrize("device", ["nonsense", "cuda:99", "meta", "cpu:x"])
    def test_a_device_that_is_not_here(self, tmp_path: Path, device: str):
        with pytest.raises(ValueError, match=r"^device: expected .*, got '.*; use cpu"):
            Translator.load(tmp_path, device)


class TestGroups:
    def test_every_place_once_in_groups_of_like_length(self):
        lengths = [random.Random(7).randint(1, 60) for _ in range(500)]
        groups = list(group_by_length(lengths, 4))
        assert sorted(place for group in groups for place in group) == list(range(500))
        assert all((max(lengths[p] for p in group) + 1) * len(group) * 4 <= 2048 for group in groups)
        flat = [lengths[place] for group in groups for place in group]
        assert flat == sorted(flat, reverse=True)
        assert list(group_by_length(lengths, 4)) == groups

    def test_one_that_is_larger_than_a_batch(self):
        assert list(group_by_length([5000, 3], 4)) == [[0], [1]]
        assert list(group_by_length([], 4)) == []


@pytest.mark.slow
def test_a_trained_model_copies():
    """A model that learned to copy gives back what it gets: nothing on the way loses or mixes up a sentence."""
    sides = tokenizers()
    config = small_config(
        source_vocabulary=sides.source.size, target_vocabulary=sides.target.size, dim=64, ffn_dim=128, dropout=0.0
    )
    model = random_model(config).train()
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    calmer = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, 900)  # or the end depends on the last few batches
    draw = random.Random(0)
    for _ in range(900):
        length = draw.randint(1, 6)
        pieces = torch.randint(260, sides.source.size, (32, length))
        ends = torch.full((32, 1), EOS)
        logits = model.logits(model(torch.cat([pieces, ends], 1), torch.cat([ends - 1, pieces], 1)))
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.cat([pieces, ends], 1).flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        calmer.step()
    texts = [text for text in sentences(300, seed=5) if len(ids := sides.source.encode(text)) <= 6 and min(ids) >= 260]
    assert len(texts) > 20
    found = Translator(model, sides).translate(texts)
    right = sum(translation.text == text for translation, text in zip(found, texts, strict=True))
    assert right >= 0.9 * len(texts)
    assert all(translation.finished for translation in found)
