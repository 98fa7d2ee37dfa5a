"""Spelling: the words of a phrase with their tags, and the links between the two sides, worked out when asked for.

Most users of the corpus want text. A phrase has its text at once, and of the rest it only notes how it follows from
its parts, which costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from .lexicon import Tokens


class Spelled(NamedTuple):
    """The words of both sides, each with its tag, and the links as numbers, see `links`."""

    english: Tokens
    german: Tokens
    links: Sequence[int]

    def spell(self) -> Spelled:
        """Itself."""
        return self


class Spelling(Protocol):
    """A way to words, tags and links."""

    def spell(self) -> Spelled:
        """Words, tags and links."""
        ...


class Joined(tuple[Spelling, ...]):
    """Parts one after the other, in the same order on both sides."""

    __slots__ = ()

    def spell(self) -> Spelled:
        """One after the other."""
        english: Tokens = ()
        german: Tokens = ()
        links: list[int] = []
        for part in self:
            own, foreign, some = part.spell()
            offset = len(english) << 7 | len(german) << 1
            links += [code + offset for code in some]
            english += own
            german += foreign
        return Spelled(english, german, links)


class Crossed(NamedTuple):
    """Two parts that German has in the opposite order."""

    first: Spelling
    second: Spelling

    def spell(self) -> Spelled:
        """German of the second part first."""
        first, second = self.first.spell(), self.second.spell()
        down, along = len(second.german) << 1, len(first.english) << 7
        links = [code + down for code in first.links] + [code + along for code in second.links]
        return Spelled(first.english + second.english, second.german + first.german, links)
