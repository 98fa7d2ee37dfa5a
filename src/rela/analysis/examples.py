"""Example sentences: which ones, the weights that models give them, and the file that holds them."""

from __future__ import annotations

import hashlib
import heapq
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rela._files import write_bytes
from rela.alignment.errors import ErrorCounts, GoldLinks, Link
from rela.alignment.naive import merged_links
from rela.analysis.corpus import Item
from rela.analysis.inspection import Inspection, inspect
from rela.attention.spec import KINDS
from rela.model.transformer import Transformer
from rela.text.store import Tokenizers
from rela.text.vocabulary import EOS, SPECIAL_PIECES
from rela.text.worded import Wording
from rela.text.words import split_words

FORMAT: Final = "rela-examples-1"
_CASE_WORDS: Final = range(5, 17)
"""Target words of a pair that is shown with words inserted, and mismatched."""
_INSERTED_WORDS: Final = 3


class Example(NamedTuple):
    """A pair to look at."""

    line: int
    role: str
    source: str
    target: str
    gold: GoldLinks | None
    target_tags: list[str] | None


class Sample:
    """So many lines of a corpus of any size, each as likely as the others, and always the same ones for a seed."""

    def __init__(self, size: int, seed: int) -> None:
        self._size, self._seed = size, seed
        self._kept: list[tuple[int, int, Item]] = []  # a heap: the greatest key first

    def add(self, items: Iterable[Item]) -> None:
        """More lines; those with the smallest keys stay."""
        for item in items:
            key = hashlib.blake2b(f"{self._seed} {item.pair.line}".encode(), digest_size=8).digest()
            heapq.heappush(self._kept, (-int.from_bytes(key), item.pair.line, item))
            if len(self._kept) > self._size:
                heapq.heappop(self._kept)

    def items(self) -> list[Item]:
        """Those that were kept, in the order of their lines."""
        return sorted((item for _, _, item in self._kept), key=lambda item: item.pair.line)


def examples_of(items: Sequence[Item], wording: Wording) -> list[Example]:
    """The pairs themselves, and three cases made of one of them: as it is, with words inserted, and mismatched."""
    plain = [Example(item.pair.line, "pair", item.source, item.target, item.gold, item.tags) for item in items]
    return plain + _cases(items, wording)


def _cases(items: Sequence[Item], wording: Wording) -> list[Example]:
    """Of the pair whose sides are most alike in length, and whose words are in fewest pieces: easy to look at."""
    fit = [item for item in items if len(item.pair.target.words) in _CASE_WORDS]
    if len(fit) < 2:
        return []

    def unlikeness(item: Item) -> tuple[int, int, int]:
        source, target = item.pair.source, item.pair.target
        num_broken = len(source.ids) - len(source.words) + len(target.ids) - len(target.words)
        return abs(len(source.words) - len(target.words)), num_broken, abs(len(target.words) - 10)

    good = min(fit, key=unlikeness)
    others = [item for item in fit if item is not good and item.target != good.target]
    if not others:
        return []
    size = len(good.pair.target.words)
    donor = min(others, key=lambda item: abs(len(item.pair.target.words) - size))
    words = [word for word in donor.pair.target.words if word.isalnum()][:_INSERTED_WORDS]
    inserted = insert_words(good.target, words, wording)
    return [
        Example(good.pair.line, "good", good.source, good.target, good.gold, good.tags),
        Example(good.pair.line, "inserted", good.source, inserted, None, None),
        Example(good.pair.line, "mismatched", good.source, donor.target, None, donor.tags),
    ]


def insert_words(text: str, words: Sequence[str], wording: Wording) -> str:
    """Put words into the middle of a text, before one of its words that begins after a blank."""
    if wording.tokenised:
        tokens = text.split()
        middle = len(tokens) // 2
        return " ".join([*tokens[:middle], *words, *tokens[middle:]])
    starts = [span.start for span in split_words(text) if span.start and text[span.start - 1].isspace()]
    place = starts[len(starts) // 2] if starts else len(text)
    return f"{text[:place]}{' '.join(words)} {text[place:]}" if starts else f"{text} {' '.join(words)}"


@dataclass
class Shown:
    """The weights of examples, model by model, on their way into a file."""

    examples: Sequence[Example]
    wording: Wording
    models: list[str] = field(default_factory=list[str])
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict[str, NDArray[Any]])
    words: list[tuple[list[str], list[str]]] = field(default_factory=list[tuple[list[str], list[str]]])
    seen: list[list[dict[str, Any]]] = field(default_factory=list[list[dict[str, Any]]])

    def add(
        self, name: str, model: Transformer, tokenizers: Tokenizers, best: dict[str, Any] | None
    ) -> list[Inspection]:
        """One more model. ``best`` are the heads that align best, by shift."""
        found = inspect(
            (model, tokenizers),
            [example.source for example in self.examples],
            [example.target for example in self.examples],
            wording=self.wording,
        )
        number = len(self.models)
        self.models.append(name)
        self.words = [(inspection.source_words, inspection.target_words) for inspection in found]
        self.seen.append([])
        for place, (example, inspection) in enumerate(zip(self.examples, found, strict=True)):
            for kind in KINDS:
                self.arrays[f"{number}.{kind}.{place}"] = inspection[kind]
            self.seen[-1].append(_described(example, inspection, best))
        return found

    def write(self, path: Path) -> None:
        """The file ``attention.npz``: whole, or not at all."""
        sentences = [
            {
                "line": example.line,
                "role": example.role,
                "source_words": self.words[place][0],
                "target_words": self.words[place][1],
                "source_tags": None,
                "target_tags": example.target_tags,
                "sure": None if example.gold is None else sorted(example.gold.sure),
                "possible": None if example.gold is None else sorted(example.gold.possible),
                "models": [of_model[place] for of_model in self.seen],
            }
            for place, example in enumerate(self.examples)
        ]
        text = json.dumps({"format": FORMAT, "models": self.models, "sentences": sentences}, ensure_ascii=False)
        buffer = io.BytesIO()
        np.savez_compressed(buffer, allow_pickle=False, **self.arrays, examples=np.array(text))
        write_bytes(path, buffer.getvalue())


def _described(example: Example, inspection: Inspection, best: dict[str, Any] | None) -> dict[str, Any]:
    eos = SPECIAL_PIECES[EOS]
    source_pieces, target_pieces = inspection.keys["encoder"], [*inspection.queries["decoder"][1:], eos]
    return {
        "source_pieces": source_pieces,
        "target_pieces": target_pieces,
        "source_piece_words": _owners(inspection.source_word_pieces, len(source_pieces)),
        "target_piece_words": _owners(inspection.target_word_pieces, len(target_pieces)),
        "loss": round(float(inspection.loss.mean()), 5),
        "null": {kind: round(float(inspection.null(kind).mean()), 5) for kind in KINDS},
        "aer": _error_rate(example.gold, inspection, best),
    }


def _owners(word_pieces: Sequence[Sequence[int]], size: int) -> list[list[int]]:
    """For each piece its words; the last one, EOS, has none."""
    found: list[list[int]] = [[] for _ in range(size)]
    for word, pieces in enumerate(word_pieces):
        for piece in pieces:
            found[piece].append(word)
    return found


def _error_rate(gold: GoldLinks | None, inspection: Inspection, best: dict[str, Any] | None) -> float | None:
    """By the head with the lowest error rate, shifted or not."""
    if gold is None or best is None:
        return None
    shift, chosen = min(best.items(), key=lambda item: item[1]["aer"])
    counts = ErrorCounts.of(head_links(inspection, chosen["layer"] - 1, chosen["head"], shift == "shifted"), gold)
    return None if counts.found + counts.sure == 0 else round(counts.aer, 5)


def head_links(inspection: Inspection, layer: int, head: int, shifted: bool) -> list[Link]:
    """The links that one head makes, by the merged rule."""
    weights = inspection["cross"][layer, head].astype(np.float64)
    return merged_links(weights, inspection.source_word_pieces, inspection.target_word_pieces, shifted=shifted)
