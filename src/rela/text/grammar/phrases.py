"""Phrases: text on both sides, and a way to words, tags and links. Noun phrases are built once and remembered."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

from .german import CONTRACTIONS, MIXED, NOMINATIVE, STRONG, WEAK, decline_determiner
from .lexicon import Adjective, Noun, Tokens
from .links import encode, read_links
from .spelling import Crossed, Joined, Spelled, Spelling


class Phrase(NamedTuple):
    """A finished stretch of text on both sides; its marks stand between blanks, too."""

    english: str
    german: str
    spelling: Spelling


make_phrase: Callable[[Any], Phrase] = partial(tuple.__new__, Phrase)
"""`Phrase` of a tuple, three times as fast as the class itself."""

DEFINITE, PRONOUN, INDEFINITE = range(3)
"""What an object is: German has pronouns early, indefinite objects after the negation."""


class Preposition(NamedTuple):
    """English (several words have blanks between them) and German; either may be empty."""

    english: str
    german: str
    code: int


_prepositions: dict[tuple[str, str], Preposition] = {}


def preposition(english: str, german: str) -> Preposition:
    """The one preposition of these words."""
    return _prepositions.setdefault((english, german), Preposition(english, german, len(_prepositions)))


NO_PREPOSITION = preposition("", "")


class Determiner(NamedTuple):
    """A determiner, with English for singular and plural (empty: no word) and the German stem.

    ``endings`` are those of an adjective after it, ``what`` says whether it makes a noun phrase definite, ``under_not``
    that it is there for the *not* of the clause, which becomes *kein*.
    """

    singular: str
    plural: str
    stem: str
    endings: tuple[tuple[str, ...], ...]
    what: int
    tag: str = "DET"
    under_not: bool = False
    code: int = 0


_DETERMINERS: dict[str, Determiner] = {
    "the": Determiner("the", "the", "der", WEAK, DEFINITE),
    "a": Determiner("a", "", "ein", MIXED, INDEFINITE),
    "this": Determiner("this", "these", "dies", WEAK, DEFINITE),
    "every": Determiner("every", "", "jed", WEAK, INDEFINITE),
    "no": Determiner("no", "no", "kein", MIXED, INDEFINITE),
    "my": Determiner("my", "my", "mein", MIXED, DEFINITE),
    "your": Determiner("your", "your", "dein", MIXED, DEFINITE),
    "his": Determiner("his", "his", "sein", MIXED, DEFINITE),
    "her": Determiner("her", "her", "ihr", MIXED, DEFINITE),
    "our": Determiner("our", "our", "unser", MIXED, DEFINITE),
    "their": Determiner("their", "their", "ihr", MIXED, DEFINITE),
    "which": Determiner("which", "which", "welch", WEAK, INDEFINITE),
    "some": Determiner("", "some", "einig", STRONG, INDEFINITE),
    "many": Determiner("", "many", "viel", STRONG, INDEFINITE),
    "several": Determiner("", "several", "mehrer", STRONG, INDEFINITE),
    "all": Determiner("", "all", "all", WEAK, DEFINITE),
    "both": Determiner("", "both", "beid", WEAK, DEFINITE),
    "two": Determiner("", "two", "zwei", STRONG, INDEFINITE, "NUM"),
    "three": Determiner("", "three", "drei", STRONG, INDEFINITE, "NUM"),
    "four": Determiner("", "four", "vier", STRONG, INDEFINITE, "NUM"),
    "five": Determiner("", "five", "fünf", STRONG, INDEFINITE, "NUM"),
    "ten": Determiner("", "ten", "zehn", STRONG, INDEFINITE, "NUM"),
    "bare": Determiner("", "", "", STRONG, INDEFINITE),
    "not a": Determiner("a", "", "kein", MIXED, DEFINITE, under_not=True),
    "not any": Determiner("any", "any", "kein", MIXED, DEFINITE, under_not=True),
    "not bare": Determiner("", "", "kein", MIXED, DEFINITE, under_not=True),
    "theirs": Determiner("", "", "der", WEAK, DEFINITE),
}
"""By name. The last one: heads of a possessor in *'s*, where German sets an article of its own."""
DETERMINERS = {name: determiner._replace(code=code) for code, (name, determiner) in enumerate(_DETERMINERS.items())}


class Nominal(NamedTuple):
    """A phrase in the place of a noun phrase, and what the rest of the clause must know of it."""

    phrase: Phrase
    person: int
    what: int
    noun: Noun | None = None
    number: int = 0
    determiner: Determiner | None = None


make_nominal: Callable[[Any], Nominal] = partial(tuple.__new__, Nominal)
NO_NOMINAL = Nominal(Phrase("", "", Spelled((), (), ())), 2, DEFINITE)


class Entry(NamedTuple):
    """A noun with determiner and preposition: without adjective, and ready to take one.

    ``front`` comes before the adjective; ``english`` and ``german`` are the texts of the noun after it.
    """

    plain: Nominal
    front: _Front
    english: str
    german: str
    ending: str


class _Spelling(NamedTuple):
    """The spelling of a noun phrase."""

    front: _Front
    noun: Noun
    number: int
    case: int

    def spell(self) -> Spelled:
        """Front and noun."""
        front, noun = self.front, self.noun
        english, german = noun.english_tokens[self.number], noun.german_tokens[self.number][self.case]
        links = _link(front.english_parts + "n" * len(english), front.german_parts + "n")
        return Spelled(front.english + english, front.german + german, links)

    def spell_with(self, adjective: Adjective, ending: str) -> Spelled:
        """The adjective between front and noun."""
        own, foreign = self.front, adjective.german[ending]
        english, german = self.noun.english_tokens[self.number], self.noun.german_tokens[self.number][self.case]
        front = (*own.english[:-1], _AN if adjective.an else _A) if own.article else own.english
        links = _link(f"{own.english_parts}a{'n' * len(english)}", own.german_parts + "an")
        return Spelled((*front, adjective.token, *english), (*own.german, foreign, *german), links)


class _Described(NamedTuple):
    """The spelling of a noun phrase with an adjective."""

    plain: _Spelling
    adjective: Adjective
    ending: str

    def spell(self) -> Spelled:
        """The adjective between front and noun."""
        return self.plain.spell_with(self.adjective, self.ending)


def get_entry(noun: Noun, number: int, determiner: Determiner, case: int, before: Preposition) -> Entry:
    """Built on first use."""
    key = ((before.code * 32 + determiner.code) * 4 + case) * 2 + number
    entry = noun.entries.get(key)
    if entry is None:
        entry = noun.entries[key] = _enter(noun, number, determiner, case, before)
    return entry


_A, _AN = ("a", "DET"), ("an", "DET")


def add_adjective(entry: Entry, adjective: Adjective) -> Phrase:
    """The noun phrase of an entry with an adjective in it."""
    plain, front, english, german, ending = entry
    return make_phrase((
        f"{front.before_adjective}{adjective.with_article if front.article else adjective.english} {english}",
        f"{front.german_text}{adjective.german[ending][0]} {german}",
        _make_described((plain.phrase.spelling, adjective, ending)),
    ))  # fmt: skip


_make_described: Callable[[Any], _Described] = partial(tuple.__new__, _Described)


def noun_phrase(
    noun: Noun,
    number: int,
    determiner: Determiner,
    case: int = NOMINATIVE,
    adjective: Adjective | None = None,
    before: Preposition = NO_PREPOSITION,
) -> Phrase:
    """``preposition determiner adjective noun``."""
    entry = get_entry(noun, number, determiner, case, before)
    return add_adjective(entry, adjective) if adjective else entry.plain.phrase


class _Front(NamedTuple):
    """What comes before the adjective, on both sides: words, their tags and parts.

    Parts are preposition p, determiner d, article under *not* k, preposition and article in one f; further on,
    adjective a and noun n.
    """

    english: Tokens
    german: Tokens
    english_parts: str
    german_parts: str
    article: bool
    """The English front ends in *a* or *an*."""
    english_text: str
    german_text: str
    before_adjective: str
    """The English text without such an article: the adjective decides about it."""


_TAGS = {"front": "NOUN", "next": "ADV"}
"""Words of English prepositions that are no prepositions themselves."""


@cache
def _make_front(determiner: Determiner, number: int, gender: int, case: int, before: Preposition, an: bool) -> _Front:
    english_word = determiner.plural if number else determiner.singular
    german_word = determiner.stem
    if determiner.stem and determiner.tag == "DET":
        german_word = decline_determiner(determiner.stem, case, gender)
    article = english_word == "a"
    if article and an:
        english_word = "an"
    own, foreign = before.english.split(), before.german.split()
    english, english_parts = [(word, _TAGS.get(word, "ADP")) for word in own], "p" * len(own)
    german, german_parts = [(word, "ADP") for word in foreign], "p" * len(foreign)
    if english_word:
        english.append((english_word, determiner.tag))
        english_parts += "k" if determiner.under_not else "d"
    if determiner.stem == "der" and (before.german, german_word) in CONTRACTIONS:
        german, german_parts = [(CONTRACTIONS[before.german, german_word], "ADP")], "f"
    elif german_word:
        german.append((german_word, determiner.tag))
        german_parts += "d"
    texts = [
        "".join([word + " " for word, _ in side]) for side in (english, german, english[:-1] if article else english)
    ]
    return _Front(tuple(english), tuple(german), english_parts, german_parts, article, *texts)


def _enter(noun: Noun, number: int, determiner: Determiner, case: int, before: Preposition) -> Entry:
    gender = noun.agreement(number)
    front = _make_front(determiner, number, gender, case, before, noun.an)
    english, german = noun.english_texts[number], noun.german[number][case]
    spelling = _Spelling(front, noun, number, case)
    plain = make_phrase((front.english_text + english, front.german_text + german, spelling))
    nominal = make_nominal((plain, 5 if number else 2, determiner.what, noun, number, determiner))
    return Entry(nominal, front, english, german, determiner.endings[case][gender])


_LINKS = {
    ("p", "p"): True, ("d", "d"): True, ("p", "f"): True, ("d", "f"): False, ("k", "d"): False, ("a", "a"): True,
    ("n", "n"): True,
}  # fmt: skip


@cache
def _link(english: str, german: str) -> tuple[int, ...]:
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
    return Phrase(english, german, Spelled(own, foreign, read_links(sure, possible)))


def join(*phrases: Phrase) -> Phrase:
    """Phrases one after the other, in the same order on both sides."""
    english, german, spellings = zip(*phrases)  # noqa: B905 (strict costs time)
    return make_phrase((" ".join(filter(None, english)), " ".join(german), Joined(spellings)))


def join_crosswise(first: Phrase, second: Phrase) -> Phrase:
    """Two phrases that German has in the opposite order."""
    return Phrase(
        f"{first.english} {second.english}",
        f"{second.german} {first.german}",
        Crossed(first.spelling, second.spelling),
    )


NOTHING = NO_NOMINAL.phrase
