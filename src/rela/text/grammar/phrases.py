"""Noun phrases and prepositional phrases: words with their tags on both sides, and links."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from .german import CONTRACTIONS, MIXED, NOMINATIVE, STRONG, WEAK, decline_determiner
from .lexicon import Adjective, Noun, Tokens
from .links import encode, read_links


class Phrase(NamedTuple):
    """A finished stretch of words, each with its tag, and the links between the two sides as numbers, see `links`."""

    english: Tokens
    german: Tokens
    links: Sequence[int]


class Determiner(NamedTuple):
    """English for singular and plural (empty: no word), the German stem, and the declension of adjectives after it."""

    singular: str
    plural: str
    stem: str
    endings: tuple[tuple[str, ...], ...]
    tag: str = "DET"
    inflected: bool = True


DETERMINERS: dict[str, Determiner] = {
    "the": Determiner("the", "the", "der", WEAK),
    "a": Determiner("a", "", "ein", MIXED),
    "this": Determiner("this", "these", "dies", WEAK),
    "every": Determiner("every", "", "jed", WEAK),
    "no": Determiner("no", "no", "kein", MIXED),
    "my": Determiner("my", "my", "mein", MIXED),
    "your": Determiner("your", "your", "dein", MIXED),
    "his": Determiner("his", "his", "sein", MIXED),
    "her": Determiner("her", "her", "ihr", MIXED),
    "our": Determiner("our", "our", "unser", MIXED),
    "their": Determiner("their", "their", "ihr", MIXED),
    "which": Determiner("which", "which", "welch", WEAK),
    "some": Determiner("", "some", "einig", STRONG),
    "many": Determiner("", "many", "viel", STRONG),
    "several": Determiner("", "several", "mehrer", STRONG),
    "all": Determiner("", "all", "all", WEAK),
    "both": Determiner("", "both", "beid", WEAK),
    "two": Determiner("", "two", "zwei", STRONG, "NUM", inflected=False),
    "three": Determiner("", "three", "drei", STRONG, "NUM", inflected=False),
    "four": Determiner("", "four", "vier", STRONG, "NUM", inflected=False),
    "five": Determiner("", "five", "fünf", STRONG, "NUM", inflected=False),
    "ten": Determiner("", "ten", "zehn", STRONG, "NUM", inflected=False),
    "bare": Determiner("", "", "", STRONG),
    "not a": Determiner("a", "", "kein", MIXED),
    "not any": Determiner("any", "any", "kein", MIXED),
    "not bare": Determiner("", "", "kein", MIXED),
    "theirs": Determiner("", "", "der", WEAK),
}
"""By name. The last ones: objects under *not*; heads of a possessor in *'s*, where German sets an article of its own."""

_NAMES = tuple(DETERMINERS)
_CODES = {name: code for code, name in enumerate(_NAMES)}


class Entry(NamedTuple):
    """A noun with determiner and preposition, ready to take an adjective."""

    plain: Phrase
    english_front: Tokens
    english_noun: Tokens
    german_front: Tokens
    german_noun: Tokens
    ending: str
    links: tuple[int, ...]
    """With an adjective."""
    article: bool
    """The English front ends in *a* or *an*."""


_prepositions: dict[tuple[str, str], int] = {("", ""): 0}
_A, _AN = ("a", "DET"), ("an", "DET")


def noun_phrase(
    noun: Noun,
    number: int,
    determiner: str,
    case: int = NOMINATIVE,
    adjective: Adjective | None = None,
    preposition: tuple[str, str] = ("", ""),
) -> Phrase:
    """``preposition determiner adjective noun``. An English preposition of several words has blanks; it may be empty."""
    code = _prepositions.get(preposition)
    if code is None:
        code = _prepositions[preposition] = len(_prepositions)
    key = ((code * 32 + _CODES[determiner]) * 4 + case) * 2 + number
    entry = noun.entries.get(key)
    if entry is None:
        entry = noun.entries[key] = _enter(noun, number, DETERMINERS[determiner], case, preposition)
    if adjective is None:
        return entry.plain
    _, front, english_noun, german_front, german_noun, ending, links, article = entry
    if article:
        front = (*front[:-1], _AN if adjective.an else _A)
    return Phrase(
        (*front, adjective.token, *english_noun), (*german_front, adjective.german[ending], *german_noun), links
    )


def _enter(noun: Noun, number: int, determiner: Determiner, case: int, preposition: tuple[str, str]) -> Entry:
    gender = noun.agreement(number)
    english_word = determiner.plural if number else determiner.singular
    german_word = determiner.stem
    if determiner.inflected and determiner.stem:
        german_word = decline_determiner(determiner.stem, case, gender)
    article = english_word == "a"
    if article and noun.an:
        english_word = "an"
    english = [Word(word, "ADP", "p") for word in preposition[0].split()]
    german = [Word(word, "ADP", "p") for word in preposition[1].split()]
    if english_word:
        english.append(Word(english_word, determiner.tag, "k" if determiner in _UNDER_NOT else "d"))
    if determiner.stem == "der" and (preposition[1], german_word) in CONTRACTIONS:
        german = [Word(CONTRACTIONS[preposition[1], german_word], "ADP", "f")]
    elif german_word:
        german.append(Word(german_word, determiner.tag, "d"))
    english_noun = [Word(word, "NOUN", "n") for word in noun.english[number]]
    german_noun = [Word(noun.german[number][case], "NOUN", "n")]
    adjective = [Word("", "ADJ", "a")]
    plain = english + english_noun, german + german_noun
    return Entry(
        Phrase(_tokens(plain[0]), _tokens(plain[1]), _link(*plain)),
        _tokens(english),
        _tokens(english_noun),
        _tokens(german),
        _tokens(german_noun),
        determiner.endings[case][gender],
        _link(english + adjective + english_noun, german + adjective + german_noun),
        article,
    )


class Word(NamedTuple):
    """A word, its tag and its part: preposition p, determiner d, article under *not* k, both in one f, adjective a, noun n."""

    text: str
    tag: str
    part: str


_UNDER_NOT = [DETERMINERS["not a"], DETERMINERS["not any"]]
_LINKS = {("p", "p"): True, ("d", "d"): True, ("p", "f"): True, ("d", "f"): False, ("k", "d"): False}
_LINKS |= {("a", "a"): True, ("n", "n"): True}


def _tokens(words: list[Word]) -> Tokens:
    return tuple((word.text, word.tag) for word in words)


def _link(english: list[Word], german: list[Word]) -> tuple[int, ...]:
    return _link_parts("".join([word.part for word in english]), "".join([word.part for word in german]))


@cache
def _link_parts(english: str, german: str) -> tuple[int, ...]:
    own, foreign = set(english), set(german)
    links = dict(_LINKS)
    if not own & {"d", "k"}:
        links["n", "d"] = links["n", "f"] = False
    if not foreign & {"p", "f"}:  # the *to* of "to the man" is in the case of "dem Mann"
        links["p", "d" if "d" in foreign else "n"] = False
    return tuple(
        encode(i, j, links[first, second])
        for i, first in enumerate(english)
        for j, second in enumerate(german)
        if (first, second) in links
    )


def fixed(english: str, german: str, tags: str, german_tags: str, sure: str = "", possible: str = "") -> Phrase:
    """A phrase that does not inflect; links as ``i-j`` between blanks."""
    own = tuple(zip(english.split(), tags.split(), strict=True))
    foreign = tuple(zip(german.split(), german_tags.split(), strict=True))
    return Phrase(own, foreign, read_links(sure, possible))


def join(*phrases: Phrase) -> Phrase:
    """Phrases one after the other, in the same order on both sides."""
    english, german, first = phrases[0]
    links = list(first)
    for own, foreign, more in phrases[1:]:
        offset = len(english) << 7 | len(german) << 1
        links += [link + offset for link in more]
        english += own
        german += foreign
    return Phrase(english, german, links)


def join_crosswise(first: Phrase, second: Phrase) -> Phrase:
    """Two phrases that German has in the opposite order."""
    right, down = len(second.german) << 1, len(first.english) << 7
    links = [link + right for link in first.links] + [link + down for link in second.links]
    return Phrase(first.english + second.english, second.german + first.german, links)


NOTHING = fixed("", "", "", "")
