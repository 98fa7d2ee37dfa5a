"""Where blanks stand between the words of a tokenised line, if it is to read like raw text (detokenising).

The rules are those of English and German, and hold for most languages that have blanks between words: signs that close
stand at the word before them, signs that open at the word after them, and marks that look alike on both sides open and
close in turn. A blank too many or too few where a line does not tell costs a model little. Before ``%`` the blank
stays: German has one there and English has none.
"""

# ruff: noqa: RUF001 (the marks of several languages look alike, and are meant)

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_CLOSING: Final = re.compile(r"[,;:!?.…)\]}»”›]+|''")
"""Stands at the word before it: one sign or several, such as ``...`` and ``?!``."""

_OPENING: Final = re.compile(r"[(\[{«„‚‹¿¡]+|``")
"""Stands at the word after it."""

_IN_TURN: Final = {'"': '"', "'": "'", "“": "”", "‘": "’"}
"""Marks that open, and what closes them. German closes ``„`` with what opens in English."""

_LOW: Final = {"„": "“", "‚": "‘"}

_ENDING: Final = re.compile(r"(?:n['’]t|['’](?:s|re|ve|ll|d|m))", re.IGNORECASE)
"""What tokenisers of English part from a word."""

_ELIDED: Final = re.compile(r"(?:[a-z]|qu|[dn]ell|[ds]all|sull|all)", re.IGNORECASE)
"""What stands before an apostrophe that stands for a vowel, as in ``Dell ' Alba`` and ``O ' Neill``."""

_APOSTROPHES: Final = ("'", "’")


def blanks_between(words: Sequence[str]) -> list[str]:
    """What stands before each word, and after the last: a blank or nothing."""
    blanks: list[str] = [""] if words else []
    opened: list[str] = []  # what would close the marks that are open
    joins = True  # whether the next word stands at this one
    for place in range(len(words)):
        left, right = _sides(words, place, opened)
        if place:
            blanks.append("" if joins or left else " ")
        joins = right
    return [*blanks, ""]


def _sides(words: Sequence[str], place: int, opened: list[str]) -> tuple[bool, bool]:
    """Whether a word stands at the one before it, and at the one after it; keeps account of the open marks."""
    word = words[place]
    before = words[place - 1] if place else ""
    after = words[place + 1] if place + 1 < len(words) else ""
    if opened and word == opened[-1]:
        opened.pop()
        return True, False
    if word in _LOW:
        opened.append(_LOW[word])
        return False, True
    if word in _APOSTROPHES and _ELIDED.fullmatch(before) and after[:1].isalpha():
        return True, True
    if word in _IN_TURN:
        if not after or _CLOSING.fullmatch(after) or (word == "'" and _is_plural_owner(words, place)):
            return True, False  # it closes what another line opened, or belongs to no pair
        opened.append(_IN_TURN[word])
        return False, True
    if word == "/":
        joined = before[-1:].isalnum() and after[:1].isalnum()
        return joined, joined
    ends = _ENDING.fullmatch(word) and before[-1:].isalnum()
    part = word[:1] == "-" and word[1:2].isalpha() and (before[-1:].isdigit() or before.isupper())  # CO2 -Emissionen
    left = bool(ends or part or word == "’" or _CLOSING.fullmatch(word))
    right = bool(_OPENING.fullmatch(word)) or (
        word[-1:] in _APOSTROPHES and bool(_ELIDED.fullmatch(word[:-1])) and after[:1].isalpha()
    )
    return left, right


def _is_plural_owner(words: Sequence[str], place: int) -> bool:
    """Whether an apostrophe is that of ``members ' rights``: after an s, and without another to close it."""
    return place > 0 and words[place - 1][-1:] in ("s", "S") and "'" not in words[place + 1 :]
