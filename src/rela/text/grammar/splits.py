"""Which sentences are for training and which for tests: by rules that hold for every seed, without a list of
sentences.

A sentence belongs to one of `train`, `dev` and `test` by a checksum of its English text. What `test-compositional`
is about never occurs in the others at all: combinations of a word with a role or frame, held out by a checksum too,
such as the verb *invite* in the passive. The word occurs in its other frames in training, and the frame with other
words.
"""

from __future__ import annotations

import zlib
from functools import cache
from typing import NamedTuple

from .lexicon import Noun, Verb, load_lexicon

SPLITS = ("train", "dev", "test", "test-compositional")
PASSIVE, PERFECT_FRAME, MODAL_FINAL = "passive", "perfect", "modal in a verb-final clause"
DATIVE_OBJECT, POSSESSOR, PLURAL_OBJECT = "dative object", "possessor", "plural accusative object"
VERB_FRAMES = (PASSIVE, PERFECT_FRAME, MODAL_FINAL)
NOUN_ROLES = (DATIVE_OBJECT, POSSESSOR, PLURAL_OBJECT)
NUM_PARTS = 32
PARTS_OF_SPLITS = {"dev": frozenset({0}), "test": frozenset({1}), "train": frozenset(range(2, NUM_PARTS))}
"""Into how many parts a checksum of their English text divides all sentences, and whose the parts are."""


class Combination(NamedTuple):
    """A word (``english=german`` for verbs, English for nouns) and the frame or role that it stands in."""

    word: str
    frame: str


def _picked(word: str, frame: str, one_in: int) -> bool:
    return zlib.crc32(f"{word}:{frame}".encode()) % one_in == 0


def possible_frames(verb: Verb) -> tuple[str, ...]:
    """The frames that may be held out for this verb. Its participle stays known, from the passive or the perfect."""
    if verb.frame in {"clausal", "interrogative", "infinitival", "copula"}:
        return ()
    return VERB_FRAMES if verb.passive else (MODAL_FINAL,)


def possible_roles(noun: Noun) -> tuple[str, ...]:
    """The roles that may be held out for this noun."""
    roles = (DATIVE_OBJECT, POSSESSOR) if noun.human else ()
    return roles if noun.mass else (*roles, PLURAL_OBJECT)


@cache
def held_out_combinations() -> frozenset[Combination]:
    """All combinations that only `test-compositional` has: about one in eleven."""
    lexicon = load_lexicon()
    found: set[Combination] = set()
    for verbs in lexicon.verbs.values():
        for verb in verbs:
            for frame in possible_frames(verb):
                if _picked(verb.key, frame, 11):
                    found.add(Combination(verb.key, frame))
    for nouns in lexicon.nouns.values():
        for noun in nouns:
            found |= {Combination(noun.key, role) for role in possible_roles(noun) if _picked(noun.key, role, 11)}
    both = {combination.word for combination in found if combination.frame == PASSIVE}
    return frozenset(c for c in found if not (c.frame == PERFECT_FRAME and c.word in both))
