"""English inflection by rule; the lexicon gives whatever the rules would get wrong."""

from __future__ import annotations

_SIBILANTS = ("s", "x", "z", "ch", "sh")
_CONSONANT_SOUNDS = ("uni", "use", "eu")
"""Openings that are written with a vowel and spoken with a consonant."""


def with_s(word: str) -> str:
    """Plural of a noun, third person of a verb."""
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(_SIBILANTS) or word in {"go", "do", "potato", "tomato"} else "s")


def with_ed(word: str) -> str:
    if word.endswith("e"):
        return word + "d"
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ied"
    return word + "ed"


def with_ing(word: str) -> str:
    return (word[:-1] if word.endswith("e") and not word.endswith("ee") else word) + "ing"


def takes_an(word: str) -> bool:
    """Whether the indefinite article before ``word`` is *an*."""
    if word.startswith(("hour", "honest")):
        return True
    return word[0] in "aeiou" and not word.startswith(_CONSONANT_SOUNDS)


class EnglishVerb:
    """All forms of one English verb; ``tail`` holds fixed particles (*turn* ``on``)."""

    __slots__ = ("base", "gerund", "participle", "past", "tail", "third")

    def __init__(self, parts: list[str]) -> None:
        self.base, *tail = parts[0].split("_")
        self.tail = tuple(tail)
        self.third = "has" if self.base == "have" else with_s(self.base)
        regular = with_ed(self.base)
        self.past = parts[1] if len(parts) > 1 else regular
        self.participle = parts[2] if len(parts) > 2 else regular
        self.gerund = parts[3] if len(parts) > 3 else with_ing(self.base)
