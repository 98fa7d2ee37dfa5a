"""The sentences that are kept as examples: drawn from all, and three cases made of one of them."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from rela.alignment.errors import GoldLinks
from rela.analysis.corpus import Item
from rela.text.worded import Wording
from rela.text.words import split_words

MOST_PIECES: Final = 128
"""On a side of an example: nobody looks at more, and its weights grow with the square."""
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
    """So many lines of a corpus of any size, each as likely as the others, and always the same ones for a seed.

    Those with more than ``MOST_PIECES`` on a side are left out.
    """

    def __init__(self, size: int, seed: int) -> None:
        self._size, self._seed = size, seed
        self._kept: list[tuple[int, int, Item]] = []  # a heap: the greatest key first

    def add(self, items: Iterable[Item]) -> None:
        """More lines; those with the smallest keys stay."""
        for item in items:
            if max(len(item.pair.source.ids), len(item.pair.target.ids)) > MOST_PIECES:
                continue
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
    """Of the pair whose sides are most alike in length, among those that are easy to look at."""
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
    if not starts:
        return f"{text} {' '.join(words)}"
    place = starts[len(starts) // 2]
    return f"{text[:place]}{' '.join(words)} {text[place:]}"
