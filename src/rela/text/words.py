"""Words of raw text, and which subword pieces belong to which word. The one place where words come from."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final, NamedTuple

_MARK: Final = "\u0300"
_JOINERS: Final = "\u200c\u200d"  # zero-width, inside words of Persian and of the scripts of India
_WORD: Final = re.compile(r"\w[\w\u0300]*(?:['\u2019\-.]\w[\w\u0300]*)*|[^\w\s]\u0300*")
"""Letters and digits, joined by single apostrophes, hyphens or points inside; any other sign on its own."""


class Span(NamedTuple):
    """Characters ``start`` to ``end`` (exclusive) of a text."""

    start: int
    end: int


def split_words(text: str) -> list[Span]:
    """Our own word split of raw text: punctuation stands on its own, ``don't`` and ``3.5`` are one word.

    >>> [text[a:b] for a, b in split_words(text := "Das Haus, don't!")]
    ['Das', 'Haus', ',', "don't", '!']
    """
    # For the module re, vowel signs and accents that are characters of their own are no letters: one stands for all.
    plain = text if text.isascii() else text.translate(_MARKS)
    return [Span(*match.span()) for match in _WORD.finditer(plain)]


class _Marks(dict[int, int]):
    """Each character's number, or that of the mark which stands for all; filled as they are met."""

    def __missing__(self, number: int) -> int:
        sign = chr(number)
        is_mark = unicodedata.category(sign)[0] == "M" or sign in _JOINERS
        return self.setdefault(number, ord(_MARK) if is_mark else number)


_MARKS: Final = _Marks()


def blank_separated(text: str) -> list[Span]:
    """The words of a text that is tokenised already: what stands between blanks."""
    return [Span(*match.span()) for match in re.finditer(r"\S+", text)]


def word_texts(text: str, words: Sequence[Span]) -> list[str]:
    """The words themselves."""
    return [text[start:end] for start, end in words]


def pieces_of_words(pieces: Sequence[Span], words: Sequence[Span]) -> list[list[int]]:
    """For each word the pieces that it shares a character with. A word may have none: unknown characters."""
    found: list[list[int]] = [[] for _ in words]
    first, count = 0, len(words)
    for piece, (start, end) in enumerate(pieces):
        while first < count and words[first][1] <= start:
            first += 1
        index = first
        while index < count and words[index][0] < end and start < end:
            word_start, word_end = words[index]
            if word_start < word_end:
                found[index].append(piece)
            if word_end >= end:
                break  # the usual case: a piece of one word
            index += 1
    return found
