"""Pools: the words that may be drawn for each purpose, in training and in the compositional test.

For training a held-out word is simply not in the pool of its role, so that nothing has to be thrown away. For the
compositional test it is there, and more often than others.
"""

from __future__ import annotations

from functools import cache
from typing import TypeVar

from .lexicon import Lexicon, Noun, Verb, classes_of, load_lexicon
from .splits import MODAL_FINAL, NOUN_ROLES, PASSIVE, PERFECT_FRAME, Combination, held_out_combinations

W = TypeVar("W", Noun, Verb)
ANY = ""
"""No role or frame that matters."""
_BOOST = 6
"""How much more often a held-out word is drawn for the compositional test."""


class Pools:
    """Nouns by class and role; verbs by frame and held-out frame, and by what can be their subject or object.

    ``actions`` are those verbs that one can be asked or allowed to do.
    """

    def __init__(self, lexicon: Lexicon, held_out: frozenset[Combination], compositional: bool) -> None:
        self.held_out = held_out
        self._compositional = compositional
        self.nouns: dict[tuple[str, str], tuple[Noun, ...]] = {
            (cls, role): self._filter(nouns, role)
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
        frames = (ANY, PASSIVE, PERFECT_FRAME, MODAL_FINAL)
        self.verbs: dict[tuple[str, str], tuple[Verb, ...]] = {
            (group, frame): self._filter(tuple(verbs), frame) for group, verbs in groups.items() for frame in frames
        }
        self.actions = {key: tuple(verb for verb in verbs if not verb.stative) for key, verbs in self.verbs.items()}

    def _filter(self, words: tuple[W, ...], frame: str) -> tuple[W, ...]:
        if frame == ANY:
            return words
        held = {combination.word for combination in self.held_out if combination.frame == frame}
        if not self._compositional:
            return tuple(word for word in words if word.key not in held)
        return tuple(copy for word in words for copy in [word] * (_BOOST if word.key in held else 1))


@cache
def get_pools(compositional: bool) -> Pools:
    return Pools(load_lexicon(), held_out_combinations(), compositional)
