"""A model directory that has learned to count, and what it is in transformers."""

from pathlib import Path
from typing import Any, NamedTuple

from tests.training.helpers import TWO_LAYERS, make_store, tiny_config, train
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from rela.integrations.huggingface import RelaForConditionalGeneration, RelaTokenizer

SOURCES = ["one two three!", "four!", "seven eight one two!", "five five six!", "two one six six eight!"]


class Made(NamedTuple):
    """A model directory, and what it is in transformers."""

    folder: Path
    model: Any
    tokenizer: Any

    def batch(self, texts: list[str] = SOURCES) -> Any:
        return self.tokenizer(texts, return_tensors="pt", padding=True)

    def translated(self, **options: Any) -> list[str]:
        return self.tokenizer.batch_decode(self.model.generate(**self.batch(), **options), skip_special_tokens=True)


def load(folder: Path) -> Made:
    model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    assert isinstance(model, RelaForConditionalGeneration)
    assert isinstance(tokenizer, RelaTokenizer)
    return Made(folder, model, tokenizer)


def make(folder: Path, *, joint: bool) -> Made:
    store = make_store(folder / "text", pairs=120, joint=joint)
    tied = "all" if joint else "target"
    train(tiny_config(store, budget__steps=150, model__tied=tied, **TWO_LAYERS), folder / "run")
    return load(folder / "run" / "model")
