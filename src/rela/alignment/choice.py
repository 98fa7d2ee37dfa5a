"""Which weights align best: a layer, and whether the row before or after a word. Chosen without gold links.

Words that are written the same on both sides, such as names and numbers, nearly always translate each other. The
weights that link most of them are the ones to trust with the others.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rela._files import write_text
from rela.alignment.links import Alignment, Choice, Link, align_by_choices, default_layer
from rela.model.directory import ALIGNMENT_FILE
from rela.model.transformer import Transformer
from rela.text.store import Tokenizers

_ENOUGH: Final = 20  # words; with fewer, chance would decide


def same_words(alignment: Alignment) -> list[Link]:
    """Links of words that stand once on each side and are written the same; signs do not count."""
    sides = [[word.casefold() for word in words] for words in alignment[:2]]
    counts = [Counter(side) for side in sides]
    return [
        (sides[0].index(word), place)
        for place, word in enumerate(sides[1])
        if word[0].isalnum() and counts[0][word] == counts[1][word] == 1
    ]


def default_choice(model: Transformer) -> Choice:
    """What the paper found best: the middle layer, shifted."""
    return Choice(default_layer(model), shifted=True)


def choose(model: Transformer, tokenizers: Tokenizers, pairs: Sequence[tuple[str, str]]) -> Choice | None:
    """The layer and rows that link most of the words that are the same on both sides; None: there are too few."""
    choices = [Choice(layer, shifted) for layer in range(model.config.decoder_layers) for shifted in (False, True)]
    hits = dict.fromkeys(choices, 0)
    num_same = 0
    for alignments in align_by_choices(model, tokenizers, pairs, choices):
        same = set(same_words(alignments[0]))
        num_same += len(same)
        for choice, alignment in zip(choices, alignments, strict=True):
            hits[choice] += len(same & set(alignment.links))
    return max(choices, key=lambda choice: hits[choice]) if num_same >= _ENOUGH else None


def save_choice(folder: Path, choice: Choice) -> None:
    """Put it beside a model."""
    write_text(folder / ALIGNMENT_FILE, json.dumps(choice._asdict()) + "\n")


def load_choice(folder: Path, model: Transformer) -> Choice:
    """The choice beside a model, or the default."""
    path = folder / ALIGNMENT_FILE
    if not path.is_file():
        return default_choice(model)
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        choice = Choice(int(data["layer"]), bool(data["shifted"]))
    except (ValueError, KeyError, TypeError):
        raise ValueError(f'{path}: expected {{"layer": 0, "shifted": true}} or the like; mend or delete it') from None
    if not 0 <= choice.layer < model.config.decoder_layers:
        raise ValueError(
            f"{path}: expected a layer from 0 to {model.config.decoder_layers - 1}, got {choice.layer}; delete the file"
        )
    return choice
