"""Models to look into: our own directories, and those of other libraries that an integration knows to open."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import NamedTuple, Protocol

from rela.model.config import ModelConfig
from rela.model.directory import (
    CONFIG_FILE,
    MODEL_TYPE,
    WEIGHTS_FILE,
    Languages,
    find_model_folder,
    load_model,
    read_description,
    read_fingerprint,
)
from rela.model.seq2seq import Seq2Seq
from rela.text.subwords import PairEncoding


class OpenedModel(NamedTuple):
    """A model that can be looked into. It need not be able to translate."""

    model: Seq2Seq
    tokenizers: PairEncoding
    languages: Languages


class Description(NamedTuple):
    """What a folder says about its model: without weights.

    ``sort`` is the same for models of the same configuration and tokenizers; ``max_pieces`` is as of `Seq2Seq`.
    """

    config: ModelConfig
    languages: Languages
    seed: int | None
    sort: str
    max_pieces: int | None = None


class Opener(Protocol):
    """Knows the models of another library."""

    def knows(self, folder: Path) -> bool:
        """Whether this is a folder of that library."""
        ...

    def describe(self, folder: Path) -> Description:
        """What is in it."""
        ...

    def open(self, folder: Path) -> OpenedModel:
        """The model itself."""
        ...

    def adapt(self, model: object, tokenizer: object) -> tuple[Seq2Seq, PairEncoding] | None:
        """A model in memory with its tokenizer; None if they are no such things."""
        ...


_OPENERS: list[Opener] = []


def foreign_type(folder: Path) -> str | None:
    """The ``model_type`` that another library's ``config.json`` has; None if there is none, or it is ours."""
    try:
        entries = json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    found = entries.get("model_type") if isinstance(entries, dict) else None
    return found if isinstance(found, str) and found != MODEL_TYPE else None


def register_opener(opener: Opener) -> None:
    """From now on, its models can be looked into, too."""
    _OPENERS.append(opener)


def open_model(folder: str | os.PathLike[str]) -> OpenedModel:
    """A model directory of ours, or one that an integration knows."""
    path = find_model_folder(Path(folder))
    opener = _opener_of(path)
    return OpenedModel(*load_model(path)) if opener is None else opener.open(path)


def describe_model(folder: str | os.PathLike[str]) -> Description:
    """What is in a model directory, without loading it."""
    path = find_model_folder(Path(folder))
    opener = _opener_of(path)
    if opener is not None:
        return opener.describe(path)
    description = read_description(path)
    fingerprint = read_fingerprint(path / WEIGHTS_FILE)
    return Description(
        description["model"],
        Languages(description["source_language"], description["target_language"]),
        _seed(description.get("made_by")),
        str(path) if fingerprint is None else fingerprint,
    )


def adapt_model(model: object, tokenizer: object) -> tuple[Seq2Seq, PairEncoding] | None:
    """A model of another library with its tokenizer, if an integration that was imported knows it."""
    return next((found for opener in _OPENERS if (found := opener.adapt(model, tokenizer)) is not None), None)


def _opener_of(folder: Path) -> Opener | None:
    return next((opener for opener in _OPENERS if opener.knows(folder)), None)


def _seed(made_by: object) -> int | None:
    """Models of earlier versions do not know theirs."""
    seed = made_by.get("seed") if isinstance(made_by, dict) else None
    return seed if isinstance(seed, int) else None
