"""The stream of sentence pairs."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from random import Random
from typing import Any, Final, NamedTuple
from zlib import adler32, crc32

from .links import decode, encode
from .pools import get_pools
from .sentences import Author
from .splits import NUM_PARTS, PARTS_OF_SPLITS, SPLITS, Combination


_CHUNK: Final = 256


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
    return _by_chunks(_stream(_make_author(split, seed, count), split, count))


def _by_chunks(pairs: Iterator[GrammarPair]) -> Iterator[GrammarPair]:
    """The same pairs, many made at a time, without garbage collection: they are made of thousands of small tuples in no
    cycle, which the collector would look at again and again, a quarter of the time in all.
    """
    while True:
        collecting = gc.isenabled()
        gc.disable()
        try:
            chunk = list(islice(pairs, _CHUNK))
        finally:
            if collecting:
                gc.enable()
        if not chunk:
            return
        yield from chunk


def trace(split: str, *, seed: int, count: int) -> Iterator[tuple[GrammarPair, frozenset[Combination]]]:
    """The pairs of `generate`, each with the combinations of word and frame in it that might be held out."""
    author = _make_author(split, seed, count)
    for pair in _stream(author, split, count):
        yield pair, frozenset(Combination(*used) for used in author.used)


def _make_author(split: str, seed: int, count: int) -> Author:
    if split not in SPLITS:
        raise ValueError(f"split must be one of {', '.join(SPLITS)}, not {split!r}")
    if count < 0:
        raise ValueError(f"count must be at least 0, not {count}")
    return Author(Random(f"{split}:{seed}").random, get_pools(split == "test-compositional"))


class _Capitals(dict[str, str]):
    """Words with a capital, remembered."""

    def __missing__(self, word: str) -> str:
        self[word] = capital = word[0].upper() + word[1:]
        return capital


_capitals = _Capitals()
_make: Callable[[Any], GrammarPair] = partial(tuple.__new__, GrammarPair)
"""Three times as fast as `GrammarPair` itself."""


def _stream(author: Author, split: str, count: int) -> Iterator[GrammarPair]:
    write, used = author.write, author.used
    held_out = author.pools.held_out
    parts = PARTS_OF_SPLITS.get(split)
    capitals = _capitals
    seen: set[int] = set()
    while count:
        (english, german, links), mark = write()
        words, tags = zip(*english)  # noqa: B905 (strict costs time)
        words = (capitals[words[0]], *words[1:])
        source = " ".join(words) + mark
        if "," in source:
            source = source.replace(" ,", ",")
        data = source.encode()
        checksum = crc32(data)
        if parts is None:
            if held_out.isdisjoint(used):
                continue
        elif checksum % NUM_PARTS not in parts:
            continue
        digest = checksum << 32 | adler32(data)
        if digest in seen:
            continue
        seen.add(digest)
        count -= 1
        german_words, german_tags = zip(*german)  # noqa: B905
        german_words = (capitals[german_words[0]], *german_words[1:])
        target = " ".join(german_words) + mark
        if "," in target:
            target = target.replace(" ,", ",")
        sure, possible = decode(links, encode(len(words), len(german_words)))
        yield _make((
            source, target, (*words, mark), (*german_words, mark), sure, possible, (*tags, "PUNCT"),
            (*german_tags, "PUNCT"),
        ))  # fmt: skip
