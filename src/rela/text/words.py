"""Words of raw text, and which subword pieces belong to which word. The one place where words come from."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

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


def words_of_pieces(pieces: Sequence[Sequence[Span]], words: Sequence[Sequence[Span]]) -> NDArray[np.int64]:
    """For each piece of many sentences, one after the other, the word in which it ends; -1 if that is none.

    Where no piece reaches across words, as with our subwords, this is :func:`pieces_of_words` the other way round,
    without a loop over pieces.
    """
    ends = np.array([end for sentence in pieces for _, end in sentence], np.int64)
    starts = np.array([start for sentence in pieces for start, _ in sentence], np.int64)
    spans = np.array([span for sentence in words for span in sentence], np.int64).reshape(-1, 2)
    # Sentences are put far apart on one line, so that a single search finds the words of all.
    far = 2 + max(int(ends.max(initial=0)), int(spans.max(initial=0)))
    piece_sentence = np.repeat(np.arange(len(pieces)), [len(sentence) for sentence in pieces])
    word_counts = np.array([len(sentence) for sentence in words], np.int64)
    word_sentence = np.repeat(np.arange(len(words)), word_counts)
    last = ends - 1 + piece_sentence * far
    found = np.searchsorted(spans[:, 0] + word_sentence * far, last, side="right") - 1
    inside = (found >= 0) & (starts < ends)
    if len(spans):
        inside &= last < (spans[:, 1] + word_sentence * far)[found]
    first_word = np.concatenate([[0], np.cumsum(word_counts)])[:-1]
    return np.where(inside, found - (first_word[piece_sentence] if len(words) else 0), -1)
