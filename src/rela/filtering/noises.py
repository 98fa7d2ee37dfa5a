"""Ways to spoil a sentence pair on purpose, by seed: what quality is learned from, and what scores are measured with.

All of them change the target alone. Words here are what stands between blanks, so that a spoiled text looks like the
text it was made of.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

Generator = np.random.Generator
Pair = tuple[str, str]

MOST_ADDED: Final = 4
"""Words that an insertion adds at most."""

NUMBER_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "en": ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    "de": ("zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn"),
    "fr": ("deux", "trois", "quatre", "cinq", "six", "sept", "huit", "neuf", "dix"),
    "cs": ("dva", "tři", "čtyři", "pět", "šest", "sedm", "osm", "devět", "deset"),
}
"""Words for 2 to 10, by language: those of captions have more of them than digits."""

_MOST_DIGITS: Final = 15
"""Of a longer number, only so many of the last digits are changed."""
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"


class Noisy(NamedTuple):
    """A spoiled pair, and the place of the pair that it was made of."""

    place: int
    source: str
    target: str


@dataclass(frozen=True)
class Material:
    """The pairs to spoil, what language their targets have, and sentences of another language, if there are any."""

    pairs: Sequence[Pair]
    language: str | None = None
    foreign: Sequence[str] | None = None

    def other(self, place: int, generator: Generator) -> int:
        """The place of any other pair."""
        found = int(generator.integers(len(self.pairs) - 1))
        return found + (found >= place)


def make_noise(kind: str, material: Material, seed: int) -> list[Noisy]:
    """Each pair spoiled in one way. Pairs that cannot be, or that would stay as they are, are left out.

    What becomes of a pair follows from the seed, the kind and the pair's place.
    """
    if kind not in NOISES:
        raise ValueError(f"noise: expected one of {', '.join(NOISES)}, got {kind!r}")
    if len(material.pairs) < 2:
        raise ValueError(f"expected at least 2 pairs to make noise of, got {len(material.pairs)}")
    spoil = NOISES[kind].spoil
    found: list[Noisy] = []
    for place, (source, target) in enumerate(material.pairs):
        generator = np.random.default_rng((seed, zlib.crc32(kind.encode()), place))
        spoiled = spoil(material, place, generator)
        if spoiled is not None and spoiled.strip() and spoiled != target:
            found.append(Noisy(place, source, spoiled))
    return found


def _shuffled(material: Material, place: int, generator: Generator) -> str:
    return material.pairs[material.other(place, generator)][1]


def _wrong_language(material: Material, place: int, generator: Generator) -> str:
    if material.foreign is None:
        return material.pairs[material.other(place, generator)][0]
    return material.foreign[place % len(material.foreign)]


def _insertion(material: Material, place: int, generator: Generator) -> str | None:
    """Words of another target: as many as they replace, or at most MOST_ADDED that are added."""
    words = material.pairs[place][1].split()
    other = material.pairs[material.other(place, generator)][1].split()
    replaces = bool(generator.integers(2))
    most = min(len(other), len(words) // 2 if replaces else MOST_ADDED)
    if most < 2:
        return None
    size = int(generator.integers(2, most + 1))
    taken = int(generator.integers(len(other) - size + 1))
    start = int(generator.integers(len(words) - size + 1)) if replaces else int(generator.integers(len(words) + 1))
    return " ".join([*words[:start], *other[taken : taken + size], *words[start + size * replaces :]])


def _appended(material: Material, place: int, generator: Generator) -> str:
    return f"{material.pairs[place][1]} {_shuffled(material, place, generator)}"


def _omission(material: Material, place: int, generator: Generator) -> str | None:
    """A quarter to a half of the words are gone, side by side."""
    words = material.pairs[place][1].split()
    least, most = max(2, len(words) // 4), len(words) // 2
    if most < least:
        return None
    size = int(generator.integers(least, most + 1))
    start = int(generator.integers(len(words) - size + 1))
    return " ".join(words[:start] + words[start + size :])


def _salad(material: Material, place: int, generator: Generator) -> str:
    """As many words, each of any target."""
    count = len(material.pairs[place][1].split())
    chosen: list[str] = []
    for _ in range(count):
        words = material.pairs[material.other(place, generator)][1].split()
        chosen.append(words[int(generator.integers(len(words)))])
    return " ".join(chosen)


def _copied(material: Material, place: int, _: Generator) -> str:
    return material.pairs[place][0]


def _numbers(material: Material, place: int, generator: Generator) -> str | None:
    """Another number in the place of one of the target's: in digits, or a word for 2 to 10."""
    target = material.pairs[place][1]
    words = NUMBER_WORDS.get(material.language or "", ())
    found = [match.span() for match in re.finditer("|".join([r"\d+", *(rf"\b{w}\b" for w in words)]), target, re.I)]
    if not found:
        return None
    start, end = found[int(generator.integers(len(found)))]
    old = target[start:end]
    if old[0].isdigit():
        kept, old = old[:-_MOST_DIGITS], old[-_MOST_DIGITS:]
        added = int(generator.integers(1, 9 * 10 ** (len(old) - 1) + 1))
        new = kept + str((int(old) + added) % 10 ** len(old)).zfill(len(old))
    else:
        others = [word for word in words if word != old.casefold()]
        new = others[int(generator.integers(len(others)))]
        new = new.capitalize() if old[0].isupper() else new
    return target[:start] + new + target[end:]


def _misordered(material: Material, place: int, generator: Generator) -> str | None:
    """Its own words in another order."""
    words = material.pairs[place][1].split()
    if len(set(words)) < 2:
        return None
    order = generator.permutation(len(words))
    while all(words[old] == word for old, word in zip(order, words, strict=True)):
        order = generator.permutation(len(words))
    return " ".join(words[old] for old in order)


def _misspelled(material: Material, place: int, generator: Generator) -> str | None:
    """A letter swapped, lost, doubled or exchanged in three of ten words, or at least in one."""
    words = material.pairs[place][1].split()
    long = [number for number, word in enumerate(words) if len(word) > 3]
    if not long:
        return None
    chosen = [number for number in long if generator.random() < 0.3] or [long[int(generator.integers(len(long)))]]
    for number in chosen:
        word = words[number]
        at = int(generator.integers(1, len(word) - 1))
        how = int(generator.integers(4))
        if how == 0:
            words[number] = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
        elif how == 1:
            words[number] = word[:at] + word[at + 1 :]
        elif how == 2:
            words[number] = word[: at + 1] + word[at:]
        else:
            words[number] = word[:at] + _LETTERS[int(generator.integers(len(_LETTERS)))] + word[at + 1 :]
    return " ".join(words)


@dataclass(frozen=True)
class Noise:
    """A way to spoil a pair: what it does in words, and the function that does it."""

    meaning: str
    spoil: Callable[[Material, int, Generator], str | None]


NOISES: Final[dict[str, Noise]] = {
    "shuffled": Noise("the target of another pair", _shuffled),
    "wrong-language": Noise("a sentence of another language", _wrong_language),
    "insertion": Noise("a span of another target in place of one as long, or at most 4 words of it added", _insertion),
    "appended": Noise("another target behind the target", _appended),
    "omission": Noise("a quarter to a half of the words left out, side by side", _omission),
    "word-salad": Noise("as many words, each of any target", _salad),
    "copied": Noise("the source itself", _copied),
    "number": Noise("another number in the place of one", _numbers),
    "misordered": Noise("its own words in another order", _misordered),
    "misspelling": Noise("wrong letters in three of ten words", _misspelled),
}
"""All kinds by name, in the order of the tables."""


def mix_noise(material: Material, share: float, kinds: Sequence[str], seed: int) -> tuple[list[Pair], list[str | None]]:
    """The pairs with a share of them spoiled, each in one of these ways by chance; and how each was, None if not.

    A pair that cannot be spoiled in the way that was drawn is spoiled in the next one that is possible.
    """
    made = {kind: {noisy.place: noisy.target for noisy in make_noise(kind, material, seed)} for kind in kinds}
    generator = np.random.default_rng((seed, len(material.pairs)))
    pairs: list[Pair] = []
    how: list[str | None] = []
    for place, (source, target) in enumerate(material.pairs):
        order = generator.permutation(len(kinds)) if generator.random() < share else ()
        kind = next((kinds[int(number)] for number in order if place in made[kinds[int(number)]]), None)
        pairs.append((source, target if kind is None else made[kind][place]))
        how.append(kind)
    return pairs, how
