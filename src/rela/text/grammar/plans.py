"""Word order: where the parts of a clause stand in each language.

The slots of a clause are its opening (conjunction, question word, whatever stands in front), subject, verb complex,
dative object, object, complement (what German puts last before the verb: prepositional objects, directions,
predicates), adverb (of manner or place, or with whom), place, cause, time and frequency. English: object, adverb,
place, cause, time. German: pronouns first, then time, frequency, definite objects, cause, negation, adverb, indefinite
objects, place and complement; definite objects before time and frequency if more follows that belongs to these.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import accumulate, chain
from operator import itemgetter
from typing import Any, NamedTuple

from .complexes import Complex
from .lexicon import Tokens
from .phrases import DEFINITE, INDEFINITE, NO_NOMINAL, NOTHING, PRONOUN, Nominal, Phrase, make_phrase
from .spelling import Spelled, Spelling

Piece = tuple[int, int]
"""A slot and one of its pieces: the verb has several."""

SUBJECT_FIRST, INVERTED, VERB_FINAL, ASKED = range(4)
"""German order; `ASKED` is `INVERTED` with English inverted too."""
NUM_ORDERS = 4
DATIVE_PRONOUN, DATIVE_LAST, PRONOUNS_FIRST, FUSED_NEGATION, DATIVE_INDEFINITE, KNOWN_FIRST = 1, 2, 4, 8, 16, 32
NUM_FLAGS = 6
"""Flags of a plan: the dative object is a pronoun; English has it after the other one ("to the man"); pronouns that
are no subject come before an inverted subject, which is no pronoun; *not* is in the object's *kein*; the dative object
is indefinite; definite objects come before time and frequency."""
_MISTAKABLE = frozenset({"sie", "ihr"})
"""Pronouns after which a subject would be taken for the object, or for what she has: "liebte sie Laura"."""

_OPENING, _SUBJECT, _VERB, _DATIVE, _OBJECT, _COMPLEMENT, _ADVERBIAL, _PLACE, _CAUSE, _TIME, _FREQUENCY = range(11)
_SLOTS = tuple(slot for slot in range(11) if slot != _VERB)
_BITS = {slot: 256 << number for number, slot in enumerate(_SLOTS)}
_FINITE, _REFLEXIVE, _ADVERB, _NEGATION, _END = ((_VERB, piece) for piece in range(5))


class Layout(NamedTuple):
    """A plan for clauses in which certain parts, and no others, are there.

    The getters take the pieces of the verb and then those of the other slots, and give what there is in its order.
    ``places`` says for each slot that is there where its English and its German part stand in that order; the others
    say it for the pieces of the verb, and for the negation and the object that it goes into.
    """

    take_english: Callable[[Any], Any]
    take_german: Callable[[Any], Any]
    places: tuple[Piece, ...]
    english_verb: tuple[int, ...]
    german_verb: tuple[int, ...]
    fused: Piece | None


class Plan:
    """One order of all parts on both sides. ``layouts`` are by a mask of what is there: see `assemble`."""

    __slots__ = ("_english", "_fused", "_german", "layouts")

    def __init__(self, english: tuple[Piece, ...], german: tuple[Piece, ...], fused: bool) -> None:
        self._english = english
        self._german = german
        self._fused = fused
        self.layouts: dict[int, Layout] = {}

    def lay_out(self, mask: int) -> Layout:
        """The layout of this mask, made and remembered."""
        slots = [slot for slot in _SLOTS if mask & _BITS[slot]]
        english_pieces = {(_VERB, piece): piece for piece in range(3) if mask & 1 << piece}
        german_pieces = {(_VERB, piece): piece for piece in range(5) if mask & 8 << piece}
        for number, slot in enumerate(slots):
            english_pieces[slot, 0] = 3 + number
            german_pieces[slot, 0] = 5 + number
        english = [at for at in self._english if at in english_pieces]
        german = [at for at in self._german if at in german_pieces]
        english_places = {at: place for place, at in enumerate(english)}
        german_places = {at: place for place, at in enumerate(german)}
        layout = self.layouts[mask] = Layout(
            _getter([english_pieces[at] for at in english]),
            _getter([german_pieces[at] for at in german]),
            tuple([(english_places[slot, 0], german_places[slot, 0]) for slot in slots]),
            tuple([english_places.get((_VERB, piece), -1) for piece in range(3)]),
            tuple([german_places.get((_VERB, piece), -1) for piece in range(5)]),
            (english_places[_VERB, 1], german_places[_OBJECT, 0]) if self._fused else None,
        )
        return layout


def _getter(indices: list[int]) -> Callable[[Any], Any]:
    """Gives a tuple of several things, unlike `itemgetter` also if it is one thing only."""
    if len(indices) > 1:
        return itemgetter(*indices)
    return lambda pieces: tuple(pieces[index] for index in indices)


_plans: dict[tuple[tuple[Piece, ...], tuple[Piece, ...], bool], Plan] = {}


def _make_plan(order: int, what: int, flags: int) -> Plan:
    """The plan of these choices; there is one for all that come to the same."""
    dative_pronoun, dative_last = bool(flags & DATIVE_PRONOUN), bool(flags & DATIVE_LAST)
    objects = [(_OBJECT, 0), (_DATIVE, 0)] if dative_last else [(_DATIVE, 0), (_OBJECT, 0)]
    subject: list[Piece] = [(_VERB, 0), (_SUBJECT, 0)] if order == ASKED else [(_SUBJECT, 0), (_VERB, 0)]
    rest: list[Piece] = [(_VERB, 1), (_FREQUENCY, 0), (_VERB, 2), *objects]
    rest += [(_COMPLEMENT, 0), (_ADVERBIAL, 0), (_PLACE, 0), (_CAUSE, 0), (_TIME, 0)]
    pronouns = [_REFLEXIVE]
    pronouns += [(_OBJECT, 0)] if what == PRONOUN else []
    pronouns += [(_DATIVE, 0)] if dative_pronoun else []
    german: list[Piece] = [(_OPENING, 0)]
    if order == SUBJECT_FIRST:
        german += [(_SUBJECT, 0), _FINITE, *pronouns]
    elif order == VERB_FINAL:
        german += [(_SUBJECT, 0), *pronouns]
    else:
        german += [_FINITE, *pronouns, (_SUBJECT, 0)] if flags & PRONOUNS_FIRST else [_FINITE, (_SUBJECT, 0), *pronouns]
    indefinite = what == INDEFINITE or bool(flags & FUSED_NEGATION)
    dative_late = bool(flags & DATIVE_INDEFINITE)
    known: list[Piece] = [] if dative_pronoun or dative_late else [(_DATIVE, 0)]
    known += [(_OBJECT, 0)] if what == DEFINITE and not indefinite else []
    when: list[Piece] = [(_TIME, 0), (_FREQUENCY, 0), _ADVERB]
    german += [*known, *when] if flags & KNOWN_FIRST else [*when, *known]
    german += [(_CAUSE, 0), _NEGATION, (_ADVERBIAL, 0)]
    german += [(_DATIVE, 0)] if dative_late and not dative_pronoun else []
    german += [(_OBJECT, 0)] if indefinite and what != PRONOUN else []
    german += [(_PLACE, 0), (_COMPLEMENT, 0), _END]
    key = ((_OPENING, 0), *subject, *rest), tuple(german), bool(flags & FUSED_NEGATION)
    return _plans.setdefault(key, Plan(*key))


PLANS = tuple(
    tuple(tuple(_make_plan(order, what, flags) for flags in range(1 << NUM_FLAGS)) for what in range(3))
    for order in range(4)
)
"""All plans, by order, by what the object is, and by flags."""


def place_pronouns(subject: Nominal, direct: Nominal, dative: Nominal = NO_NOMINAL) -> int:
    """`PRONOUNS_FIRST`, if an object that is a pronoun may come before an inverted subject; else no flag."""
    if subject.what == PRONOUN or direct.phrase.german in _MISTAKABLE or dative.phrase.german in _MISTAKABLE:
        return 0
    return PRONOUNS_FIRST


def assemble(
    plan: Plan,
    verb: Complex,
    opening: Phrase = NOTHING,
    subject: Phrase = NOTHING,
    dative: Phrase = NOTHING,
    direct: Phrase = NOTHING,
    complement: Phrase = NOTHING,
    adverbial: Phrase = NOTHING,
    place: Phrase = NOTHING,
    cause: Phrase = NOTHING,
    time: Phrase = NOTHING,
    frequency: Phrase = NOTHING,
) -> Phrase:
    """The clause: all parts in the order of the plan.

    Most clauses have few of the parts. A mask says which: the low eight bits are for the pieces of the verb, the others
    for the slots in the order of the arguments.
    """
    english_pieces, german_pieces, mask, _, _ = verb
    parts: list[Phrase] = []
    if opening is not NOTHING:
        mask |= 1 << 8
        parts.append(opening)
    if subject is not NOTHING:
        mask |= 1 << 9
        parts.append(subject)
    if dative is not NOTHING:
        mask |= 1 << 10
        parts.append(dative)
    if direct is not NOTHING:
        mask |= 1 << 11
        parts.append(direct)
    if complement is not NOTHING:
        mask |= 1 << 12
        parts.append(complement)
    if adverbial is not NOTHING:
        mask |= 1 << 13
        parts.append(adverbial)
    if place is not NOTHING:
        mask |= 1 << 14
        parts.append(place)
    if cause is not NOTHING:
        mask |= 1 << 15
        parts.append(cause)
    if time is not NOTHING:
        mask |= 1 << 16
        parts.append(time)
    if frequency is not NOTHING:
        mask |= 1 << 17
        parts.append(frequency)
    layout = plan.layouts.get(mask)
    if layout is None:
        layout = plan.lay_out(mask)
    part_english, part_german, spellings = zip(*parts) if parts else _NO_PARTS  # noqa: B905 (strict costs time)
    return make_phrase((
        " ".join(layout[0](english_pieces + part_english)),
        " ".join(layout[1](german_pieces + part_german)),
        _make_spelling((verb, layout, spellings)),
    ))  # fmt: skip


_NO_PARTS: tuple[tuple[str, ...], tuple[str, ...], tuple[Spelling, ...]] = (), (), ()


class _ClauseSpelling(NamedTuple):
    """The spelling of a clause, from its verb, the layout and its other parts."""

    verb: Complex
    layout: Layout
    parts: tuple[Spelling, ...]

    def spell(self) -> Spelled:
        """All pieces where the layout puts them."""
        pieces = self.verb.spell()
        parts = [part.spell() for part in self.parts]
        take_english, take_german, places, english_verb, german_verb, fused = self.layout
        english: tuple[Tokens, ...] = take_english((*pieces[:3], *(part.english for part in parts)))
        german: tuple[Tokens, ...] = take_german((*pieces[3:], *(part.german for part in parts)))
        english_starts = list(accumulate(map(len, english), initial=0))
        german_starts = list(accumulate(map(len, german), initial=0))
        groups = [(e, d, part.links) for part, (e, d) in zip(parts, places, strict=True)]
        groups += [(english_verb[e], german_verb[d], links) for e, d, links in self.verb.groups]
        if fused:
            groups.append((*fused, (0,)))
        links = [code + (english_starts[e] << 7 | german_starts[d] << 1) for e, d, some in groups for code in some]
        return Spelled(tuple(chain.from_iterable(english)), tuple(chain.from_iterable(german)), links)


_make_spelling: Callable[[Any], _ClauseSpelling] = partial(tuple.__new__, _ClauseSpelling)
