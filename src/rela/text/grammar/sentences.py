"""Sentences drawn at random: one clause, or two joined by a conjunction, a question, an infinitive group."""

from __future__ import annotations

from functools import cache

from .closed import (
    AND,
    BUT,
    COMMA,
    FIRST_CLAUSE,
    IN_ORDER,
    INFINITIVE_GROUP,
    IT,
    LATER_CLAUSE,
    PLACES,
    THERE,
    TIMES,
    WHAT,
    WHEN,
    WHERE,
    WHO,
    WHOM,
    WHY,
)
from .complexes import MAIN, NOT, PAST, PERFECT, PLUPERFECT, POSITIVE, PRESENT, QUESTION, get_complex
from .german import ACCUSATIVE
from .lexicon import Verb
from .nominals import KNOWN, choose
from .phrases import DEFINITE, DETERMINERS, INDEFINITE, NO_NOMINAL, NOTHING, Nominal, Phrase, join
from .plans import ASKED, INVERTED, PLANS, SUBJECT_FIRST, VERB_FINAL, assemble, place_pronouns
from .pools import NO_FRAMES, Pools
from .predications import Predicator
from .tenses import AMBIGUOUS, FREELY, IN_PAST, IN_PRESENT, IN_QUESTION

_KINDS = (
    ("statement",) * 46 + ("later",) * 12 + ("first",) * 7 + ("coordination",) * 4 + ("question",) * 8 + ("that",) * 7
    + ("infinitive",) * 6 + ("predication",) * 5 + ("there",) * 3 + ("it",) * 2
)  # fmt: skip
_REASONS = ("because", "because", "although", "before", "while", "until")
_FIRST = ("because", "although", "if", "when", "before", "while", "after")
_POSITIVE = frozenset({"before", "until"})
"""Conjunctions of clauses without negation and without a word on how often."""
_MATRIX_TENSES = (PRESENT, PRESENT, PAST, PAST, PAST, PERFECT)


class Author(Predicator):
    """Writes whole sentences."""

    def write(self) -> tuple[Phrase, str]:
        """A sentence without its final mark, and the mark."""
        self.used.clear()
        self.drawn.clear()
        kind = self.pick(_KINDS)
        if kind == "statement":
            return self.write_clause(SUBJECT_FIRST, last=True), "."
        if kind == "question":
            return self._write_question(), "?"
        return getattr(self, f"_write_{kind}")(), "."

    def _write_later(self) -> Phrase:
        """Main clause, then subordinate clause."""
        chance = self.random()
        tenses = IN_PAST if self.random() < 0.55 else IN_PRESENT
        if chance < 0.15:
            main = self.write_clause(SUBJECT_FIRST, tense=PAST)
            return join(main, self._write_after(LATER_CLAUSE["after"]))
        word = self.pick(_REASONS)
        if chance < 0.3:
            word = "when" if tenses is IN_PAST else "if"
        if chance > 0.75:
            word = "because"
        once = word == "when"
        main = self.write_clause(SUBJECT_FIRST, NOTHING, tenses, positive=word == "until", once=once)
        if chance > 0.75:
            return join(main, self.write_predication(VERB_FINAL, LATER_CLAUSE[word], tenses))
        opening, positive = LATER_CLAUSE[word], word in _POSITIVE
        later = self.write_clause(VERB_FINAL, opening, tenses, timeless=True, positive=positive, once=once or positive)
        return join(main, later)

    def _write_first(self) -> Phrase:
        """Subordinate clause, then main clause, whose verb comes first in German."""
        word = self.pick(_FIRST)
        tenses = IN_PAST if word == "when" or (word != "if" and self.random() < 0.5) else IN_PRESENT
        opening, positive, once = FIRST_CLAUSE[word], word in _POSITIVE, word == "when"
        if word == "after":
            tenses = IN_PAST
            first = self._write_after(opening)
        elif self.random() < 0.2:
            first = self.write_predication(VERB_FINAL, opening, tenses, positive=positive, once=once or positive)
        else:
            rare = once or positive
            first = self.write_clause(VERB_FINAL, opening, tenses, timeless=True, positive=positive, once=rare)
        return join(first, COMMA, self.write_clause(INVERTED, NOTHING, tenses, timeless=True, once=once))

    def _write_after(self, opening: Phrase) -> Phrase:
        """What had happened before, once."""
        return self.write_clause(VERB_FINAL, opening, tense=PLUPERFECT, timeless=True, positive=True, once=True)

    def _write_coordination(self) -> Phrase:
        tenses = IN_PAST if self.random() < 0.5 else IN_PRESENT
        first = self.write_clause(SUBJECT_FIRST, NOTHING, tenses)
        return join(first, self.write_clause(SUBJECT_FIRST, BUT if self.random() < 0.6 else AND, tenses))

    def _write_that(self) -> Phrase:
        """A verb of saying or thinking, and what is said."""
        asked = self.random() < 0.25
        tense = self.pick(_MATRIX_TENSES)
        verb = self.draw_verb("interrogative" if asked else "clausal", tense, SUBJECT_FIRST)
        subject = self.draw_subject("human", past=tense == PAST)
        negated = (asked and verb.stative) or self.random() < 0.08
        main = self._write_bare(verb, tense, subject, NOT if negated else POSITIVE)
        if not asked and self.random() < 0.15:
            tenses = IN_PAST if tense == PAST else IN_PRESENT
            return join(main, self.write_predication(VERB_FINAL, LATER_CLAUSE["that"], tenses))
        tenses = IN_PAST if tense == PAST else FREELY
        return join(main, self.write_clause(VERB_FINAL, LATER_CLAUSE["whether" if asked else "that"], tenses))

    def _write_bare(
        self, verb: Verb, tense: int, subject: Nominal, polarity: int, complement: Phrase = NOTHING
    ) -> Phrase:
        """A main clause of subject, verb and complement."""
        complex_ = get_complex(verb, tense, subject.person, polarity, MAIN)
        return assemble(_PLAIN, complex_, subject=subject.phrase, complement=complement)

    def _write_infinitive(self) -> Phrase:
        """An infinitive group with *zu*, or *um ... zu*."""
        purpose = self.random() < 0.35
        tense = self.pick((PRESENT, PAST) if purpose else _MATRIX_TENSES)
        subject = self.draw_subject("human", past=tense == PAST)
        verb = self.draw_verb("motion" if purpose else "infinitival", tense, SUBJECT_FIRST)
        complement = self.draw_direction() if purpose else NOTHING
        main = self._write_bare(verb, tense, subject, POSITIVE, complement)
        group = self.write_clause(VERB_FINAL, infinitive_of=subject.person, timeless=True)
        return join(main, IN_ORDER if purpose else INFINITIVE_GROUP, group)

    def _write_predication(self) -> Phrase:
        return self.write_profession(SUBJECT_FIRST) if self.random() < 0.3 else self.write_predication(SUBJECT_FIRST)

    def _write_there(self) -> Phrase:
        """*there is* and *es gibt*, whose German verb does not agree with what there is."""
        tense = PRESENT if self.random() < 0.5 else PAST
        cls, where = self.pick(_FOUND)
        what = self.draw_nominal(cls, ACCUSATIVE, _THERE)
        complex_ = get_complex(existential(), tense, what.person, POSITIVE, MAIN)
        plan = PLANS[SUBJECT_FIRST][INDEFINITE][0]
        if where in {"room", "building"} and self.random() < 0.15:
            return assemble(plan, complex_, subject=THERE, direct=what.phrase, adverbial=self.pick(PLACES))
        return assemble(plan, complex_, subject=THERE, direct=what.phrase, place=self.draw_surroundings(where))

    def _write_it(self) -> Phrase:
        """*He sold the car because it was old*: the German pronoun has the gender of the noun it stands for."""
        tense = PRESENT if self.random() < 0.4 else PAST
        verb = self.pick(_about_things(self.pools))
        singular = tense == PAST and verb.english.base in AMBIGUOUS
        subject = self.draw_subject("human", singular=singular, past=tense == PAST)
        direct = self.draw_nominal(verb.object_class, ACCUSATIVE, KNOWN, 0)
        assert direct.noun is not None
        complex_ = get_complex(verb, tense, subject.person, POSITIVE, MAIN)
        main = assemble(_PLAIN, complex_, subject=subject.phrase, direct=direct.phrase)
        it = IT[direct.noun.gender]
        tenses = IN_PAST if tense == PAST else IN_PRESENT
        return join(main, self.write_predication(VERB_FINAL, LATER_CLAUSE["because"], tenses, it, direct.noun))

    def _write_question(self) -> Phrase:
        chance = self.random()
        if chance < 0.4:
            return self.write_clause(ASKED)
        if chance < 0.6:
            return self.write_clause(ASKED, WHY if chance < 0.5 else WHEN, IN_QUESTION, timeless=True)
        tense = self.pick(IN_QUESTION.active)
        verb = self.draw_verb("transitive", tense, ASKED)
        if chance < 0.7:
            direct = self.draw_object(verb, ACCUSATIVE, 2)
            complex_ = get_complex(verb, tense, 2, POSITIVE, MAIN)
            plan = PLANS[SUBJECT_FIRST][direct.what][0]
            time = self._draw_time(tense)
            return assemble(plan, complex_, subject=WHO, direct=direct.phrase, time=time)
        direct = NO_NOMINAL
        if 0.85 <= chance < 0.93:
            which = self.draw_nominal(verb.object_class, ACCUSATIVE, _WHICH)
            opening = which.phrase
            subject = self.draw_plain_subject(which, verb.subject_class, past=tense == PAST)
        else:
            opening = WHERE
            subject = self.draw_subject(verb.subject_class, past=tense == PAST)
            if chance < 0.85:
                opening = WHOM[ACCUSATIVE] if verb.object_class in {"human", "being"} else WHAT
            else:
                direct = self.draw_object(verb, ACCUSATIVE, subject.person, KNOWN)
        complex_ = get_complex(verb, tense, subject.person, POSITIVE, QUESTION)
        plan = PLANS[ASKED][direct.what][place_pronouns(subject, direct)]
        time = self._draw_time(tense)
        return assemble(plan, complex_, opening, subject.phrase, direct=direct.phrase, time=time)

    def _draw_time(self, tense: int) -> Phrase:
        return self.pick(TIMES[tense]) if TIMES[tense] and self.random() < 0.5 else NOTHING


_PLAIN = PLANS[SUBJECT_FIRST][DEFINITE][0]
_FOUND = (
    ("building", "city"), ("building", "near"), ("spot", "city"), ("plant", "outdoors"), ("animal", "outdoors"),
    ("furniture", "room"), ("device", "building"), ("meal", "building"), ("document", "building"),
    ("occasion", "city"),
)  # fmt: skip
"""What there is and where: a class, and one of places for `draw_surroundings`."""
_WHICH = tuple((DETERMINERS["which"],) for _ in range(8))
_THERE = choose(
    "4*a no",
    "two three four many several some no bare",
    "4*a no",
    "two three four many several some no bare",
    "a no",
    "two three many no",
    "2*bare no",
)


@cache
def existential() -> Verb:
    """*there is*: the German verb stays in the third person singular."""
    verb = Verb("existential", "be was been | geben gibst gibt gab gegeben | human | st")
    verb.conjugation.present = ("gibt",) * 6
    verb.conjugation.past = ("gab",) * 6
    return verb


@cache
def _about_things(pools: Pools) -> tuple[Verb, ...]:
    living = {"human", "being", "animal", "visible", "portrait", "admired", "feature", "measure", "plant"}
    return tuple(verb for verb in pools.verbs["transitive", NO_FRAMES] if verb.object_class not in living)
