"""The stream of sentence pairs."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from .links import decode, encode
from .pools import get_pools
from .sentences import Author
from .splits import SPLITS, Combination, split_of


class GrammarPair(NamedTuple):
    """An English sentence and its German translation, as raw text and as words, with gold links and tags."""

    source: str
    target: str
    source_words: tuple[str, ...]
    target_words: tuple[str, ...]
    sure: tuple[tuple[int, int], ...]
    possible: tuple[tuple[int, int], ...]
    source_tags: tuple[str, ...]
    target_tags: tuple[str, ...]


def generate(split: str = "train", *, seed: int = 1, count: int) -> Iterator[GrammarPair]:
    """``count`` distinct pairs of a split, always the same ones for the same seed.

    A shorter stream is the beginning of a longer one. No sentence of one split occurs in another, whatever the seeds.

    Raises:
        ValueError: there is no such split, or the count is negative.
    """
    for pair, _ in trace(split, seed=seed, count=count):
        yield pair


def trace(split: str, *, seed: int, count: int) -> Iterator[tuple[GrammarPair, tuple[Combination, ...]]]:
    """The pairs of `generate`, each with the combinations of word and frame in it that might be held out."""
    if split not in SPLITS:
        raise ValueError(f"split must be one of {', '.join(SPLITS)}, not {split!r}")
    if count < 0:
        raise ValueError(f"count must be at least 0, not {count}")
    compositional = split == "test-compositional"
    pools = get_pools(compositional)
    held_out = pools.held_out
    author = Author(Random(f"{split}:{seed}").random, pools)
    write, used = author.write, author.used
    seen: set[int] = set()
    while count:
        (english, german, links), mark = write()
        english_words, english_tags = zip(*english, (mark, "PUNCT"), strict=True)
        first = english_words[0]
        english_words = (first[0].upper() + first[1:], *english_words[1:])
        source = _as_text(english_words)
        if compositional:
            if held_out.isdisjoint(used):
                continue
        elif split_of(source) != split:
            continue
        data = source.encode()
        digest = zlib.crc32(data) << 32 | zlib.adler32(data)
        if digest in seen:
            continue
        seen.add(digest)
        count -= 1
        german_words, german_tags = zip(*german, (mark, "PUNCT"), strict=True)
        first = german_words[0]
        german_words = (first[0].upper() + first[1:], *german_words[1:])
        sure, possible = decode([*links, encode(len(english), len(german))])
        yield (
            GrammarPair(
                source, _as_text(german_words), english_words, german_words, sure, possible, english_tags, german_tags
            ),
            tuple(used),
        )


def _as_text(words: tuple[str, ...]) -> str:
    """Words with blanks between them, but none before commas and the final mark."""
    text = " ".join(words[:-1])
    if "," in words:
        text = text.replace(" ,", ",")
    return text + words[-1]
