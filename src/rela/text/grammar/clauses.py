"""Clauses drawn at random: a verb, the arguments it asks for, and adjuncts."""

from __future__ import annotations

from functools import cache

from .closed import (
    FREQUENCIES,
    FREQUENCIES_BESIDE_OTHERS,
    IMMEDIATELY,
    MANNERS,
    MANNERS_OF,
    NOT_UNDER_NOT,
    TIMES,
)
from .complexes import (
    FINAL,
    INFINITIVE,
    MAIN,
    NEVER,
    NO,
    NOT,
    PAST,
    POSITIVE,
    PRESENT,
    PROGRESSIVE,
    QUESTION,
    get_complex,
)
from .german import ACCUSATIVE, DATIVE
from .lexicon import Verb
from .nominals import BESIDE_NEVER, FREE, KNOWN, UNDER_NOT, WITHOUT_NO
from .phrases import (
    DETERMINERS,
    INDEFINITE,
    NO_NOMINAL,
    NOTHING,
    PRONOUN,
    Nominal,
    Phrase,
    Preposition,
    join,
    preposition,
)
from .plans import (
    ASKED,
    DATIVE_INDEFINITE,
    DATIVE_LAST,
    DATIVE_PRONOUN,
    FUSED_NEGATION,
    INVERTED,
    KNOWN_FIRST,
    PLANS,
    SUBJECT_FIRST,
    VERB_FINAL,
    assemble,
    place_pronouns,
)
from .relatives import CLOSING, RelativeWriter
from .splits import DATIVE_OBJECT
from .tenses import AMBIGUOUS, FREELY, OBLIGING, PASTS, VOLUNTARY, WITH_NEVER, Tenses

_BY, _TO_WHOM = preposition("by", "von"), preposition("to", "")
_NO, _EVERY = DETERMINERS["no"], DETERMINERS["every"]
_CLOSED = (_NO, DETERMINERS["theirs"])
"""Determiners of noun phrases that take no relative clause: it would be unclear what it belongs to."""
_FRAMES = (
    ("transitive",) * 34 + ("intransitive",) * 12 + ("passive",) * 11 + ("prepositional",) * 11 + ("dative",) * 8
    + ("ditransitive",) * 7 + ("ditransitive_to",) * 4 + ("motion",) * 6 + ("travel",) * 3 + ("locative",) * 5
    + ("self_moving",) * 3
)  # fmt: skip
_PERSONAL = tuple(frame for frame in _FRAMES if frame not in {"passive", "self_moving"})
"""Frames whose subject is a person."""
COMPLEX_ORDER = (MAIN, MAIN, FINAL, QUESTION)
"""How the verb complex is in pieces, by the order of the clause."""
_SIMPLE = frozenset({PRESENT, PAST})
_PLACED = frozenset({"locative", "motion", "travel", "self_moving"})
"""Frames that say where already."""
_PLACES = frozenset({"inside", "sight"})
"""Objects that do so: what one enters or reaches."""


@cache
def _governed(verb: Verb) -> tuple[int, Preposition]:
    """Case and preposition of a prepositional object."""
    return DATIVE if verb.case == "dat" else ACCUSATIVE, preposition(*verb.preposition)


class Writer(RelativeWriter):
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
        positive: bool = False,
        once: bool = False,
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
            positive: no negation.
            once: nothing that says how often.
        """
        random = self.random
        if infinitive_of >= 0:
            frame = _PERSONAL[int(random() * len(_PERSONAL))]
            tense = INFINITIVE
        else:
            frame = _FRAMES[int(random() * len(_FRAMES))]
            if frame == "passive" and tense < 0:
                choices = tenses.passive
                tense = choices[int(random() * len(choices))]
            elif tense < 0:
                choices = tenses.active
                tense = choices[int(random() * len(choices))]
            elif frame == "passive":
                frame = "transitive"
            if frame == "self_moving" and tense in VOLUNTARY:
                tense = PAST if tense in PASTS else PRESENT
        verb = self.draw_verb(frame, tense, order)
        while tense == INFINITIVE and verb.subject_class == "animal":
            verb = self.draw_verb(frame, tense, order)
        if tense == PROGRESSIVE and (order == VERB_FINAL or not verb.progressive):
            tense = PRESENT
        polarity = POSITIVE
        chance = random()
        if chance < 0.14 and tense != INFINITIVE and not positive and (order != ASKED or opening is NOTHING):
            polarity = NEVER if chance < 0.025 and tense in WITH_NEVER and not once else NOT
        without_no = positive or order == ASKED or tense == INFINITIVE or tense in OBLIGING
        if infinitive_of >= 0:
            subject = NO_NOMINAL
            person = infinitive_of
        else:
            subject = self.draw_subject(
                verb.object_class if frame == "passive" else verb.subject_class,
                KNOWN if polarity != POSITIVE else WITHOUT_NO if without_no else FREE,
                singular=tense == PAST and verb.english.base in AMBIGUOUS,
                past=tense in PASTS,
            )
            person = subject.person
        phrase = subject.phrase
        if (
            subject.noun is not None
            and random() < 0.09
            and order in (SUBJECT_FIRST, VERB_FINAL)
            and subject.determiner not in _CLOSED
        ):
            relative = self.draw_relative(subject)
            if relative is not NOTHING:
                phrase = join(phrase, relative, CLOSING)
        return self._finish(
            order, opening, frame, verb, tense, polarity, subject, phrase, person, last, timeless, without_no, once
        )

    def _finish(
        self, order: int, opening: Phrase, frame: str, verb: Verb, tense: int, polarity: int, subject: Nominal,
        phrase: Phrase, person: int, last: bool, timeless: bool, without_no: bool, once: bool,
    ) -> Phrase:  # fmt: skip
        """Arguments and adjuncts, and all of it in order."""
        random = self.random
        dative = direct = NO_NOMINAL
        complement = adverbial = place = cause = time = frequency = relative = NOTHING
        if polarity == POSITIVE:
            scoped = without_no or subject.determiner is _NO or subject.determiner is _EVERY
            determiners = known = WITHOUT_NO if scoped else FREE
        else:
            determiners, known = UNDER_NOT if polarity == NOT else BESIDE_NEVER, KNOWN
        if frame == "transitive":
            direct = self.draw_object(verb, ACCUSATIVE, person, determiners)
        elif frame == "passive":
            if random() < 0.45:
                agent = self.draw_nominal(verb.subject_class, DATIVE, WITHOUT_NO, -1, _BY)
                direct = agent._replace(what=INDEFINITE)
        elif frame == "dative":
            dative = self.draw_object(verb, DATIVE, person, known, DATIVE_OBJECT)
        elif frame == "ditransitive":
            dative = self.draw_recipient(person)
            direct = self.draw_nominal(verb.object_class, ACCUSATIVE, determiners)
        elif frame == "ditransitive_to":
            dative = self.draw_nominal("human", DATIVE, KNOWN, -1, _TO_WHOM, DATIVE_OBJECT)
            direct = self.draw_nominal(verb.object_class, ACCUSATIVE, determiners)
        elif frame == "prepositional":
            case, before = _governed(verb)
            determiners = WITHOUT_NO if polarity == POSITIVE else KNOWN
            complement = self.draw_nominal(verb.object_class, case, determiners, -1, before).phrase
        elif frame == "motion":
            complement = self.draw_direction()
        elif frame == "travel":
            complement = self.draw_destination(verb)
        elif frame == "locative":
            complement = self.draw_location(verb.object_class)
        fused = direct.determiner is not None and direct.determiner.under_not
        if fused:
            polarity = NO
        modified = last and frame == "transitive" and polarity == POSITIVE and random() < 0.14
        if modified and direct.noun is not None and direct.determiner not in _CLOSED:
            relative = self.draw_relative(direct)
        negative = subject.determiner is _NO or dative.determiner is _NO or direct.determiner is _NO
        if verb.stative or relative is not NOTHING:
            pass  # what one knows or loves is not done somewhere or somehow, nor what one sees or loses, somehow
        elif random() < 0.34 and frame not in _PLACED and verb.object_class not in _PLACES:
            adverbial, place, cause = self.draw_circumstance(verb.directed, frame == "passive")
            if tense == PROGRESSIVE:
                cause = NOTHING  # "gerade wegen" is about the cause alone
        elif random() < 0.2 and verb.progressive and not (negative or fused):
            adverbial = self._draw_manner(frame, verb, tense)
        chance = random()
        if adverbial is IMMEDIATELY:
            pass
        elif chance < 0.32:
            times = TIMES[tense]
            if times and not timeless and relative is NOTHING and polarity != NEVER:
                time = times[int(random() * len(times))]
                if (polarity != POSITIVE or negative or once) and time in NOT_UNDER_NOT:
                    time = times[0]  # "every day" and "not" would not mean the same in both orders
                fronted = chance < 0.12 and order == SUBJECT_FIRST and opening is NOTHING
                if fronted and phrase is subject.phrase:
                    order, opening, time = INVERTED, time, NOTHING
        elif chance < 0.42 and polarity == POSITIVE and order != ASKED and not (negative or once):
            plain = adverbial is place is cause is NOTHING and not verb.stative
            adverbs = (FREQUENCIES if plain else FREQUENCIES_BESIDE_OTHERS).get(tense)
            frequency = self.pick(adverbs) if adverbs else NOTHING
        complex_ = get_complex(verb, tense, person, polarity, COMPLEX_ORDER[order])
        flags = 0
        if dative.what == PRONOUN:
            flags = DATIVE_PRONOUN
        elif dative.what == INDEFINITE:
            flags = DATIVE_INDEFINITE
        if frame == "ditransitive_to":
            flags |= DATIVE_LAST
        flags |= place_pronouns(subject, direct, dative)
        if fused:
            flags |= FUSED_NEGATION
        elif polarity == NOT or adverbial is not NOTHING:
            flags |= KNOWN_FIRST  # "den Hund gestern nicht", "den Hund oft leise"
        elif frequency is not NOTHING and (cause is not NOTHING or tense not in _SIMPLE):
            flags |= KNOWN_FIRST  # "den Hund oft wegen des Lehrers", "den Hund schon gesehen"
        plan = PLANS[order][direct.what][flags]
        clause = assemble(
            plan, complex_, opening, phrase, dative.phrase, direct.phrase, complement, adverbial, place, cause, time,
            frequency,
        )  # fmt: skip
        return clause if relative is NOTHING else join(clause, relative)

    def _draw_manner(self, frame: str, verb: Verb, tense: int) -> Phrase:
        choices = MANNERS_OF.get(verb.english.base) if frame in {"intransitive", "self_moving"} else MANNERS[frame]
        manner = self.pick(choices) if choices else NOTHING
        return NOTHING if manner is IMMEDIATELY and tense == PROGRESSIVE else manner  # "gerade sofort"
