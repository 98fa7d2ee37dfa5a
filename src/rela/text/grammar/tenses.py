"""Tenses: which ones go where, and how often."""

from __future__ import annotations

from typing import NamedTuple

from .complexes import (
    CAN,
    COULD,
    FUTURE,
    HAD_TO,
    HAVE_TO,
    INFINITIVE,
    MAY,
    MUST,
    PASSIVE_CAN,
    PASSIVE_FUTURE,
    PASSIVE_MUST,
    PASSIVE_PAST,
    PASSIVE_PERFECT,
    PASSIVE_PRESENT,
    PASSIVE_SHOULD,
    PAST,
    PERFECT,
    PRESENT,
    PROGRESSIVE,
    SHOULD,
    WANT,
    WANTED,
    WOULD_LIKE,
)


class Tenses(NamedTuple):
    """Tenses to draw from, more frequent ones several times."""

    active: tuple[int, ...]
    passive: tuple[int, ...]
    copular: tuple[int, ...]


FREELY = Tenses(
    (PRESENT,) * 20 + (PAST,) * 30 + (PERFECT,) * 13 + (FUTURE,) * 6 + (PROGRESSIVE,) * 6 + (CAN,) * 5 + (COULD,) * 2
    + (MUST,) * 3 + (HAVE_TO,) * 2 + (HAD_TO,) * 2 + (WANT,) * 3 + (WANTED,) * 2 + (SHOULD,) * 3 + (MAY,)
    + (WOULD_LIKE,) * 2,
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
IN_RELATIVE = (PRESENT,) * 4 + (PAST,) * 6 + (PERFECT,) * 3 + (CAN, MUST, WANT)
PASTS = frozenset({PAST, COULD, HAD_TO, WANTED})
WITH_NEVER = frozenset({PRESENT, PAST, PERFECT, PASSIVE_PRESENT, PASSIVE_PAST, PASSIVE_PERFECT})
AMBIGUOUS = frozenset({"read", "cut", "put"})
"""Verbs whose English past looks like their present but in the third person singular."""
ACTIVE = frozenset({
    PROGRESSIVE, CAN, COULD, MUST, HAVE_TO, HAD_TO, WANT, WANTED, SHOULD, MAY, WOULD_LIKE, INFINITIVE,
})  # fmt: skip
"""Tenses of what one does, not of what one is: nobody is knowing, has to like or comes in order to need."""
OBLIGING = frozenset({MUST, PASSIVE_MUST})
"""Tenses beside which *no* would not be *kein*: what nobody must do, "darf niemand"."""
VOLUNTARY = frozenset({WANT, WANTED, WOULD_LIKE, MAY})
"""Tenses of those who have a will: no tree wants to grow."""
