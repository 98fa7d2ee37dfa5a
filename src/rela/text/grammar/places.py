"""Where something is done, where to, with whom, and why."""

from __future__ import annotations

from .closed import HOME, IN_CITY, PLACES, TO_CITY
from .german import ACCUSATIVE, DATIVE, GENITIVE
from .lexicon import Verb
from .nominals import KNOWN, Drawer
from .phrases import NOTHING, Phrase, preposition

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
    (DATIVE, preposition("with", "mit")), (DATIVE, preposition("with", "mit")),
    (ACCUSATIVE, preposition("without", "ohne")), (ACCUSATIVE, preposition("for", "für")),
)  # fmt: skip


class Placer(Drawer):
    """Draws directions and places."""

    def draw_direction(self) -> Phrase:
        """Where to: *zu* a building, an occasion or a person, *in* a room or a place outdoors; or home."""
        chance = self.random()
        if chance < 0.1:
            return HOME
        if chance < 0.6:
            cls = "building" if chance < 0.4 else "occasion" if chance < 0.5 else "human"
            return self.draw_nominal(cls, DATIVE, KNOWN, 0, _TO).phrase
        return self.draw_nominal("inside", ACCUSATIVE, KNOWN, 0, _INTO).phrase

    def draw_destination(self, verb: Verb) -> Phrase:
        """Where to, from afar."""
        if verb.english.base == "drive" and self.random() < 0.5:
            return self.draw_nominal("building", DATIVE, KNOWN, 0, _TO).phrase
        return self.pick(TO_CITY)

    def draw_surroundings(self, where: str) -> Phrase:
        """Where there is something: in a *city*, *near* a building, or in what is of this class."""
        if where == "city":
            return self.pick(IN_CITY)
        near = where == "near"
        before = self.pick(_AROUND) if near else _IN
        return self.draw_nominal("building" if near else where, DATIVE, KNOWN, 0, before).phrase

    def draw_location(self, cls: str) -> Phrase:
        """Where, for verbs that need it."""
        chance = self.random()
        if chance < 0.25:
            return self.pick(IN_CITY)
        if chance < 0.35 and cls == "inside":
            return self.pick(PLACES)
        if chance < 0.5:
            return self.draw_nominal("building", DATIVE, KNOWN, 0, self.pick(_AROUND)).phrase
        return self.draw_nominal(cls, DATIVE, KNOWN, 0, _IN).phrase

    def draw_circumstance(self, directed: bool, passive: bool) -> tuple[Phrase, Phrase, Phrase]:
        """One of an adverb of place or company, a place, and a cause, each for a slot of its own.

        With a verb that is ``directed`` there is no adverb of place: *carry the bag upstairs* says where to. In the
        ``passive`` company comes after the agent, as a place does.
        """
        chance = self.random()
        if chance < 0.12:
            return NOTHING if directed else self.pick(PLACES), NOTHING, NOTHING
        if chance < 0.76:
            return NOTHING, self._draw_place(chance), NOTHING
        if chance < 0.88:
            case, before = self.pick(_COMPANY)
            company = self.draw_nominal("human", case, KNOWN, -1, before).phrase
            return (NOTHING, company, NOTHING) if passive else (company, NOTHING, NOTHING)
        if chance < 0.95:
            return NOTHING, NOTHING, self.draw_nominal("human", GENITIVE, KNOWN, 0, _BECAUSE_OF).phrase
        before = _DURING if chance < 0.98 else _DESPITE
        return NOTHING, NOTHING, self.draw_nominal("event", GENITIVE, KNOWN, 0, before).phrase

    def _draw_place(self, chance: float) -> Phrase:
        if chance < 0.2:
            return self.pick(IN_CITY)
        if chance < 0.55:
            return self.draw_nominal("inside", DATIVE, KNOWN, 0, _IN).phrase
        if chance < 0.65:
            return self.draw_nominal("building", DATIVE, KNOWN, 0, self.pick(_AROUND)).phrase
        if chance < 0.73:
            return self.draw_nominal("spot", DATIVE, KNOWN, 0, _ON).phrase
        return self.draw_nominal("plant", DATIVE, KNOWN, 0, _UNDER).phrase
