"""Word order: where the parts of a clause stand in each language.

The slots of a clause are its opening (conjunction, question word, whatever stands in front), subject, verb complex,
dative object, object, complement (what German puts last before the verb: prepositional objects, directions,
predicates), manner, place, time and frequency. English: object, manner, place, time. German: pronouns first, then
time, objects, negation, manner, place and complement.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate, chain
from operator import itemgetter
from typing import Any

from .complexes import Complex
from .phrases import DEFINITE, INDEFINITE, NOTHING, PRONOUN, Phrase, make_phrase

Piece = tuple[int, int]
"""A slot and one of its pieces: the verb has several."""

SUBJECT_FIRST, INVERTED, VERB_FINAL, ASKED = range(4)
"""German order; `ASKED` is `INVERTED` with English inverted too."""
DATIVE_PRONOUN, DATIVE_LAST, REFLEXIVE_FIRST, FUSED_NEGATION = 1, 2, 4, 8
"""Flags of a plan: the dative object is a pronoun; English has it after the other one ("to the man"); the reflexive
pronoun comes before an inverted subject, which is no pronoun; *not* is in the object's *kein*."""

_OPENING, _SUBJECT, _VERB, _DATIVE, _OBJECT, _COMPLEMENT, _MANNER, _PLACE, _TIME, _FREQUENCY = range(10)
_ENGLISH_PARTS: tuple[Piece, ...] = (
    (_OPENING, 0), (_SUBJECT, 0), (_VERB, 0), (_VERB, 1), (_VERB, 2), (_DATIVE, 0), (_OBJECT, 0), (_COMPLEMENT, 0),
    (_MANNER, 0), (_PLACE, 0), (_TIME, 0), (_FREQUENCY, 0),
)  # fmt: skip
_GERMAN_PARTS: tuple[Piece, ...] = (
    (_OPENING, 0), (_SUBJECT, 0), (_VERB, 0), (_VERB, 1), (_VERB, 2), (_VERB, 3), (_VERB, 4), (_DATIVE, 0),
    (_OBJECT, 0), (_COMPLEMENT, 0), (_MANNER, 0), (_PLACE, 0), (_TIME, 0), (_FREQUENCY, 0),
)  # fmt: skip
_FINITE, _REFLEXIVE, _ADVERB, _NEGATION, _END = ((_VERB, piece) for piece in range(5))


class Plan:
    """One order of all parts on both sides.

    ``places`` says, for each slot but the verb, where its English and German parts come in the order; ``english_verb``
    and ``german_verb`` the same for the pieces of the verb complex.
    """

    __slots__ = ("english_verb", "fused", "german_verb", "places", "take_english", "take_german")

    def __init__(self, english: list[Piece], german: list[Piece], fused_negation: bool) -> None:
        self.take_english: Callable[[Any], Any] = itemgetter(*[_ENGLISH_PARTS.index(piece) for piece in english])
        self.take_german: Callable[[Any], Any] = itemgetter(*[_GERMAN_PARTS.index(piece) for piece in german])
        slots = [slot for slot in range(10) if slot != _VERB]
        self.places = tuple((english.index((slot, 0)), german.index((slot, 0))) for slot in slots)
        self.english_verb = tuple(english.index((_VERB, piece)) for piece in range(3))
        self.german_verb = tuple(german.index((_VERB, piece)) if (_VERB, piece) in german else -1 for piece in range(5))
        self.fused = (self.english_verb[1], german.index((_OBJECT, 0))) if fused_negation else None


def _make_plan(order: int, what: int, flags: int) -> Plan:
    dative_pronoun, dative_last = bool(flags & DATIVE_PRONOUN), bool(flags & DATIVE_LAST)
    objects = [(_OBJECT, 0), (_DATIVE, 0)] if dative_last else [(_DATIVE, 0), (_OBJECT, 0)]
    subject: list[Piece] = [(_VERB, 0), (_SUBJECT, 0)] if order == ASKED else [(_SUBJECT, 0), (_VERB, 0)]
    rest: list[Piece] = [(_VERB, 1), (_FREQUENCY, 0), (_VERB, 2), *objects]
    rest += [(_COMPLEMENT, 0), (_MANNER, 0), (_PLACE, 0), (_TIME, 0)]
    german: list[Piece] = [(_OPENING, 0)]
    if order == SUBJECT_FIRST:
        german += [(_SUBJECT, 0), _FINITE, _REFLEXIVE]
    elif order == VERB_FINAL:
        german += [(_SUBJECT, 0), _REFLEXIVE]
    else:
        german += (
            [_FINITE, _REFLEXIVE, (_SUBJECT, 0)] if flags & REFLEXIVE_FIRST else [_FINITE, (_SUBJECT, 0), _REFLEXIVE]
        )
    german += [(_OBJECT, 0)] if what == PRONOUN else []
    german += [(_DATIVE, 0)] if dative_pronoun else []
    german += [(_TIME, 0), (_FREQUENCY, 0), _ADVERB]
    german += [] if dative_pronoun else [(_DATIVE, 0)]
    german += [(_OBJECT, 0)] if what == DEFINITE else []
    german += [_NEGATION]
    german += [(_OBJECT, 0)] if what == INDEFINITE else []
    german += [(_MANNER, 0), (_PLACE, 0), (_COMPLEMENT, 0), _END]
    return Plan([(_OPENING, 0), *subject, *rest], german, bool(flags & FUSED_NEGATION))


PLANS = tuple(
    tuple(tuple(_make_plan(order, what, flags) for flags in range(16)) for what in range(3)) for order in range(4)
)
"""All plans, by order, by what the object is, and by flags."""

_flatten = chain.from_iterable


def assemble(
    plan: Plan,
    verb: Complex,
    opening: Phrase = NOTHING,
    subject: Phrase = NOTHING,
    dative: Phrase = NOTHING,
    direct: Phrase = NOTHING,
    complement: Phrase = NOTHING,
    manner: Phrase = NOTHING,
    place: Phrase = NOTHING,
    time: Phrase = NOTHING,
    frequency: Phrase = NOTHING,
) -> Phrase:
    """The clause: all parts in the order of the plan."""
    auxiliary, negation, main, finite, reflexive, adverb, german_negation, end, groups = verb
    opening_en, opening_de, opening_links = opening
    subject_en, subject_de, subject_links = subject
    dative_en, dative_de, dative_links = dative
    direct_en, direct_de, direct_links = direct
    complement_en, complement_de, complement_links = complement
    manner_en, manner_de, manner_links = manner
    place_en, place_de, place_links = place
    time_en, time_de, time_links = time
    frequency_en, frequency_de, frequency_links = frequency
    english = plan.take_english((
        opening_en, subject_en, auxiliary, negation, main, dative_en, direct_en, complement_en, manner_en, place_en,
        time_en, frequency_en,
    ))  # fmt: skip
    german = plan.take_german((
        opening_de, subject_de, finite, reflexive, adverb, german_negation, end, dative_de, direct_de, complement_de,
        manner_de, place_de, time_de, frequency_de,
    ))  # fmt: skip
    english_starts = list(accumulate(map(len, english), initial=0))
    german_starts = list(accumulate(map(len, german), initial=0))
    links: list[int] = []
    parts = (
        opening_links, subject_links, dative_links, direct_links, complement_links, manner_links, place_links,
        time_links, frequency_links,
    )  # fmt: skip
    for own, (e, d) in zip(parts, plan.places):  # noqa: B905 (strict costs time)
        if own:
            offset = english_starts[e] << 7 | german_starts[d] << 1
            if len(own) == 1:
                links.append(own[0] + offset)
            else:
                links += [link + offset for link in own]
    english_verb, german_verb = plan.english_verb, plan.german_verb
    for e, d, own in groups:
        offset = english_starts[english_verb[e]] << 7 | german_starts[german_verb[d]] << 1
        for link in own:
            links.append(link + offset)
    if plan.fused:
        links.append(english_starts[plan.fused[0]] << 7 | german_starts[plan.fused[1]] << 1)
    return make_phrase((tuple(_flatten(english)), tuple(_flatten(german)), links))
