"""Configurations of models: what is refused, and in which words."""

from typing import Any

import pytest
from tests.model.small import small_config

from rela.model.config import Attentions, resolve_choice


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dim": 0}, "dim: expected at least 1, got 0"),
        ({"num_heads": 3}, "dim: expected a multiple of num_heads 3, got 16"),
        ({"dim": 15, "num_heads": 3}, "dim: expected an even number"),
        ({"encoder_layers": 0}, "encoder_layers: expected at least 1, got 0"),
        ({"source_vocabulary": 3, "tied": "none"}, "source_vocabulary: expected at least 4 pieces, got 3"),
        ({"dropout": 1.0}, "dropout: expected a probability"),
        ({"attention_dropout": float("nan")}, "attention_dropout: expected a probability"),
        ({"source_vocabulary": 30}, "tied: expected 'target' or 'none' for separate vocabularies"),
        ({"attention": Attentions(cross="rela-x")}, "attention.cross: unknown attention 'rela-x'; did you mean"),
        ({"attention": Attentions(encoder={"topk": 3})}, "attention.encoder: expected a name"),
        ({"attention": Attentions(encoder={"name": "topk", "k": 3})}, "attention.encoder: unknown attention option k"),
        ({"attention": Attentions(decoder={"name": "softmax", "threshold": 1})}, "attention.decoder: threshold"),
    ],
)
def test_what_cannot_be_built_is_refused(changes: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        small_config(**changes)


def test_attention_by_name_pair_or_mapping():
    assert resolve_choice("relu+rmsnorm").name == "relu-rmsnorm"
    assert resolve_choice({"name": "rela-g", "threshold": 0.5}).threshold == 0.5


def test_labels():
    assert Attentions.everywhere("softmax").label == "softmax"
    assert Attentions(encoder="softmax").label == "encoder:softmax,decoder:rela-g,cross:rela-g"
