"""Words of raw text, and which subword pieces belong to which word. The one place where words come from."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final, NamedTuple

_WORD = re.compile(r"\w+(?:['\u2019\-.]\w+)*|[^\w\s]")
"""Letters and digits, joined by single apostrophes, hyphens or points inside; any other sign on its own."""

_JOINERS: Final = "\u200c\u200d"  # zero-width, inside words of Persian and of the scripts of India


class Span(NamedTuple):
    """Characters ``start`` to ``end`` (exclusive) of a text."""

    start: int
    end: int


def split_words(text: str) -> list[Span]:
    """Our own word split of raw text: punctuation stands on its own, ``don't`` and ``3.5`` are one word.

    >>> [text[a:b] for a, b in split_words(text := "Das Haus, don't!")]
    ['Das', 'Haus', ',', "don't", '!']
    """
    words: list[Span] = []
    for match in _WORD.finditer(text):
        start, end = match.span()
        follows = bool(words) and words[-1].end == start
        if follows and (_is_mark(text[start]) or (_is_mark(text[start - 1]) and _is_letter(text[start]))):
            words[-1] = Span(words[-1].start, end)  # vowel signs and accents belong to their letters
        else:
            words.append(Span(start, end))
    return words


def _is_mark(character: str) -> bool:
    return unicodedata.category(character)[0] == "M" or character in _JOINERS


def _is_letter(character: str) -> bool:
    return character.isalnum() or character == "_"


def blank_separated(text: str) -> list[Span]:
    """The words of a text that is tokenised already: what stands between blanks."""
    return [Span(*match.span()) for match in re.finditer(r"\S+", text)]


def word_texts(text: str, words: Sequence[Span]) -> list[str]:
    """The words themselves."""
    return [text[start:end] for start, end in words]


def words_of_pieces(pieces: Sequence[Span], words: Sequence[Span]) -> list[list[int]]:
    """For each piece the words that it shares a character with: none (a blank), one, or several (it straddles).

    Both lists are in the order of the text, and words do not overlap.
    """
    found: list[list[int]] = []
    first = 0
    for piece in pieces:
        while first < len(words) and words[first].end <= piece.start:
            first += 1
        index, touched = first, list[int]()
        while index < len(words) and words[index].start < piece.end:
            if max(words[index].start, piece.start) < min(words[index].end, piece.end):
                touched.append(index)
            index += 1
        found.append(touched)
    return found


def pieces_of_words(pieces: Sequence[Span], words: Sequence[Span]) -> list[list[int]]:
    """For each word the pieces that it shares a character with. A word may have none: unknown characters."""
    found: list[list[int]] = [[] for _ in words]
    for piece, touched in enumerate(words_of_pieces(pieces, words)):
        for word in touched:
            found[word].append(piece)
    return found
