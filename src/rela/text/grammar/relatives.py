"""Relative clauses: the verb last, the pronoun in the gender of its noun and in the case of its own clause."""

from __future__ import annotations

from functools import cache

from .complexes import (
    FINAL,
    MODALS,
    NUM_TENSES,
    PASSIVE_MODALS,
    PASSIVE_PERFECT,
    PASSIVES,
    PAST,
    PERFECTS,
    POSITIVE,
    PRESENT,
    get_complex,
)
from .german import ACCUSATIVE, NOMINATIVE, RELATIVE
from .lexicon import Noun, Verb
from .nominals import FREE, WITHOUT_NO
from .phrases import DEFINITE, NO_NOMINAL, NOTHING, Nominal, Phrase, fixed
from .places import Placer
from .plans import NUM_ORDERS, PLANS, VERB_FINAL, assemble
from .pools import NO_FRAMES
from .splits import MODAL_FINAL, PASSIVE, PERFECT_FRAME
from .tenses import ACTIVE, AMBIGUOUS, IN_RELATIVE, OBLIGING, PASTS

CLOSING = fixed("", ",", "", "PUNCT")
"""The comma after a relative clause that German goes on after."""


@cache
def relative_pronoun(human: bool, case: int, gender: int) -> Phrase:
    word = ("who" if case == NOMINATIVE else "whom") if human else "that"
    return fixed(word, f", {RELATIVE[case][gender]}", "PRON", "PUNCT PRON", "0-1")


def frames_of(tense: int, order: int) -> tuple[str, ...]:
    """All frames that might be held out and that a verb stands in: "repariert werden kann" has two of them."""
    frames: list[str] = []
    if tense in PASSIVES:
        frames.append(PASSIVE)
    if tense in PERFECTS or tense == PASSIVE_PERFECT:
        frames.append(PERFECT_FRAME)
    if order == VERB_FINAL and (tense in MODALS or tense in PASSIVE_MODALS):
        frames.append(MODAL_FINAL)
    return tuple(frames)


_FRAMES_OF = [[frames_of(tense, order) for tense in range(NUM_TENSES)] for order in range(NUM_ORDERS)]


class RelativeWriter(Placer):
    """Draws verbs and writes relative clauses."""

    def draw_verb(self, group: str, tense: int, order: int) -> Verb:
        """A verb of this group; remembers what might be held out."""
        frames = _FRAMES_OF[order][tense]
        pool = (self.pools.actions if tense in ACTIVE else self.pools.verbs)[group, frames]
        verb = pool[int(self.random() * len(pool))]
        for frame in frames:
            self.used.append((verb.key, frame))
        return verb

    def draw_relative(self, head: Nominal) -> Phrase:
        """A relative clause in which the head, a noun phrase, is the subject or the object; nothing if no verb fits."""
        noun = head.noun
        assert noun is not None
        tense = self.pick(IN_RELATIVE)
        doing, suffering = f"{noun.cls} does", f"done to {noun.cls}"
        if (doing, NO_FRAMES) in self.pools.verbs and (
            (suffering, NO_FRAMES) not in self.pools.verbs or self.random() < 0.6
        ):
            return self._write_subject_relative(noun, head, doing, tense)
        if (suffering, NO_FRAMES) in self.pools.verbs:
            return self._write_object_relative(noun, head, suffering, tense)
        return NOTHING

    def _write_subject_relative(self, noun: Noun, head: Nominal, group: str, tense: int) -> Phrase:
        verb = self.draw_verb(group, tense, VERB_FINAL)
        if tense == PAST and verb.english.base in AMBIGUOUS and head.number:
            tense = PRESENT
        direct = NO_NOMINAL
        place = NOTHING
        if verb.frame == "transitive":
            direct = self.draw_object(verb, ACCUSATIVE, head.person, WITHOUT_NO if tense in OBLIGING else FREE)
        else:
            place = self.draw_location("inside")
        complex_ = get_complex(verb, tense, head.person, POSITIVE, FINAL)
        opening = relative_pronoun(noun.human, NOMINATIVE, noun.agreement(head.number))
        plan = PLANS[VERB_FINAL][direct.what][0]
        return assemble(plan, complex_, opening, direct=direct.phrase, place=place)

    def _write_object_relative(self, noun: Noun, head: Nominal, group: str, tense: int) -> Phrase:
        verb = self.draw_verb(group, tense, VERB_FINAL)
        ambiguous = tense == PAST and verb.english.base in AMBIGUOUS
        determiners = WITHOUT_NO if tense in OBLIGING else FREE
        subject = self.draw_plain_subject(
            head, verb.subject_class, determiners, singular=ambiguous, past=tense in PASTS
        )
        complex_ = get_complex(verb, tense, subject.person, POSITIVE, FINAL)
        opening = relative_pronoun(noun.human, ACCUSATIVE, noun.agreement(head.number))
        plan = PLANS[VERB_FINAL][DEFINITE][0]
        return assemble(plan, complex_, opening, subject.phrase)
