"""Links as numbers, so that moving a phrase moves its links by one addition each.

Guideline of the links. Sure: words that translate each other; both words of an English compound and the one German
word; an English verb, its particle and the German verb with its prefix; *not* and *nicht*, *never* and *nie*, *not*
and *kein*; a preposition and the German word it went into (*im*); marks that stand for each other. Possible,
besides: an auxiliary without counterpart and the finite verb (*does*), *the* and *im*, *to* and the infinitive, a
reflexive pronoun and the verb, an article that only one side has and its noun. No link: a comma or preposition that
only one language has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_WORDS = 64
"""No sentence is as long."""
_PAIRS = tuple((code // (2 * _WORDS), code % (2 * _WORDS) // 2) for code in range(2 * _WORDS * _WORDS))


def encode(i: int, j: int, sure: bool = True) -> int:
    """The number of a link between English word ``i`` and German word ``j``. Numbers of links and offsets add up."""
    return i << 7 | j << 1 | (not sure)


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
