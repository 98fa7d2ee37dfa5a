"""The stream of sentence pairs."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from itertools import islice
from random import Random
from typing import Final
from zlib import adler32, crc32

from .lexicon import Tokens
from .links import decode, encode
from .pools import get_pools
from .sentences import Author
from .spelling import Spelled, Spelling
from .splits import NUM_PARTS, PARTS_OF_SPLITS, SPLITS, Combination

_CHUNK: Final = 256


class GrammarPair:
    """An English sentence and its German translation, as raw text and as words, with gold links and tags.

    The text is there at once; words, tags and links are worked out when they are asked for.
    """

    __slots__ = ("_mark", "_spelling", "source", "target")

    def __init__(self, source: str, target: str, spelling: Spelling, mark: str) -> None:
        self.source = source
        self.target = target
        self._spelling, self._mark = spelling, mark

    def _spell(self) -> Spelled:
        """Remembered."""
        spelled = self._spelling = self._spelling.spell()
        return spelled

    @property
    def source_words(self) -> tuple[str, ...]:
        """The English words, marks among them."""
        return _words(self._spell().english, self._mark)

    @property
    def target_words(self) -> tuple[str, ...]:
        """The German words, marks among them."""
        return _words(self._spell().german, self._mark)

    @property
    def source_tags(self) -> tuple[str, ...]:
        """A universal part of speech for each English word."""
        return (*(tag for _, tag in self._spell().english), "PUNCT")

    @property
    def target_tags(self) -> tuple[str, ...]:
        """A universal part of speech for each German word."""
        return (*(tag for _, tag in self._spell().german), "PUNCT")

    @property
    def sure(self) -> tuple[tuple[int, int], ...]:
        """Links of words that translate each other: English word, German word, from 0."""
        return self._decode()[0]

    @property
    def possible(self) -> tuple[tuple[int, int], ...]:
        """All links: the sure ones, and those that one may make or leave."""
        return self._decode()[1]

    def _decode(self) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]:
        english, german, links = self._spell()
        return decode(links, encode(len(english), len(german)))

    def _key(self) -> tuple[object, ...]:
        return self.source, self.target, self.source_tags, self.target_tags, *self._decode()

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, GrammarPair) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.source, self.target))

    def __repr__(self) -> str:
        return f"GrammarPair({self.source!r}, {self.target!r})"


def _words(tokens: Tokens, mark: str) -> tuple[str, ...]:
    first = tokens[0][0]
    return first[0].upper() + first[1:], *(word for word, _ in tokens[1:]), mark


def generate(split: str = "train", *, seed: int = 1, count: int) -> Iterator[GrammarPair]:
    """``count`` distinct pairs of a split, always the same ones for the same seed.

    A shorter stream is the beginning of a longer one. No sentence of one split occurs in another, whatever the seeds.

    Raises:
        ValueError: there is no such split, or the count is negative.
        TypeError: the count is not a whole number.
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
    if not isinstance(count, int):  # pyright: ignore[reportUnnecessaryIsInstance] (callers may be untyped)
        raise TypeError(f"count must be a whole number, not {count!r}")
    if count < 0:
        raise ValueError(f"count must be at least 0, not {count}")
    return Author(Random(f"{split}:{seed}").random, get_pools(split == "test-compositional"))


def _stream(author: Author, split: str, count: int) -> Iterator[GrammarPair]:
    write, used = author.write, author.used
    held_out = author.pools.held_out
    parts = PARTS_OF_SPLITS.get(split)
    seen: set[int] = set()
    while count:
        (english, german, spelling), mark = write()
        source = _write_text(english, mark)
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
        yield GrammarPair(source, _write_text(german, mark), spelling, mark)


def _write_text(text: str, mark: str) -> str:
    text = text[0].upper() + text[1:] + mark
    return text.replace(" ,", ",") if "," in text else text
