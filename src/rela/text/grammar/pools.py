"""Pools: the words that may be drawn for each purpose, in training and in the compositional test.

For training a held-out word is simply not in the pool of its role, so that nothing has to be thrown away. For the
compositional test it is there, and more often than others.
"""

from __future__ import annotations

from functools import cache
from itertools import chain, combinations
from typing import TypeVar

from .lexicon import Lexicon, Noun, Verb, classes_of, load_lexicon
from .splits import NOUN_ROLES, VERB_FRAMES, Combination, held_out_combinations

W = TypeVar("W", Noun, Verb)
ANY = ""
"""No role that matters."""
NO_FRAMES: tuple[str, ...] = ()
"""No frame that matters."""
_BOOST = 6
"""How much more often a held-out word is drawn for the compositional test."""


class Pools:
    """Nouns by class and role; verbs by group and the frames that they are to stand in, all of which must be allowed.

    Groups are the frames of the lexicon, the passive, and what can be the subject or object. ``actions`` are those
    verbs that one can be asked or allowed to do.
    """

    def __init__(self, lexicon: Lexicon, held_out: frozenset[Combination], compositional: bool) -> None:
        self.held_out = held_out
        self._compositional = compositional
        self.nouns: dict[tuple[str, str], tuple[Noun, ...]] = {
            (cls, role): self._filter(nouns, (role,))
            for cls, nouns in lexicon.nouns.items()
            for role in (ANY, *NOUN_ROLES)
        }
        groups = {name: list(verbs) for name, verbs in lexicon.verbs.items()}
        groups["passive"] = [verb for verb in lexicon.verbs["transitive"] if verb.passive]
        for verb in lexicon.verbs["transitive"] + lexicon.verbs["intransitive"]:
            for cls in classes_of(verb.subject_class):
                groups.setdefault(f"{cls} does", []).append(verb)
            for cls in classes_of(verb.object_class) if verb.frame == "transitive" else ():
                groups.setdefault(f"done to {cls}", []).append(verb)
        some = chain.from_iterable(combinations(VERB_FRAMES, size) for size in range(len(VERB_FRAMES) + 1))
        self.verbs: dict[tuple[str, tuple[str, ...]], tuple[Verb, ...]] = {
            (group, frames): self._filter(tuple(verbs), frames) for frames in some for group, verbs in groups.items()
        }
        self.actions = {key: tuple(verb for verb in verbs if not verb.stative) for key, verbs in self.verbs.items()}

    def _filter(self, words: tuple[W, ...], frames: tuple[str, ...]) -> tuple[W, ...]:
        held = {combination.word for combination in self.held_out if combination.frame in frames}
        if not self._compositional:
            return tuple(word for word in words if word.key not in held)
        return tuple(copy for word in words for copy in [word] * (_BOOST if word.key in held else 1))


@cache
def get_pools(compositional: bool) -> Pools:
    return Pools(load_lexicon(), held_out_combinations(), compositional)
