"""Links as numbers, so that moving a phrase moves its links by one addition each; and links to be worked out later.

Most users of the corpus want text. A phrase of phrases only notes how its links follow from those of its parts, which
costs next to nothing; they are worked out for the whole sentence when somebody asks.

Guideline of the links. Sure: words that translate each other; both words of an English compound and the one German
word; an English verb, its particle and the German verb with its prefix; *not* and *nicht*, *never* and *nie*, *not*
and *kein*; a preposition and the German word it went into (*im*); marks that stand for each other. Possible,
besides: an auxiliary without counterpart and the finite verb (*does*), *the* and *im*, *to* and the infinitive, a
reflexive pronoun and the verb, an article that only one side has and its noun. No link: a comma or preposition that
only one language has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

_WORDS = 64
"""No sentence is as long."""
_PAIRS = tuple((code // (2 * _WORDS), code % (2 * _WORDS) // 2) for code in range(2 * _WORDS * _WORDS))


def encode(i: int, j: int, sure: bool = True) -> int:
    """The number of a link between English word ``i`` and German word ``j``. Numbers of links and offsets add up."""
    return i << 7 | j << 1 | (not sure)


@runtime_checkable
class LaterLinks(Protocol):
    """How links follow from those of parts."""

    def parts(self) -> Iterable[tuple[int, Links]]:
        """The links of each part, and the number by which they move."""
        ...


Links = Sequence[int] | LaterLinks
"""Links as numbers, or a way to them."""


class Moved(tuple[tuple[int, Links], ...]):
    """Links of parts whose places are known: pairs of a number to add and links."""

    __slots__ = ()

    def parts(self) -> Iterable[tuple[int, Links]]:
        """Itself."""
        return self


def work_out(links: Links) -> list[int]:
    """All links as numbers."""
    found: list[int] = []
    waiting: list[tuple[int, Links]] = [(0, links)]
    while waiting:
        offset, some = waiting.pop()
        if isinstance(some, LaterLinks):
            waiting += [(offset + move, part) for move, part in some.parts()]
        else:
            found += [code + offset for code in some]
    return found


def decode(codes: Sequence[int], last: int) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]:
    """Sure links, and possible links, which include them, each in order; ``last`` is the link of the final marks."""
    ordered = sorted(codes)
    ordered.append(last)
    pairs = _PAIRS
    return tuple([pairs[code] for code in ordered if not code & 1]), tuple([pairs[code] for code in ordered])


def read_links(sure: str, possible: str = "") -> tuple[int, ...]:
    """Links written as ``i-j`` between blanks."""
    return (*_read(sure, True), *_read(possible, False))


def _read(text: str, sure: bool) -> Iterable[int]:
    for link in text.split():
        i, _, j = link.partition("-")
        yield encode(int(i), int(j), sure)
