"""Nominals: subjects and objects drawn at random."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from .closed import AND, NAMES, POSSESSORS, PRONOUNS
from .german import ACCUSATIVE, DATIVE, GENITIVE, NOMINATIVE
from .lexicon import Adjective, Noun
from .phrases import NOTHING, Phrase, join, join_crosswise, noun_phrase
from .plans import DEFINITE, INDEFINITE, PRONOUN
from .pools import ANY, Pools
from .splits import PLURAL_OBJECT, POSSESSOR, Combination

T = TypeVar("T")
_OWN = ("my", "your", "his", "her", "our", "their")
_SINGULAR = ("the",) * 11 + ("a",) * 6 + ("this",) * 3 + ("every",) + _OWN
_PLURAL = (
    ("the",) * 9 + ("this",) * 3 + _OWN + ("some", "many", "several", "all", "both", "two", "three", "four", "five")
)
_PLURAL += ("ten", "two", "three", "bare", "bare", "bare")
_KIN = _OWN * 4 + ("the",) * 3 + ("a", "this", "every")
_KINS = _OWN * 4 + ("the",) * 3 + ("two", "three", "some", "many")
_MASS = ("the",) * 4 + ("this", "bare", "bare", "bare", "bare") + _OWN[:4]
_DEFINITES = ("the",) * 7 + ("this",) * 2 + _OWN
FREE = {"one": _SINGULAR + ("no",), "more": _PLURAL + ("no",), "kin": _KIN, "kins": _KINS, "mass": _MASS}
"""Determiners by kind of noun and number; *every*, *no* and the like only where nothing else is negated."""
KNOWN = {"one": _DEFINITES, "more": _DEFINITES, "kin": _OWN, "kins": _OWN, "mass": _DEFINITES}
BESIDE_NEVER = {
    "one": (*_DEFINITES, "a", "a", "a", "a"),
    "more": (*_DEFINITES, "bare", "bare", "bare"),
    "kin": _OWN,
    "kins": _OWN,
    "mass": (*_DEFINITES, "bare", "bare", "bare", "bare", "bare"),
}
UNDER_NOT = {
    "one": (*_DEFINITES, *["not a"] * 9),
    "more": (*_DEFINITES, *["not any"] * 4, *["not bare"] * 4),
    "kin": (*_OWN, *_OWN, "not a"),
    "kins": _OWN,
    "mass": (*_DEFINITES, *["not any"] * 3, *["not bare"] * 6),
}
_SURELY_KNOWN = frozenset({"the", "this", "all", "both", "theirs", *_OWN})


class Nominal(NamedTuple):
    """A noun phrase and what the rest of the clause must know of it; ``what`` is one of the kinds of objects."""

    phrase: Phrase
    person: int
    what: int
    noun: Noun | None
    number: int
    determiner: str


NO_NOMINAL = Nominal(NOTHING, 2, DEFINITE, None, 0, "")


class Drawer:
    """Draws nouns and noun phrases. ``used`` collects the combinations that might be held out."""

    def __init__(self, random: Callable[[], float], pools: Pools) -> None:
        self.random = random
        self.pools = pools
        self.used: list[Combination] = []

    def pick(self, items: tuple[T, ...]) -> T:
        return items[int(self.random() * len(items))]

    def draw_noun(self, cls: str, role: str = ANY) -> Noun:
        pool = self.pools.nouns[cls, role]
        noun = pool[int(self.random() * len(pool))]
        if role:
            self.used.append(Combination(noun.key, role))
        return noun

    def draw_adjective(self, noun: Noun, chance: float = 0.3) -> Adjective | None:
        adjectives = noun.adjectives
        if adjectives and self.random() < chance:
            return adjectives[int(self.random() * len(adjectives))]
        return None

    def draw_nominal(
        self,
        cls: str,
        case: int = NOMINATIVE,
        determiners: dict[str, tuple[str, ...]] = FREE,
        role: str = ANY,
        preposition: tuple[str, str] = ("", ""),
        number: int = -1,
    ) -> Nominal:
        """A noun phrase with a noun of this class. A plural in the accusative without preposition is a role of its own."""
        random = self.random
        if number < 0:
            number = 1 if random() < 0.27 else 0
        plain = preposition[1] == "" and not role
        if number and case == ACCUSATIVE and plain:
            noun = self.draw_noun(cls, PLURAL_OBJECT)
            if noun.mass:
                self.used.pop()
        else:
            noun = self.draw_noun(cls, role)
        if noun.mass:
            number = 0
            kind = "mass"
        elif noun.cls == "kin":
            kind = "kins" if number else "kin"
        else:
            kind = "more" if number else "one"
        chance = random()
        if chance < 0.10 and not noun.human and plain and noun.cls not in {"part", "animal", "plant"}:
            return self._draw_possessed(noun, number, case)
        choices = determiners[kind]
        determiner = choices[int(random() * len(choices))]
        adjective = None
        adjectives = noun.adjectives
        if adjectives and random() < 0.3:
            adjective = adjectives[int(random() * len(adjectives))]
        phrase = noun_phrase(noun, number, determiner, case, adjective, preposition)
        if noun.cls == "part":
            phrase = self._add_whole(noun_phrase(noun, number, "the", case, None, preposition), "whole")
            determiner = "the"
        elif noun.cls == "opening" and chance > 0.85 and determiner == "the":
            phrase = self._add_whole(phrase, "building")
        what = DEFINITE if determiner in _SURELY_KNOWN or determiner.startswith("not") else INDEFINITE
        return Nominal(phrase, 5 if number else 2, what, noun, number, determiner)

    def _add_whole(self, head: Phrase, cls: str) -> Phrase:
        """*the door of the house*."""
        noun = self.draw_noun(cls)
        determiner = self.pick(("the", "the", "the", "this", "my", "our"))
        return join(head, noun_phrase(noun, 0, determiner, GENITIVE, self.draw_adjective(noun, 0.2), ("of", "")))

    def _draw_possessed(self, noun: Noun, number: int, case: int) -> Nominal:
        """*the teacher's car*, whose German has the owner last, or *Anna's car*, whose German has no article."""
        adjective = self.draw_adjective(noun, 0.2)
        person = 5 if number else 2
        if self.random() < 0.3:
            owned = noun_phrase(noun, number, "bare", case, adjective)
            return Nominal(join(self.pick(POSSESSORS), owned), person, DEFINITE, noun, number, "theirs")
        owner = self.draw_noun("human", POSSESSOR)
        determiner = self.pick(_OWN) if owner.cls == "kin" else self.pick(("the", "the", "this", "a"))
        english, german, links = noun_phrase(owner, 0, determiner, GENITIVE, self.draw_adjective(owner, 0.1))
        owner_phrase = Phrase((*english[:-1], (english[-1][0] + "'s", "NOUN")), german, links)
        phrase = join_crosswise(owner_phrase, noun_phrase(noun, number, "theirs", case, adjective))
        return Nominal(phrase, person, DEFINITE, noun, number, "theirs")

    def draw_subject(self, cls: str, *, known: bool = False, singular: bool = False, past: bool = False) -> Nominal:
        """A subject.

        Args:
            cls: a class of nouns; people may be pronouns and names.
            known: no *every*, *no*, *many*: they and a negation would not mean the same in both languages.
            singular: third person singular, because the verb form is ambiguous otherwise (*read*, *cut*).
            past: no *you*, whose German past is stilted.
        """
        random = self.random
        chance = random()
        if cls in {"human", "being"} and chance < 0.4:
            if chance < 0.30:
                forms, person = PRONOUNS[int(random() * 6)]
                if (person == 2 or not singular) and not (past and person == 1):
                    return Nominal(forms[0], person, PRONOUN, None, 0, "")
            return Nominal(NAMES[int(random() * len(NAMES))], 2, DEFINITE, None, 0, "")
        determiners = KNOWN if known else FREE
        if chance > 0.96 and not singular and cls in {"human", "being"}:
            first = self.draw_nominal("human", NOMINATIVE, KNOWN, number=0)
            second = self.draw_nominal("human", NOMINATIVE, KNOWN, number=0)
            if first.noun is not second.noun:
                return Nominal(join(first.phrase, AND, second.phrase), 5, DEFINITE, None, 1, "and")
        return self.draw_nominal(cls, NOMINATIVE, determiners, number=0 if singular else -1)

    def draw_object(
        self, cls: str, case: int, subject: int, determiners: dict[str, tuple[str, ...]] = FREE, role: str = ANY
    ) -> Nominal:
        """An object without preposition; ``subject`` is the person of the subject, which a pronoun must not repeat."""
        random = self.random
        if cls in {"human", "being"}:
            chance = random()
            if chance < 0.2:
                forms, person = PRONOUNS[int(random() * 6)]
                if person != subject and {person, subject} != {0, 3}:
                    return Nominal(forms[case], person, PRONOUN, None, 0, "")
            if chance < 0.27:
                return Nominal(NAMES[int(random() * len(NAMES))], 2, DEFINITE, None, 0, "")
        return self.draw_nominal(cls, case, determiners, role)


CASES = {"acc": ACCUSATIVE, "dat": DATIVE}
