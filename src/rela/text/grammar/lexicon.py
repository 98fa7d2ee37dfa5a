"""The lexicon as objects: nouns, verbs and adjectives read from their tables, with all forms worked out."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from .adjectives import ADJECTIVES, DOMAINS, UNFIT
from .english import EnglishVerb, takes_an, with_s
from .german import GENDERS, PLURAL, Conjugation, decline_noun
from .nouns import NOUNS, UNIONS
from .verbs import VERBS

if TYPE_CHECKING:
    from .complexes import Complex
    from .phrases import Entry

Words = tuple[str, ...]
Token = tuple[str, str]
"""A word and its tag."""
Tokens = tuple[Token, ...]


_KINDS = {"own": 0, "public": 2, "kin": 4, "mass": 6}
_PUBLIC = frozenset({"person", "building", "outdoors", "spot", "plant"})
_ONLY = frozenset({"mother", "father", "boss"})
"""People have one of them: *the mothers*, but not *my mothers*."""
_ADJECTIVAL = frozenset({"old_town", "red_wine", "main_street", "front_door"})
"""Compounds whose first word is an adjective."""
_PREPOSITIONS = frozenset({"for", "to"})
"""Last words of fixed verbs that are no particles: *look for him*, but *pick him up*."""


class Noun:
    """One noun in both languages.

    ``english`` and ``german`` are by number (0 singular, 1 plural), and so are ``kinds``: which determiners it takes,
    see `nominals`. ``entries`` remembers the noun phrases that were built.
    """

    __slots__ = (
        "adjectives", "an", "cls", "english", "english_texts", "english_tokens", "entries", "gender", "german",
        "german_tokens", "human", "key", "kinds", "mass",
    )  # fmt: skip

    def __init__(self, cls: str, line: str) -> None:
        left, right = (side.strip() for side in line.split("|"))
        singular, _, plural = left.partition("/")
        gender, word, genitive, many = right.split()
        self.key = singular
        self.cls = cls
        self.human = cls in {"person", "kin"}
        self.mass = many == "-"
        kind = "mass" if self.mass else cls if cls == "kin" else "public" if cls in _PUBLIC else "own"
        self.kinds = (_KINDS[kind], _KINDS["public" if self.key in _ONLY else kind] + 1)
        self.gender = GENDERS.index(gender)
        self.german = decline_noun(word, genitive, many)
        one = tuple(singular.split("_"))
        self.english = (one, tuple(plural.split("_")) if plural else (*one[:-1], with_s(one[-1])))
        tags = ("ADJ", "NOUN") if singular in _ADJECTIVAL else ("NOUN",) * len(one)
        self.english_tokens = tuple(tuple(zip(words, tags, strict=False)) for words in self.english)  # "-"
        self.english_texts = tuple(" ".join(words) for words in self.english)
        self.german_tokens = tuple(tuple(((word, "NOUN"),) for word in forms) for forms in self.german)
        self.an = takes_an(one[0])
        self.adjectives: tuple[Adjective, ...] = ()
        self.entries: dict[int, Entry] = {}

    def agreement(self, number: int) -> int:
        """The column of the tables of endings."""
        return PLURAL if number else self.gender


class Adjective:
    """One adjective; ``german`` holds the attributive form for each ending."""

    __slots__ = (
        "_domains", "_unfit", "an", "comparative", "english", "german", "german_comparative", "predicative", "token",
        "with_article",
    )  # fmt: skip

    def __init__(self, line: str) -> None:
        left, right, self._domains = (side.strip() for side in line.split("|"))
        self.english, _, comparative = left.partition("/")
        self._unfit = UNFIT.get(self.english, "").split()
        forms, german_comparative = right.split()
        self.predicative, _, stem = forms.partition("/")
        stem = stem or self.predicative
        self.token: Token = (self.english, "ADJ")
        self.german: dict[str, Token] = {ending: (stem + ending, "ADJ") for ending in ("e", "en", "em", "er", "es")}
        self.comparative: Words = (comparative,) if comparative else ("more", self.english)
        self.german_comparative = "" if german_comparative == "-" else german_comparative
        self.an = takes_an(self.english)
        self.with_article = f"an {self.english}" if self.an else f"a {self.english}"

    def goes_with(self, noun: Noun, domain: str) -> bool:
        """Whether it fits a noun of this domain; not if the noun says it already, as *old town* does."""
        said = self.english in noun.english[0] or noun.german[0][0].lower().startswith(self.predicative)
        return domain in self._domains and noun.key not in self._unfit and not said


class Verb:
    """One verb in one frame.

    ``particle``: it ends in one, before which a pronoun would have to stand. ``forms`` remembers the verb complexes
    that were built.
    """

    __slots__ = (
        "case", "conjugation", "directed", "english", "forms", "frame", "key", "object_class", "particle", "passive",
        "preposition", "progressive", "reflexive", "sein", "stative", "subject_class",
    )  # fmt: skip

    def __init__(self, frame: str, line: str) -> None:
        english, german, arguments, *flags = (part.strip() for part in line.replace(" | ", "\t").split("\t"))
        marks = set(flags[0].split()) if flags else set[str]()
        self.frame = frame
        self.english = EnglishVerb(english.split())
        self.conjugation = Conjugation(german.split())
        self.key = f"{english.split()[0]}={self.conjugation.infinitive}"
        self.subject_class, _, wanted = (part.strip() for part in arguments.partition(">"))
        self.preposition = ("", "")
        self.case = ""
        if frame == "prepositional":
            own, foreign, wanted = wanted.split()
            word, self.case = foreign.split("+")
            self.preposition = ("" if own == "-" else own, word)
        self.object_class = wanted
        self.sein = "s" in marks
        self.reflexive = "refl" in marks
        self.stative = "st" in marks
        self.progressive = not marks & {"st", "mo"}
        self.passive = frame == "transitive" and "np" not in marks
        self.directed = "di" in marks
        self.particle = bool(self.english.tail) and self.english.tail[-1] not in _PREPOSITIONS
        self.forms: dict[int, Complex] = {}


class Lexicon(NamedTuple):
    """All open-class words. ``nouns`` by class, unions of classes included; ``verbs`` by frame."""

    nouns: dict[str, tuple[Noun, ...]]
    verbs: dict[str, tuple[Verb, ...]]
    adjectives: tuple[Adjective, ...]


def _lines(table: str) -> list[str]:
    return [line.strip() for line in table.strip().splitlines()]


@cache
def load_lexicon() -> Lexicon:
    """Reads the tables, once."""
    adjectives = tuple(Adjective(line) for line in _lines(ADJECTIVES))
    nouns = {cls: tuple(Noun(cls, line) for line in _lines(table)) for cls, table in NOUNS.items()}
    for cls, members in nouns.items():
        for noun in members:
            domain = DOMAINS["drink"] if noun.mass and DOMAINS[cls] != "-" else DOMAINS[cls]
            noun.adjectives = tuple(adjective for adjective in adjectives if adjective.goes_with(noun, domain))
    for union, classes in UNIONS.items():
        nouns[union] = tuple(noun for cls in classes for noun in nouns[cls])
    verbs = {frame: tuple(Verb(frame, line) for line in _lines(table)) for frame, table in VERBS.items()}
    return Lexicon(nouns, verbs, adjectives)


def classes_of(wanted: str) -> tuple[str, ...]:
    """The plain classes behind the name of a class or of a union of classes."""
    return UNIONS.get(wanted, (wanted,))
