"""Our decoder with the number of its steps set beforehand, and models of random weights for it.

Speed does not ask what the weights are, but for the share of weights of attention that are zero, which is about half
in untrained models with ReLU attention.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from rela.decoding.search import SearchOptions, beam_search
from rela.decoding.translator import Translator
from rela.model.config import SIZES, Attentions, ModelConfig
from rela.model.directory import Languages, save_model
from rela.model.transformer import Transformer
from rela.text.batches import pad_rows
from rela.text.store import Tokenizers
from rela.text.subwords import Subwords
from rela.text.vocabulary import EOS, SPECIAL_PIECES

_WORD_LETTERS: Final = 8


def random_tokenizers(vocabulary: int, *, seed: int = 0) -> Tokenizers:
    """A joint encoding of so many pieces, learned from random letters."""
    least = len(SPECIAL_PIECES) + 256
    if vocabulary < least:
        raise ValueError(f"vocabulary: expected at least {least} pieces, those of all bytes, got {vocabulary}")
    generator = np.random.default_rng(seed)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = generator.choice(letters, (max(64, vocabulary), _WORD_LETTERS))
    subwords = Subwords.train((" ".join("".join(word) for word in words),), merges=vocabulary - least)
    if subwords.size != vocabulary:
        raise ValueError(f"expected an encoding of {vocabulary} pieces, got {subwords.size}")
    return Tokenizers(subwords, subwords)


def random_model(attention: str, size: str, vocabulary: int, *, seed: int = 0) -> Transformer:
    """A model of a named size with the weights that a training would start from."""
    torch.manual_seed(seed)
    config = ModelConfig(
        source_vocabulary=vocabulary,
        target_vocabulary=vocabulary,
        attention=Attentions.everywhere(attention),
        **SIZES[size],  # pyright: ignore[reportArgumentType] (they are all sizes)
    )
    return Transformer(config).eval()


def write_random_model(folder: Path, attention: str, size: str, tokenizers: Tokenizers) -> Path:
    """The same as a model directory."""
    model = random_model(attention, size, tokenizers.target.size)
    save_model(folder, model, tokenizers, Languages("en", "de"), {"benchmark": "random weights"})
    return folder


def can_decode_in(precision: str) -> bool:
    """Whether this version can."""
    return precision == "float32" or "precision" in inspect.signature(Translator.load).parameters


def load_for_decoding(folder: str, precision: str) -> Transformer:
    """The model of a directory, as a translator of this precision has it."""
    options: dict[str, Any] = {} if precision == "float32" else {"precision": precision}
    return Translator.load(folder, **options).model


def force_length(
    model: Transformer, sources: Sequence[Sequence[int]], *, beam: int, length: int
) -> Callable[[], dict[str, Any]]:
    """The search of these sources (ids without EOS), every translation of which gets so many pieces."""
    padded = torch.from_numpy(pad_rows([np.array(row, np.int64) for row in sources], after=EOS))
    options = forced_options(model, beam=beam, length=length)

    def run() -> dict[str, Any]:
        found = beam_search(model, padded, options)
        return {"lengths": [len(best[0].pieces) for best in found]}

    return run


def forced_options(model: Transformer, *, beam: int, length: int) -> SearchOptions:
    """Options under which no translation ends before, and all are cut off at this length.

    Where a search has no bounds of its own, the model never ends a translation from now on.
    """
    names = {field.name for field in fields(SearchOptions)}
    if {"min_length", "max_length"} <= names:
        return SearchOptions(beam=beam, min_length=length, max_length=length)
    if "logits" not in model.__dict__:
        _never_end(model)
    return _CutAt(beam=beam, most=length)


@dataclass(frozen=True, kw_only=True)
class _CutAt(SearchOptions):
    """For a search without bounds of its own."""

    most: int = 1

    def longest(self, source_length: int) -> int:  # noqa: ARG002 (the same for all)
        return self.most


def _never_end(model: Transformer) -> None:
    """EOS gets no probability from now on."""
    plain = model.logits

    def logits(hidden: Tensor) -> Tensor:
        scores = plain(hidden)
        scores[:, EOS] = -torch.inf
        return scores

    model.logits = logits
