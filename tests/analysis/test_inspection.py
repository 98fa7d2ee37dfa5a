"""rela.inspect: weights, labels, words and losses of pairs, whatever their company."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from tests.analysis.batches import encoded, texts
from tests.model.folders import make_folder, text_model

import rela
from rela.alignment.pairs import PairBatch, encode_pairs
from rela.alignment.weights import visit_cross_weights
from rela.analysis.ablation import Head
from rela.analysis.inspection import Inspection
from rela.attention.spec import KINDS
from rela.model.directory import load_model
from rela.model.transformer import Transformer
from rela.text.store import Tokenizers
from rela.text.worded import Wording

SOURCE, TARGET = "the small dog runs .", "der Hund, läuft."


@pytest.fixture(scope="module")
def model() -> tuple[Transformer, Tokenizers]:
    return text_model(scale=1.5)


@pytest.fixture(scope="module")
def inspection(model: tuple[Transformer, Tokenizers]) -> Inspection:
    return rela.inspect(model, SOURCE, TARGET)


class TestWeights:
    def test_of_cross_attention(self, model: tuple[Transformer, Tokenizers], inspection: Inspection):
        transformer, tokenizers = model
        batch = PairBatch(list(encode_pairs(tokenizers, [(1, SOURCE, TARGET)])))
        layers = range(transformer.config.decoder_layers)
        expected: list[NDArray[np.float32]] = []
        visit_cross_weights(transformer, batch, layers, lambda _, weights: expected.append(weights[0].numpy()))
        np.testing.assert_allclose(inspection["cross"], np.stack(expected), rtol=1e-3, atol=1e-5)
        assert inspection["cross"].dtype == np.float32

    def test_of_self_attention(self, model: tuple[Transformer, Tokenizers], inspection: Inspection):
        assert inspection["encoder"].shape == (2, 4, len(inspection.keys["encoder"]), len(inspection.keys["encoder"]))
        decoder = inspection["decoder"]
        assert decoder.shape == (2, 4, len(inspection.queries["decoder"]), len(inspection.keys["decoder"]))
        future = ~np.tri(decoder.shape[-1], dtype=bool)
        assert (decoder[..., future] == 0).all()
        assert decoder.any()

    def test_labels(self, inspection: Inspection):
        assert "".join(inspection.keys["encoder"]) == SOURCE + "⟨/s⟩"
        assert "".join(inspection.queries["decoder"]) == "⟨s⟩" + TARGET
        assert inspection.queries["cross"] == inspection.keys["decoder"] == inspection.queries["decoder"]
        assert inspection.keys["cross"] == inspection.queries["encoder"] == inspection.keys["encoder"]
        assert inspection.source_words == ["the", "small", "dog", "runs", "."]
        assert inspection.target_words == ["der", "Hund", ",", "läuft", "."]

    def test_null(self, inspection: Inspection):
        for kind in KINDS:
            np.testing.assert_array_equal(inspection.null(kind), inspection[kind].sum(-1) == 0)
        assert inspection.null("cross").any()

    def test_any_company_gives_the_same(self):
        model, tokenizers = text_model(scale=1.5)
        double = model.double()
        pairs = texts(12, longest=9)
        sources, targets = zip(*pairs, strict=True)
        together = rela.inspect((double, tokenizers), list(sources), list(targets), ablate=[("cross", 0, 1)])
        for one, (source, target) in zip(together, pairs, strict=True):
            alone = rela.inspect((double, tokenizers), source, target, ablate=[("cross", 0, 1)])
            assert alone.queries == one.queries
            for kind in KINDS:
                np.testing.assert_allclose(one[kind], alone[kind], rtol=1e-5, atol=1e-7)
            np.testing.assert_allclose(one.loss, alone.loss, rtol=1e-5)
            np.testing.assert_allclose(one.ablation[0].change, alone.ablation[0].change, atol=1e-6)


class TestWords:
    @pytest.mark.parametrize("shifted", [False, True])
    @pytest.mark.parametrize("kind", KINDS)
    def test_by_loops(self, inspection: Inspection, kind: Any, shifted: bool):
        """Pieces and words meet by the characters that they cover, counted here anew."""
        weights, queries, keys = inspection.words(kind, shifted)
        assert weights.shape == (2, 4, len(queries), len(keys))
        rows = owners(inspection.queries[kind], queries)
        columns = owners(inspection.keys[kind], keys)
        back = 0 if shifted or kind == "encoder" else 1  # the row before the one that has the piece as its input
        for query, key in np.ndindex(len(queries), len(keys)):
            pieces = [place for place, owner in enumerate(rows) if owner == query]
            others = [place for place, owner in enumerate(columns) if owner == key]
            sums = [inspection[kind][:, :, piece - back, others].sum(-1) for piece in pieces]
            np.testing.assert_allclose(weights[:, :, query, key], np.mean(sums, axis=0), rtol=1e-5, atol=1e-6)

    def test_wording(self, model: tuple[Transformer, Tokenizers]):
        found = rela.inspect(model, "the dog,", "Hund, .", wording=Wording(tokenised=True))
        assert (found.source_words, found.target_words) == (["the", "dog,"], ["Hund,", "."])
        assert found.words("cross").weights.shape == (2, 4, 2, 2)


def owners(pieces: list[str], words: list[str]) -> list[int | None]:
    """For each piece the word that it is in; no piece of these sentences is in two."""
    left = list(words)
    found: list[int | None] = []
    place = 0
    for piece in pieces:
        text = piece.strip()
        if piece in ("⟨s⟩", "⟨/s⟩") or not text:
            found.append(None)
            continue
        found.append(place)
        assert left[place].startswith(text)
        left[place] = left[place][len(text) :]
        place += not left[place]
    assert place == len(words)
    return found


class TestLoss:
    def test_equals_the_definition(self, model: tuple[Transformer, Tokenizers], inspection: Inspection):
        transformer, tokenizers = model
        batch = PairBatch(encoded(tokenizers, [(SOURCE, TARGET)]))
        scores = transformer.logits(transformer(batch.source, batch.target_in))[0]
        expected = F.cross_entropy(scores, batch.target_out[0], reduction="none").detach().numpy()
        np.testing.assert_allclose(inspection.loss, expected, rtol=1e-5)

    def test_ablation(self, model: tuple[Transformer, Tokenizers]):
        asked = [Head("cross", 1, 2), Head("encoder", 0, 3), Head("decoder", 1, 0)]
        found = rela.inspect(model, SOURCE, TARGET, ablate=asked)
        assert [one.head for one in found.ablation] == asked
        for one in found.ablation:
            assert one.change.shape == found.loss.shape
            assert one.change.any()
            if one.head.kind == "encoder":
                assert one.null is None
            else:
                np.testing.assert_array_equal(one.null, found.null(one.head.kind)[one.head.layer, one.head.head])
                assert one.null is not None
                assert (one.change[one.null] == 0).all()  # the last layer

    def test_weights_are_those_before_silencing(self, model: tuple[Transformer, Tokenizers], inspection: Inspection):
        found = rela.inspect(model, SOURCE, TARGET, ablate=[("encoder", 0, 0), ("cross", 0, 0)])
        for kind in KINDS:
            np.testing.assert_array_equal(found[kind], inspection[kind])


class TestModels:
    def test_a_folder_a_translator_and_a_loaded_model(self, tmp_path: Path):
        folder = make_folder(tmp_path / "model")
        loaded = load_model(folder)
        expected = rela.inspect((loaded.model, loaded.tokenizers), SOURCE, TARGET)["cross"]
        models: list[Any] = [folder, str(folder), rela.Translator.load(folder), loaded]
        for model in models:
            found = rela.inspect(model, SOURCE, TARGET)["cross"]
            np.testing.assert_array_equal(found, expected)

    def test_two_vocabularies(self):
        (found,) = rela.inspect(text_model(joint=False), [SOURCE], ["ein Hund"])
        assert "".join(found.queries["cross"]) == "⟨s⟩ein Hund"
        assert "".join(found.keys["cross"]) == SOURCE + "⟨/s⟩"

    def test_leaves_no_trace(self, model: tuple[Transformer, Tokenizers]):
        transformer, tokenizers = text_model()
        transformer.train()
        with pytest.raises(ValueError, match="lone surrogate"):
            rela.inspect((transformer, tokenizers), ["\ud800"], ["a"])
        rela.inspect((transformer, tokenizers), SOURCE, TARGET)
        assert transformer.training
        found = transformer.attentions().values()
        assert not any(attention._observers for kind in found for attention in kind)  # pyright: ignore[reportPrivateUsage]
        transformer(torch.tensor([[5, 2]]), torch.tensor([[1, 6]])).sum().backward()


class TestText:
    def test_repr(self, inspection: Inspection):
        queries, keys = inspection["cross"].shape[2:]
        assert repr(inspection).startswith(
            "Inspection('the small dog runs .', 'der Hund , läuft .'; cross: 2 layers, 4 heads, "
            f"{queries} queries, {keys} keys; loss "
        )

    def test_table(self, inspection: Inspection):
        weights = inspection.words("cross").weights
        nulls = inspection.null("cross")
        assert nulls.any()
        for layer, head in np.ndindex(2, 4):
            lines = inspection.table("cross", layer, head).split("\n")
            assert lines[0].split() == inspection.source_words
            rows = owners(inspection.queries["cross"], inspection.target_words)
            for word, line in enumerate(lines[1:]):
                cells = line.split()
                expected = ["." if value == 0 else f"{value:.2f}" for value in weights[layer, head, word].tolist()]
                pieces = [place for place, owner in enumerate(rows) if owner == word]
                null = ["null"] if nulls[layer, head, pieces].all() else []
                assert cells == [inspection.target_words[word], *expected, *null]
        assert len(inspection.table("encoder", 0, 0).split("\n")) == 1 + len(inspection.source_words)
        with pytest.raises(ValueError, match=r"head: expected 0 to 3 \(cross, counted from 0\), got 4"):
            inspection.table("cross", 0, 4)


class TestErrors:
    @pytest.mark.parametrize(
        ("sources", "targets", "error", "message"),
        [
            ("a", ["b"], TypeError, "expected two strings or two lists of strings, got one of each"),
            (["a"], ["b", "c"], ValueError, "expected two lists of one length, got 1 and 2"),
            (["a", " "], ["b", "c"], ValueError, "sources: expected a sentence, got an empty one as number 2"),
            ("a", "", ValueError, "targets: expected a sentence, got an empty one as number 1"),
            (["a"], [3], TypeError, "targets: expected strings, got int as number 1"),
            (None, None, TypeError, "sources: expected a string or a list of strings, got NoneType"),
        ],
    )
    def test_texts(
        self, model: tuple[Transformer, Tokenizers], sources: Any, targets: Any, error: type[Exception], message: str
    ):
        with pytest.raises(error, match=message):
            rela.inspect(model, sources, targets)

    def test_no_pairs(self, model: tuple[Transformer, Tokenizers]):
        assert rela.inspect(model, [], []) == []

    def test_others(self, model: tuple[Transformer, Tokenizers], inspection: Inspection, tmp_path: Path):
        with pytest.raises(ValueError, match="layer: expected 0 to 1"):
            rela.inspect(model, "a", "b", ablate=[("cross", 2, 0)])
        with pytest.raises(TypeError, match=r"model: expected the path of a model directory, a Translator, "):
            rela.inspect(model[0], "a", "b")  # pyright: ignore[reportArgumentType, reportCallIssue]
        with pytest.raises(FileNotFoundError, match="expected a model directory"):
            rela.inspect(tmp_path / "none", "a", "b")
        with pytest.raises(KeyError, match="expected one of encoder, decoder, cross, got 'self'"):
            inspection["self"]  # pyright: ignore[reportArgumentType]
