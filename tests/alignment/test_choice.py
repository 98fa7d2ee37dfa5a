"""The choice of the weights that link words: by words that are the same on both sides."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from tests.model.folders import WORDS, text_model
from torch import Tensor

from rela.alignment import choice as choosing
from rela.alignment.choice import choose, default_choice, load_choice, same_words, save_choice
from rela.alignment.links import Alignment, Choice, align
from rela.model.config import ModelConfig
from rela.model.transformer import Transformer


@pytest.fixture(scope="module")
def model() -> Transformer:
    sizes: dict[str, Any] = {"dim": 8, "num_heads": 1, "encoder_layers": 1, "decoder_layers": 3, "ffn_dim": 8}
    return Transformer(ModelConfig(source_vocabulary=10, target_vocabulary=10, **sizes))


def test_same_words():
    alignment = Alignment(["Peter", "saw", "3", "men", ",", "men", "."], ["Peter", "sah", "3", "Men", "men", "."], [])
    assert same_words(alignment) == [(0, 0), (2, 2)]


def test_the_weights_that_link_most_of_them(model: Transformer, monkeypatch: pytest.MonkeyPatch):
    def fake(
        _model: object, _tokenizers: object, pairs: Sequence[object], choices: Sequence[Choice]
    ) -> Iterator[list[Alignment]]:
        right = {(0, False): 5, (1, False): 20, (1, True): 21, (2, True): 2}
        for place in range(len(pairs)):
            links = [[(1, 0)] if place < right.get(choice, 0) else [(0, 0)] for choice in choices]
            yield [Alignment(["x", "Peter"], ["Peter", "y"], found) for found in links]

    monkeypatch.setattr(choosing, "align_by_choices", fake)
    pairs = [("x Peter", "Peter y")] * 30
    assert choose(model, None, pairs) == Choice(1, True)  # pyright: ignore[reportArgumentType]
    assert choose(model, None, pairs[:19]) is None  # pyright: ignore[reportArgumentType]


def test_one_pass_finds_what_one_for_each_finds():
    model, sides = text_model()
    pairs = [(f"{WORDS[place % 9]} dog {place} house", f"{place} Hund dog") for place in range(30)]
    hits: dict[Choice, int] = {}
    for choice in (Choice(layer, shifted) for layer in (0, 1) for shifted in (False, True)):
        found = align(model, sides, pairs, layer=choice.layer, shifted=choice.shifted)
        hits[choice] = sum(len(set(same_words(one)) & set(one.links)) for one in found)
    assert len(set(hits.values())) > 1
    forward, calls = Transformer.forward, mock.Mock()

    def count(self: Transformer, source: Tensor, target_in: Tensor) -> Tensor:
        calls()
        return forward(self, source, target_in)

    with mock.patch.object(Transformer, "forward", count):
        assert choose(model, sides, pairs) == max(hits, key=lambda choice: hits[choice])
    assert calls.call_count == 1


def test_beside_a_model(model: Transformer, tmp_path: Path):
    assert load_choice(tmp_path, model) == default_choice(model) == Choice(1, True)
    save_choice(tmp_path, Choice(2, False))
    assert load_choice(tmp_path, model) == Choice(2, False)


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"layer": "x", "shifted": true}', '{"layer": 3, "shifted": true}']
)
def test_a_file_that_does_not_fit(model: Transformer, tmp_path: Path, content: str):
    (tmp_path / "alignment.json").write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=r"alignment\.json: expected .*delete"):
        load_choice(tmp_path, model)


def test_the_file_is_plain(tmp_path: Path):
    save_choice(tmp_path, Choice(0, True))
    assert json.loads((tmp_path / "alignment.json").read_text(encoding="utf-8")) == {"layer": 0, "shifted": True}
