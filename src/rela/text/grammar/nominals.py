"""Nominals: subjects and objects drawn at random."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from .closed import AND, FIRST_NAMES, NAMES, POSSESSORS, PRONOUNS
from .german import ACCUSATIVE, DATIVE, GENITIVE, MASCULINE, NOMINATIVE
from .lexicon import Adjective, Noun, Verb
from .phrases import (
    DEFINITE,
    DETERMINERS,
    NO_PREPOSITION,
    PRONOUN,
    Determiner,
    Nominal,
    Phrase,
    Preposition,
    add_adjective,
    get_entry,
    join,
    join_crosswise,
    make_nominal,
    noun_phrase,
    preposition,
)
from .pools import ANY, Pools
from .spelling import Spelled, Spelling
from .splits import DATIVE_OBJECT, PLURAL_OBJECT, POSSESSOR

T = TypeVar("T")
Choice = tuple[tuple[Determiner, ...], ...]
"""Determiners by the kind of the noun: things people own, one and many; public ones; kin; masses."""


def _read(text: str) -> tuple[Determiner, ...]:
    """Determiners by name; a number says how often the next one is there."""
    found: list[Determiner] = []
    for name in text.split():
        times, _, word = name.rpartition("*")
        found += [DETERMINERS[word.replace("_", " ")]] * int(times or 1)
    return tuple(found)


def choose(one: str, more: str, public: str, publics: str, kin: str, kins: str, mass: str) -> Choice:
    return tuple(_read(text) for text in (one, more, public, publics, kin, kins, mass, mass))


_OWN = "my your his her our their"
_OWNS = "2*my 2*your 2*his 2*her 2*our 2*their"
_SOME = "some many several all both 2*two 2*three four five ten 3*bare no"
FREE = choose(
    f"10*the 6*a 3*this every no {_OWN}",
    f"9*the 3*this {_OWN} {_SOME}",
    "20*the 9*a 5*this every no",
    f"16*the 5*this {_SOME} {_SOME}",
    f"{_OWNS} 2*the a",
    f"{_OWNS} 2*the two three",
    "4*the this 5*bare my your his her",
)
"""Anything: *every*, *no* and the like only where nothing else is negated."""
WITHOUT_NO: Choice = tuple(tuple(one for one in some if one is not DETERMINERS["no"]) for some in FREE)
"""Anything but *no*: beside another negation, or where none makes sense."""
KNOWN = choose(
    f"8*the 2*this {_OWN}", f"8*the 2*this {_OWN}", "20*the 6*this", "20*the 6*this", _OWN, _OWN,
    "4*the this my your his her",
)  # fmt: skip
BESIDE_NEVER = choose(
    f"8*the 2*this {_OWN} 4*a", f"8*the 2*this {_OWN} 4*bare", "20*the 6*this 6*a",
    "20*the 6*this 6*bare", _OWN, _OWN, "4*the this my your his her 6*bare",
)  # fmt: skip
UNDER_NOT = choose(
    f"8*the 2*this {_OWN} 9*not_a", f"8*the 2*this {_OWN} 4*not_any 4*not_bare", "16*the 5*this 9*not_a",
    "16*the 5*this 4*not_any 4*not_bare", _OWN, _OWN, "4*the this my your his her 3*not_any 6*not_bare",
)  # fmt: skip
_OWNER, _KIN_OWNER, _WHOLE = _read("2*the this a"), _read(_OWN), _read("5*the this my our")
_THE, _THEIRS, _BARE = DETERMINERS["the"], DETERMINERS["theirs"], DETERMINERS["bare"]
_OF = preposition("of", "")
_OWNED = frozenset({
    "object", "device", "container", "tool", "document", "paper", "clothing", "headgear", "vehicle", "furniture",
    "food", "dish", "pastry", "drink", "side", "opening", "room", "tale", "topic",
})  # fmt: skip
"""Classes of what somebody may own."""
_PARTS = frozenset({"part", "measure"})
"""Classes of what something has."""


class _Possessive(NamedTuple):
    """The spelling of an owner."""

    owner: Spelling

    def spell(self) -> Spelled:
        """With *'s* at its last English word."""
        english, german, links = self.owner.spell()
        return Spelled((*english[:-1], (english[-1][0] + "'s", "NOUN")), german, links)


class Drawer:
    """Draws nouns and noun phrases. ``used`` collects the combinations that might be held out.

    ``drawn`` holds the nouns and names of the sentence so far, none of which is drawn again: "Simon heard Simon" would
    be about two people.
    """

    def __init__(self, random: Callable[[], float], pools: Pools) -> None:
        self.random = random
        self.pools = pools
        self.used: list[tuple[str, str]] = []
        self.drawn: set[str] = set()

    def pick(self, items: tuple[T, ...]) -> T:
        return items[int(self.random() * len(items))]

    def draw_noun(self, cls: str, role: str = ANY) -> Noun:
        pool = self.pools.nouns[cls, role]
        noun = pool[int(self.random() * len(pool))]
        if noun.key in self.drawn:
            others = tuple(one for one in pool if one.key not in self.drawn)
            noun = self.pick(others) if others else noun
        self.drawn.add(noun.key)
        if role and not (noun.mass and role == PLURAL_OBJECT):
            self.used.append((noun.key, role))
        return noun

    def _draw_name(self) -> int:
        """The number of a first name."""
        number = int(self.random() * len(FIRST_NAMES))
        while FIRST_NAMES[number] in self.drawn:
            number = (number + 1) % len(FIRST_NAMES)
        self.drawn.add(FIRST_NAMES[number])
        return number

    def draw_adjective(self, noun: Noun, chance: float) -> Adjective | None:
        return self.pick(noun.adjectives) if noun.adjectives and self.random() < chance else None

    def draw_nominal(
        self,
        cls: str,
        case: int,
        determiners: Choice = FREE,
        number: int = -1,
        before: Preposition = NO_PREPOSITION,
        role: str = ANY,
    ) -> Nominal:
        """A noun phrase with a noun of this class. A plural accusative without preposition is a role of its own."""
        random = self.random
        if number < 0:
            number = 1 if random() < 0.27 else 0
        bare = before is NO_PREPOSITION and not role
        if bare and number and case == ACCUSATIVE:
            role = PLURAL_OBJECT
        noun = self.draw_noun(cls, role)
        if noun.mass:
            number = 0
        choices = determiners[noun.kinds[number]]
        determiner = choices[int(random() * len(choices))]
        chance = random()
        if bare and chance > 0.87:
            if noun.cls in _OWNED and determiner.what == DEFINITE and not determiner.under_not:
                return self._draw_possessed(noun, number, case)
        elif chance < 0.3:
            adjectives = noun.adjectives
            if adjectives:
                adjective = adjectives[int(random() * len(adjectives))]
                entry = get_entry(noun, number, determiner, case, before)
                phrase = add_adjective(entry, adjective)
                return make_nominal((phrase, 5 if number else 2, determiner.what, noun, number, determiner))
        if noun.cls in _PARTS:
            return self._add_whole(get_entry(noun, number, _THE, case, before).plain, "whole")
        nominal = get_entry(noun, number, determiner, case, before).plain
        if determiner is _THE and noun.cls == "opening" and chance < 0.5:
            return self._add_whole(nominal, "building")
        return nominal

    def _add_whole(self, head: Nominal, cls: str) -> Nominal:
        """*the door of the house*."""
        noun = self.draw_noun(cls)
        adjective = self.draw_adjective(noun, 0.2)
        return head._replace(
            determiner=_THEIRS,
            phrase=join(head.phrase, noun_phrase(noun, 0, self.pick(_WHOLE), GENITIVE, adjective, _OF)),
        )

    def _draw_possessed(self, noun: Noun, number: int, case: int) -> Nominal:
        """*the teacher's car*, whose German has the owner last, or *Anna's car*, whose German has no article."""
        adjective = self.draw_adjective(noun, 0.2)
        if self.random() < 0.3:
            phrase = join(POSSESSORS[self._draw_name()], noun_phrase(noun, number, _BARE, case, adjective))
        else:
            owner = self.draw_noun("human", POSSESSOR)
            determiner = self.pick(_KIN_OWNER if owner.cls == "kin" else _OWNER)
            whose = noun_phrase(owner, 0, determiner, GENITIVE, self.draw_adjective(owner, 0.1))
            whose = Phrase(whose.english + "'s", whose.german, _Possessive(whose.spelling))
            phrase = join_crosswise(whose, noun_phrase(noun, number, _THEIRS, case, adjective))
        return Nominal(phrase, 5 if number else 2, DEFINITE, noun, number, _THEIRS)

    def draw_subject(
        self, cls: str, determiners: Choice = KNOWN, *, singular: bool = False, past: bool = False
    ) -> Nominal:
        """A subject.

        Args:
            cls: a class of nouns; people may be pronouns and names.
            determiners: to draw from; with a negation `KNOWN`, for it and *every*, *no*, *many* would not mean the same
                in both languages.
            singular: third person singular, because the verb form is ambiguous otherwise (*read*, *cut*).
            past: no *you*, whose German past is stilted.
        """
        random = self.random
        chance = random()
        if chance < 0.4 and cls in _PEOPLE:
            if chance < 0.30:
                nominal = PRONOUNS[int(random() * 6)][0]
                person = nominal.person
                if (person == 2 or not singular) and not (past and person == 1):
                    return nominal
            return NAMES[self._draw_name()]
        if chance > 0.97 and not singular and cls in _PEOPLE:
            first = self.draw_nominal("human", NOMINATIVE, KNOWN, 0)
            second = self.draw_nominal("human", NOMINATIVE, KNOWN, 0)
            return Nominal(join(first.phrase, AND, second.phrase), 5, DEFINITE)
        return self.draw_nominal(cls, NOMINATIVE, determiners, 0 if singular else -1)

    def draw_plain_subject(
        self, first: Nominal, cls: str, determiners: Choice = KNOWN, *, singular: bool = False, past: bool = False
    ) -> Nominal:
        """A subject after ``first``, its object, which nobody takes for the subject.

        "die Frau, die Laura liebt" is the one who loves. Arguments as for `draw_subject`.
        """
        while True:
            subject = self.draw_subject(cls, determiners, singular=singular, past=past)
            if not _is_mistakable(first, subject):
                return subject

    def draw_object(self, verb: Verb, case: int, subject: int, determiners: Choice = FREE, role: str = ANY) -> Nominal:
        """An object without preposition; ``subject`` is the person of the subject, which a pronoun must not repeat."""
        cls = verb.object_class
        if cls in _PEOPLE:
            person = self._draw_person(case, subject, pronouns=not verb.particle)
            if person is not None:
                return person
        return self.draw_nominal(cls, case, determiners, -1, NO_PREPOSITION, role)

    def draw_recipient(self, subject: int) -> Nominal:
        """A dative object beside another object."""
        person = self._draw_person(DATIVE, subject)
        return person or self.draw_nominal("human", DATIVE, KNOWN, -1, NO_PREPOSITION, DATIVE_OBJECT)

    def _draw_person(self, case: int, subject: int, *, pronouns: bool = True) -> Nominal | None:
        """A pronoun or a name, or neither."""
        chance = self.random()
        if chance < 0.2 and pronouns:
            nominal = PRONOUNS[int(self.random() * 6)][case]
            person = nominal.person
            if person != subject and person + subject != 3:
                return nominal
        return NAMES[self._draw_name()] if chance < 0.27 else None


_PEOPLE = frozenset({"human", "being"})
_LIVING = frozenset({"person", "kin", "animal"})


def _is_mistakable(first: Nominal, subject: Nominal) -> bool:
    """Whether the first of two looks like the subject: neither their cases nor the verb tell them apart."""
    assert first.noun is not None
    if first.noun.cls not in _LIVING or first.person != subject.person:
        return False
    return not (_shows_case(first) or _shows_case(subject))


def _shows_case(nominal: Nominal) -> bool:
    """Whether nominative and accusative differ: in the masculine singular, in pronouns but for *sie*."""
    if nominal.noun is None:
        return nominal.what == PRONOUN and nominal.phrase.german != "sie"
    return nominal.noun.gender == MASCULINE and not nominal.number
