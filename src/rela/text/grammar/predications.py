"""Predications: *be* with an adjective, a comparison or a profession."""

from __future__ import annotations

from functools import cache

from .clauses import COMPLEX_ORDER, Writer
from .closed import IN_CITY, NAMES, PROFESSIONS, PRONOUNS, THAN, TIMES
from .complexes import NOT, PAST, POSITIVE, PRESENT, get_complex
from .german import AUXILIARIES, NOMINATIVE
from .lexicon import Adjective, Noun, Verb, load_lexicon
from .nominals import FREE, KNOWN, WITHOUT_NO
from .phrases import DEFINITE, DETERMINERS, NO_NOMINAL, NOTHING, PRONOUN, Nominal, Phrase, fixed, join, noun_phrase
from .plans import PLANS, SUBJECT_FIRST, assemble
from .tenses import FREELY, OBLIGING, Tenses

_DESCRIBED = ("human", "human", "human", "animal", "goods", "building", "subject_matter", "meal", "vehicle", "room")
_DEGREES = tuple(
    fixed(a, b, "ADV", "ADV", "0-0")
    for a, b in (
        ("very", "sehr"),
        ("very", "sehr"),
        ("too", "zu"),
        ("really", "wirklich"),
        ("always", "immer"),
        ("often", "oft"),
    )
)
_NO = DETERMINERS["no"]
_ABSOLUTE = _DEGREES[3:]
"""Those of adjectives that are not compared: nothing is very red or too broken."""


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


@cache
def copula() -> Verb:
    """*be* and *sein*."""
    verb = Verb("copula", "be was been | sein bist ist war gewesen | human | s")
    verb.conjugation.present = AUXILIARIES["sein"]
    verb.conjugation.past = AUXILIARIES["waren"]
    return verb


@cache
def predicate(adjective: Adjective) -> Phrase:
    return fixed(adjective.english, adjective.predicative, "ADJ", "ADJ", "0-0")


@cache
def comparative(adjective: Adjective) -> Phrase:
    english, german = " ".join(adjective.comparative), adjective.german_comparative
    if len(adjective.comparative) == 1:
        return fixed(english, german, "ADJ", "ADJ", "0-0")
    return fixed(english, german, "ADV ADJ", "ADJ", "0-0 1-0")


@cache
def profession(index: int, feminine: bool) -> Phrase:
    english, masculine, female = PROFESSIONS[index]
    article = "an" if english[0] in "aeiou" else "a"
    return fixed(f"{article} {english}", female if feminine else masculine, "DET NOUN", "NOUN", "1-0", "0-0")


class Predicator(Writer):
    """Writes predications."""

    def write_predication(
        self,
        order: int,
        opening: Phrase = NOTHING,
        tenses: Tenses = FREELY,
        subject: Nominal | None = None,
        noun: Noun | None = None,
        *,
        positive: bool = False,
        once: bool = False,
    ) -> Phrase:
        """*be* and an adjective or a comparison; of a given subject with the adjectives of ``noun``.

        ``positive`` and ``once`` are as in `write_clause`.
        """
        random = self.random
        choices = tenses.copular
        tense = choices[int(random() * len(choices))]
        chance = random()
        polarity = NOT if chance < 0.15 and not positive else POSITIVE
        if subject is None:
            cls = self.pick(_DESCRIBED)
            without_no = positive or tense in OBLIGING
            determiners = KNOWN if polarity != POSITIVE else WITHOUT_NO if without_no else FREE
            subject = self.draw_subject(cls, determiners, past=tense == PAST)
            noun = subject.noun
        time = frequency = NOTHING
        adjectives = noun.adjectives if noun is not None else _people().adjectives
        adjective = adjectives[int(random() * len(adjectives))]
        other = NO_NOMINAL
        if subject.what != PRONOUN and noun is not None and chance >= 0.7 and adjective.german_comparative:
            other = self.draw_nominal(noun.cls, NOMINATIVE, KNOWN)
        if other.noun is not None and other.noun is not noun:
            complement = join(comparative(adjective), THAN, other.phrase)
        else:
            complement = predicate(adjective)
            fitting = polarity == POSITIVE and tense in {PRESENT, PAST} and subject.determiner is not _NO
            if fitting and chance > 0.8:
                degrees = _DEGREES if adjective.german_comparative else _ABSOLUTE
                lasting = noun is not None and not noun.human
                frequency = self.pick(degrees[:-2] if once or lasting else degrees)
        if order == SUBJECT_FIRST and 0.2 < chance < 0.26 and tense == PAST:
            time = self.pick(TIMES[tense])
        complex_ = get_complex(copula(), tense, subject.person, polarity, COMPLEX_ORDER[order])
        plan = PLANS[order][DEFINITE][0]
        return assemble(plan, complex_, opening, subject.phrase, complement=complement, time=time, frequency=frequency)

    def write_profession(self, order: int, opening: Phrase = NOTHING) -> Phrase:
        """*She is a teacher*: no article in German, and the feminine for a woman."""
        index = int(self.random() * len(PROFESSIONS))
        subject, feminine = self.pick(_gendered_subjects())
        tense = PRESENT if self.random() < 0.5 else PAST
        time = self.pick(TIMES[PAST]) if tense == PAST and self.random() < 0.2 else NOTHING
        place = self.pick(IN_CITY) if self.random() < 0.7 else NOTHING
        complex_ = get_complex(copula(), tense, 2, POSITIVE, COMPLEX_ORDER[order])
        plan = PLANS[order][DEFINITE][0]
        return assemble(plan, complex_, opening, subject, direct=profession(index, feminine), place=place, time=time)
