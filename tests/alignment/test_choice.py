"""The choice of the weights that link words: what it is called, and how it lies beside a model."""

import json
from pathlib import Path
from typing import Any

import pytest

from rela.alignment.choice import Choice, default_choice, load_choice, save_choice
from rela.model.config import ModelConfig
from rela.model.transformer import Transformer


@pytest.fixture(scope="module")
def model() -> Transformer:
    sizes: dict[str, Any] = {"dim": 8, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 3, "ffn_dim": 8}
    return Transformer(ModelConfig(source_vocabulary=10, target_vocabulary=10, **sizes))


@pytest.mark.parametrize(
    ("choice", "words", "signature"),
    [
        (Choice(1, True), "layer 2, mean over heads, shifted", "layer:2|head:mean|shift:yes|rule:merged"),
        (Choice(0, False, 1), "layer 1, head 1, normal", "layer:1|head:1|shift:no|rule:merged"),
        (Choice(2, True, 0, "any"), "layer 3, head 0, shifted, any piece", "layer:3|head:0|shift:yes|rule:any"),
    ],
)
def test_for_people_and_signatures(choice: Choice, words: str, signature: str):
    assert str(choice) == words
    assert choice.signature() == signature


@pytest.mark.parametrize("choice", [Choice(2, False), Choice(0, True, 1), Choice(1, True, 0, "any")])
def test_beside_a_model(model: Transformer, tmp_path: Path, choice: Choice):
    assert load_choice(tmp_path, model) == default_choice(model) == Choice(1, True)
    save_choice(tmp_path, choice)
    assert load_choice(tmp_path, model) == choice


def test_a_file_of_an_earlier_version(model: Transformer, tmp_path: Path):
    (tmp_path / "alignment.json").write_text('{"layer": 2, "shifted": false}\n', encoding="utf-8")
    assert load_choice(tmp_path, model) == Choice(2, False, None, "merged")


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"layer": "x", "shifted": true}',
        '{"layer": 3, "shifted": true}',
        '{"layer": 0, "shifted": true, "head": 2}',
        '{"layer": 0, "shifted": true, "head": "x"}',
        '{"layer": 0, "shifted": true, "rule": "none"}',
    ],
)
def test_a_file_that_does_not_fit(model: Transformer, tmp_path: Path, content: str):
    (tmp_path / "alignment.json").write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=r"alignment\.json: .*expected .*delete"):
        load_choice(tmp_path, model)


def test_the_file_is_plain(tmp_path: Path):
    save_choice(tmp_path, Choice(0, True))
    assert json.loads((tmp_path / "alignment.json").read_text(encoding="utf-8")) == {
        "layer": 0,
        "shifted": True,
        "head": None,
        "rule": "merged",
    }
