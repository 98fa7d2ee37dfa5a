"""Clauses drawn at random: a verb, the arguments it asks for, and adjuncts."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from .closed import FREQUENCIES, HOME, IN_CITY, MANNERS, NAMES, PLACES, PROFESSIONS, PRONOUNS, THAN, TIMES, TO_CITY
from .complexes import (
    CAN,
    COULD,
    FINAL,
    FUTURE,
    HAD_TO,
    HAVE_TO,
    INFINITIVE,
    MAIN,
    MAY,
    MODALS,
    MUST,
    NEVER,
    NO,
    NOT,
    PASSIVE_CAN,
    PASSIVE_FUTURE,
    PASSIVE_MUST,
    PASSIVE_PAST,
    PASSIVE_PERFECT,
    PASSIVE_PRESENT,
    PASSIVE_SHOULD,
    PAST,
    PERFECT,
    PERFECTS,
    POSITIVE,
    PRESENT,
    PROGRESSIVE,
    QUESTION,
    SHOULD,
    WANT,
    WANTED,
    WOULD_LIKE,
    get_complex,
)  # fmt: skip
from .german import ACCUSATIVE, AUXILIARIES, DATIVE, GENITIVE, NOMINATIVE, RELATIVE
from .lexicon import Adjective, Noun, Verb, load_lexicon
from .nominals import BESIDE_NEVER, FREE, KNOWN, UNDER_NOT, Drawer
from .phrases import (
    DEFINITE,
    DETERMINERS,
    INDEFINITE,
    NO_NOMINAL,
    NOTHING,
    PRONOUN,
    Nominal,
    Phrase,
    Preposition,
    fixed,
    join,
    noun_phrase,
    preposition,
)
from .plans import (
    DATIVE_LAST,
    DATIVE_PRONOUN,
    FUSED_NEGATION,
    INVERTED,
    PLANS,
    REFLEXIVE_FIRST,
    SUBJECT_FIRST,
    VERB_FINAL,
    assemble,
)  # fmt: skip
from .pools import ANY
from .splits import DATIVE_OBJECT, MODAL_FINAL, PASSIVE, PERFECT_FRAME

_FRAMES = (
    ("transitive",) * 34 + ("intransitive",) * 12 + ("passive",) * 11 + ("prepositional",) * 11 + ("dative",) * 8
    + ("ditransitive",) * 7 + ("ditransitive_to",) * 4 + ("motion",) * 6 + ("travel",) * 3 + ("locative",) * 5
    + ("self_moving",) * 3
)  # fmt: skip
_PERSONAL = tuple(frame for frame in _FRAMES if frame not in {"passive", "self_moving"})
"""Frames whose subject is a person."""


class Tenses(NamedTuple):
    """Tenses to draw from, more frequent ones several times."""

    active: tuple[int, ...]
    passive: tuple[int, ...]
    copular: tuple[int, ...]


FREELY = Tenses(
    (PRESENT,) * 20 + (PAST,) * 30 + (PERFECT,) * 13 + (FUTURE,) * 6 + (PROGRESSIVE,) * 6 + (CAN,) * 5 + (COULD,) * 2
    + (MUST,) * 3 + (HAVE_TO,) * 2 + (HAD_TO,) * 2 + (WANT,) * 3 + (WANTED,) * 2 + (SHOULD,) * 3 + (MAY,) + (WOULD_LIKE,) * 2,
    (PASSIVE_PRESENT,) * 2 + (PASSIVE_PAST,) * 4 + (PASSIVE_PERFECT,) * 2
    + (PASSIVE_FUTURE, PASSIVE_CAN, PASSIVE_MUST, PASSIVE_SHOULD),
    (PRESENT,) * 5 + (PAST,) * 5 + (PERFECT, FUTURE, MUST, SHOULD, CAN),
)  # fmt: skip
IN_PRESENT = Tenses(
    (PRESENT,) * 14 + (CAN, CAN, MUST, MUST, WANT, WANT, HAVE_TO, HAVE_TO, SHOULD, MAY),
    (PASSIVE_PRESENT, PASSIVE_PRESENT, PASSIVE_CAN, PASSIVE_MUST, PASSIVE_SHOULD),
    (PRESENT,),
)
IN_PAST = Tenses((PAST,) * 14 + (COULD, COULD, HAD_TO, WANTED), (PASSIVE_PAST,), (PAST,))
IN_QUESTION = Tenses(
    (PRESENT, PRESENT, PAST, PAST, PERFECT, FUTURE, CAN, WANT), (PASSIVE_PRESENT, PASSIVE_PAST), (PRESENT, PAST)
)
_IN_RELATIVE = (PRESENT,) * 4 + (PAST,) * 6 + (PERFECT,) * 3 + (CAN, MUST, WANT)
_PASTS = frozenset({PAST, COULD, HAD_TO, WANTED})
_BESIDE_NEVER = frozenset({PRESENT, PAST, PERFECT, PASSIVE_PRESENT, PASSIVE_PAST, PASSIVE_PERFECT})

_COMPLEX_ORDER = (MAIN, MAIN, FINAL, QUESTION)
"""How the verb complex is in pieces, by the order of the clause."""
_PLACED = frozenset({"locative", "motion", "travel", "self_moving"})
"""Frames that say where already."""
_BY, _TO_WHOM, _TO, _INTO = (
    preposition("by", "von"),
    preposition("to", ""),
    preposition("to", "zu"),
    preposition("into", "in"),
)
_IN, _ON, _UNDER = preposition("in", "in"), preposition("on", "auf"), preposition("under", "unter")
_BECAUSE_OF, _DURING, _DESPITE = (
    preposition("because of", "wegen"),
    preposition("during", "während"),
    preposition("despite", "trotz"),
)
_AROUND = tuple(
    preposition(a, b) for a, b in (("in front of", "vor"), ("behind", "hinter"), ("next to", "neben"), ("near", "bei"))
)
_COMPANY = (
    (DATIVE, preposition("with", "mit")), (DATIVE, preposition("with", "mit")), (ACCUSATIVE, preposition("without", "ohne")),
    (ACCUSATIVE, preposition("for", "für")),
)  # fmt: skip
NO_DETERMINER = DETERMINERS["no"]
AMBIGUOUS = frozenset({"read", "cut", "put"})
"""Verbs whose English past looks like their present but in the third person singular."""


@cache
def _governed(verb: Verb) -> tuple[int, Preposition]:
    """Case and preposition of a prepositional object."""
    return DATIVE if verb.case == "dat" else ACCUSATIVE, preposition(*verb.preposition)


@cache
def copula() -> Verb:
    """*be* and *sein*."""
    verb = Verb("copula", "be was been | sein bist ist war gewesen | human | s")
    verb.conjugation.present = AUXILIARIES["sein"]
    verb.conjugation.past = AUXILIARIES["waren"]
    return verb


@cache
def relative_pronoun(human: bool, case: int, gender: int) -> Phrase:
    word = ("who" if case == NOMINATIVE else "whom") if human else "that"
    return fixed(word, f", {RELATIVE[case][gender]}", "PRON", "PUNCT PRON", "0-1")


@cache
def _predicate(adjective: Adjective) -> Phrase:
    return fixed(adjective.english, adjective.predicative, "ADJ", "ADJ", "0-0")


@cache
def _comparative(adjective: Adjective) -> Phrase:
    english, german = " ".join(adjective.comparative), adjective.german_comparative
    if len(adjective.comparative) == 1:
        return fixed(english, german, "ADJ", "ADJ", "0-0")
    return fixed(english, german, "ADV ADJ", "ADJ", "0-0 1-0")


@cache
def _profession(index: int, feminine: bool) -> Phrase:
    english, masculine, female = PROFESSIONS[index]
    article = "an" if english[0] in "aeiou" else "a"
    return fixed(f"{article} {english}", female if feminine else masculine, "DET NOUN", "NOUN", "1-0", "0-0")


_CLOSING = fixed("", ",", "", "PUNCT")


class Writer(Drawer):
    """Writes clauses."""

    def write_clause(
        self,
        order: int,
        opening: Phrase = NOTHING,
        tenses: Tenses = FREELY,
        *,
        tense: int = -1,
        infinitive_of: int = -1,
        last: bool = False,
        timeless: bool = False,
    ) -> Phrase:
        """One clause.

        Args:
            order: German order, see `plans`.
            opening: what stands before it.
            tenses: the tenses to draw from.
            tense: this one instead.
            infinitive_of: the person of the subject of an infinitive group, which has no subject itself.
            last: nothing follows in the sentence: an object may have a relative clause.
            timeless: no adverbial of time.
        """
        random = self.random
        if infinitive_of >= 0:
            frame = _PERSONAL[int(random() * len(_PERSONAL))]
            tense = INFINITIVE
        else:
            frame = _FRAMES[int(random() * 104)]
            if frame == "passive" and tense < 0:
                choices = tenses.passive
                tense = choices[int(random() * len(choices))]
            elif tense < 0:
                choices = tenses.active
                tense = choices[int(random() * len(choices))]
            elif frame == "passive":
                frame = "transitive"
        verb = self._draw_verb(frame, tense, order)
        if tense == PROGRESSIVE and (verb.stative or order == VERB_FINAL):
            tense = PRESENT
        polarity = POSITIVE
        chance = random()
        if chance < 0.14 and tense != INFINITIVE:
            polarity = NEVER if chance < 0.025 and tense in _BESIDE_NEVER else NOT
        if infinitive_of >= 0:
            subject = NO_NOMINAL
            person = infinitive_of
        else:
            subject = self.draw_subject(
                verb.object_class if frame == "passive" else verb.subject_class,
                known=polarity != POSITIVE,
                singular=tense == PAST and verb.english.base in AMBIGUOUS,
                past=tense in _PASTS,
            )
            person = subject.person
        phrase = subject.phrase
        if (
            subject.noun is not None
            and random() < 0.09
            and (order == SUBJECT_FIRST or order == VERB_FINAL)
            and subject.determiner is not NO_DETERMINER
        ):
            phrase = self._add_relative(subject, closing=True)
        return self._finish(order, opening, frame, verb, tense, polarity, subject, phrase, person, last, timeless)

    def _draw_verb(self, frame: str, tense: int, order: int) -> Verb:
        """A verb for this frame; remembers what might be held out."""
        feature = ANY
        if frame == "passive":
            feature = PASSIVE
        elif tense in PERFECTS:
            feature = PERFECT_FRAME
        elif order == VERB_FINAL and tense in MODALS:
            feature = MODAL_FINAL
        pool = self.pools.verbs[frame, feature]
        verb = pool[int(self.random() * len(pool))]
        if feature:
            self.used.append((verb.key, feature))
        return verb

    def _finish(
        self, order: int, opening: Phrase, frame: str, verb: Verb, tense: int, polarity: int, subject: Nominal,
        phrase: Phrase, person: int, last: bool, timeless: bool,
    ) -> Phrase:  # fmt: skip
        """Arguments and adjuncts, and all of it in order."""
        random = self.random
        dative = direct = NO_NOMINAL
        complement = manner = place = time = frequency = NOTHING
        determiners = FREE if polarity == POSITIVE else UNDER_NOT if polarity == NOT else BESIDE_NEVER
        if frame == "transitive":
            direct = self.draw_object(verb.object_class, ACCUSATIVE, person, determiners)
        elif frame == "passive":
            if random() < 0.45:
                agent = self.draw_nominal(verb.subject_class, DATIVE, FREE, -1, _BY)
                direct = agent._replace(what=INDEFINITE)
        elif frame == "dative":
            dative = self.draw_object(verb.object_class, DATIVE, person, KNOWN if polarity else FREE, DATIVE_OBJECT)
        elif frame == "ditransitive":
            dative = self.draw_object("human", DATIVE, person, KNOWN, DATIVE_OBJECT)
            direct = self.draw_nominal(verb.object_class, ACCUSATIVE, determiners)
        elif frame == "ditransitive_to":
            dative = self.draw_nominal("human", DATIVE, KNOWN, -1, _TO_WHOM, DATIVE_OBJECT)
            direct = self.draw_nominal(verb.object_class, ACCUSATIVE, determiners)
        elif frame == "prepositional":
            case, before = _governed(verb)
            complement = self.draw_nominal(verb.object_class, case, KNOWN if polarity else FREE, -1, before).phrase
        elif frame == "motion":
            complement = self._draw_direction()
        elif frame == "travel":
            complement = self.pick(TO_CITY)
        elif frame == "locative":
            complement = self._draw_location(verb.object_class)
        fused = direct.determiner is not None and direct.determiner.under_not
        if fused:
            polarity = NO
        relative = last and direct.noun is not None and frame == "transitive" and not fused and random() < 0.14
        if relative:
            complex_ = get_complex(verb, tense, person, polarity, _COMPLEX_ORDER[order])
            closing = bool(complex_.end) or (polarity != POSITIVE and direct.what == DEFINITE)
            direct = direct._replace(phrase=self._add_relative(direct, closing=closing))
        else:
            if random() < 0.3 and frame not in _PLACED:
                place = self._draw_place()
            elif random() < 0.16 and not verb.stative:
                manner = self.pick(MANNERS[frame])
        chance = random()
        if chance < 0.32:
            times = TIMES[tense]
            if times and not timeless and not relative:
                time = times[int(random() * len(times))]
                fronted = chance < 0.12 and order == SUBJECT_FIRST and opening is NOTHING
                if fronted and phrase is subject.phrase:
                    order, opening, time = INVERTED, time, NOTHING
        elif chance < 0.42 and polarity == POSITIVE and tense in FREQUENCIES and FREQUENCIES[tense]:
            frequency = self.pick(FREQUENCIES[tense])
        complex_ = get_complex(verb, tense, person, polarity, _COMPLEX_ORDER[order])
        flags = 0
        if dative.what == PRONOUN:
            flags = DATIVE_PRONOUN
        if frame == "ditransitive_to":
            flags |= DATIVE_LAST
        if verb.reflexive and subject.what != PRONOUN:
            flags |= REFLEXIVE_FIRST
        if fused:
            flags |= FUSED_NEGATION
        plan = PLANS[order][direct.what][flags]
        return assemble(
            plan, complex_, opening, phrase, dative.phrase, direct.phrase, complement, manner, place, time, frequency
        )

    def _draw_direction(self) -> Phrase:
        """Where to: *zu* a building, an event or a person, *in* a room or a place outdoors; or home."""
        chance = self.random()
        if chance < 0.1:
            return HOME
        if chance < 0.6:
            cls = "building" if chance < 0.4 else "event" if chance < 0.5 else "human"
            return self.draw_nominal(cls, DATIVE, KNOWN, 0, _TO).phrase
        return self.draw_nominal("inside", ACCUSATIVE, KNOWN, 0, _INTO).phrase

    def _draw_location(self, cls: str) -> Phrase:
        """Where, for verbs that need it."""
        chance = self.random()
        if chance < 0.25:
            return self.pick(IN_CITY)
        if chance < 0.35 and cls == "inside":
            return self.pick(PLACES)
        if chance < 0.5:
            return self.draw_nominal("building", DATIVE, KNOWN, 0, self.pick(_AROUND)).phrase
        return self.draw_nominal(cls, DATIVE, KNOWN, 0, _IN).phrase

    def _draw_place(self) -> Phrase:
        """Where, with or for whom, or why."""
        chance = self.random()
        if chance < 0.12:
            return self.pick(PLACES)
        if chance < 0.2:
            return self.pick(IN_CITY)
        if chance < 0.55:
            return self.draw_nominal("inside", DATIVE, KNOWN, 0, _IN).phrase
        if chance < 0.65:
            return self.draw_nominal("building", DATIVE, KNOWN, 0, self.pick(_AROUND)).phrase
        if chance < 0.73:
            return self.draw_nominal("spot", DATIVE, KNOWN, 0, _ON).phrase
        if chance < 0.76:
            return self.draw_nominal("plant", DATIVE, KNOWN, 0, _UNDER).phrase
        if chance < 0.88:
            case, before = self.pick(_COMPANY)
            return self.draw_nominal("human", case, KNOWN, -1, before).phrase
        if chance < 0.95:
            return self.draw_nominal("human", GENITIVE, KNOWN, 0, _BECAUSE_OF).phrase
        return self.draw_nominal("event", GENITIVE, KNOWN, 0, _DURING if chance < 0.98 else _DESPITE).phrase

    def _add_relative(self, head: Nominal, *, closing: bool) -> Phrase:
        """The nominal with a relative clause, in which it is the subject or the object.

        Args:
            head: a noun phrase.
            closing: German goes on after the relative clause, so a comma ends it.
        """
        noun = head.noun
        assert noun is not None
        tense = self.pick(_IN_RELATIVE)
        doing, suffering = f"{noun.cls} does", f"done to {noun.cls}"
        if (doing, ANY) in self.pools.verbs and ((suffering, ANY) not in self.pools.verbs or self.random() < 0.6):
            clause = self._write_subject_relative(noun, head, doing, tense)
        elif (suffering, ANY) in self.pools.verbs:
            clause = self._write_object_relative(noun, head, suffering, tense)
        else:
            return head.phrase
        return join(head.phrase, clause, _CLOSING) if closing else join(head.phrase, clause)

    def _write_subject_relative(self, noun: Noun, head: Nominal, group: str, tense: int) -> Phrase:
        verb = self._draw_verb(group, tense, VERB_FINAL)
        if tense == PAST and verb.english.base in AMBIGUOUS and head.number:
            tense = PRESENT
        direct = NO_NOMINAL
        place = NOTHING
        if verb.frame == "transitive":
            direct = self.draw_object(verb.object_class, ACCUSATIVE, head.person)
        else:
            place = self._draw_location("inside")
        complex_ = get_complex(verb, tense, head.person, POSITIVE, FINAL)
        opening = relative_pronoun(noun.human, NOMINATIVE, noun.agreement(head.number))
        plan = PLANS[VERB_FINAL][direct.what][0]
        return assemble(plan, complex_, opening, direct=direct.phrase, place=place)

    def _write_object_relative(self, noun: Noun, head: Nominal, group: str, tense: int) -> Phrase:
        verb = self._draw_verb(group, tense, VERB_FINAL)
        ambiguous = tense == PAST and verb.english.base in AMBIGUOUS
        subject = self.draw_subject(verb.subject_class, singular=ambiguous, past=tense in _PASTS)
        complex_ = get_complex(verb, tense, subject.person, POSITIVE, FINAL)
        opening = relative_pronoun(noun.human, ACCUSATIVE, noun.agreement(head.number))
        plan = PLANS[VERB_FINAL][DEFINITE][0]
        return assemble(plan, complex_, opening, subject.phrase)

    def write_predication(
        self,
        order: int,
        opening: Phrase = NOTHING,
        tenses: Tenses = FREELY,
        subject: Nominal | None = None,
        noun: Noun | None = None,
    ) -> Phrase:
        """*be* and an adjective, a comparison or a profession; of a given subject with the adjectives of ``noun``."""
        random = self.random
        choices = tenses.copular
        tense = choices[int(random() * len(choices))]
        chance = random()
        polarity = NOT if chance < 0.15 else POSITIVE
        if subject is None:
            cls = self.pick(_DESCRIBED)
            subject = self.draw_subject(cls, known=polarity != POSITIVE, past=tense == PAST)
            noun = subject.noun
        time = frequency = NOTHING
        adjectives = noun.adjectives if noun is not None else _people().adjectives
        adjective = adjectives[int(random() * len(adjectives))]
        if subject.what == PRONOUN or noun is None or chance < 0.7 or not adjective.german_comparative:
            complement = _predicate(adjective)
            if chance > 0.8 and polarity == POSITIVE and tense in {PRESENT, PAST}:
                frequency = self.pick(_DEGREES)
        else:
            other = self.draw_nominal(noun.cls, NOMINATIVE, KNOWN)
            complement = join(_comparative(adjective), THAN, other.phrase)
        if order == SUBJECT_FIRST and 0.2 < chance < 0.26 and tense == PAST:
            time = self.pick(TIMES[tense])
        complex_ = get_complex(copula(), tense, subject.person, polarity, _COMPLEX_ORDER[order])
        plan = PLANS[order][DEFINITE][0]
        return assemble(plan, complex_, opening, subject.phrase, complement=complement, time=time, frequency=frequency)

    def write_profession(self, order: int, opening: Phrase = NOTHING) -> Phrase:
        """*She is a teacher*: no article in German, and the feminine for a woman."""
        index = int(self.random() * len(PROFESSIONS))
        subject, feminine = self.pick(_gendered_subjects())
        tense = PRESENT if self.random() < 0.5 else PAST
        time = self.pick(TIMES[PAST]) if tense == PAST and self.random() < 0.2 else NOTHING
        place = self._draw_location("home") if self.random() < 0.7 else NOTHING
        complex_ = get_complex(copula(), tense, 2, POSITIVE, _COMPLEX_ORDER[order])
        plan = PLANS[order][DEFINITE][0]
        profession = _profession(index, feminine)
        return assemble(plan, complex_, opening, subject, direct=profession, place=place, time=time)


_DESCRIBED = ("human", "human", "human", "animal", "goods", "building", "subject_matter", "meal", "vehicle", "room")
_DEGREES = tuple(
    fixed(a, b, "ADV", "ADV", "0-0")
    for a, b in (
        ("very", "sehr"),
        ("very", "sehr"),
        ("too", "zu"),
        ("always", "immer"),
        ("often", "oft"),
        ("really", "wirklich"),
    )
)


@cache
def _people() -> Noun:
    """Stands for names and pronouns when adjectives are drawn."""
    return load_lexicon().nouns["person"][0]


@cache
def _gendered_subjects() -> tuple[tuple[Phrase, bool], ...]:
    """Subjects whose sex the English sentence tells."""
    found = [(PRONOUNS[2][0].phrase, False), (PRONOUNS[3][0].phrase, True)] * 4
    for name, feminine in zip(NAMES, "fmmffmfmfm", strict=True):
        found.append((name.phrase, feminine == "f"))
    for noun in load_lexicon().nouns["kin"]:
        if noun.key in _MEN | _WOMEN:
            for name in ("my", "your", "his", "her", "our", "their"):
                found.append((noun_phrase(noun, 0, DETERMINERS[name]), noun.key in _WOMEN))
    return tuple(found)


_MEN = {"brother", "father", "son", "uncle", "grandfather"}
_WOMEN = {"sister", "mother", "daughter", "aunt", "grandmother"}
