"""What is remarkable about a model, found in its measures and said in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rela.analysis.finders import FINDERS, Measures, diversity
from rela.analysis.finding import Finding, head_name, percent
from rela.analysis.tags import START, TaggedNulls

Values = NDArray[np.float64]

_AFTER: Final = {
    START: "at the start of a sentence",
    "ADJ": "after adjectives",
    "ADP": "after adpositions",
    "ADV": "after adverbs",
    "AUX": "after auxiliary verbs",
    "CCONJ": "after coordinating conjunctions",
    "DET": "after determiners",
    "INTJ": "after interjections",
    "NOUN": "after nouns",
    "NUM": "after numerals",
    "PART": "after particles",
    "PRON": "after pronouns",
    "PROPN": "after proper nouns",
    "PUNCT": "after punctuation marks",
    "PUNCT ,": "after commas",
    "PUNCT .": "after full stops",
    "PUNCT ?": "after question marks",
    "PUNCT !": "after exclamation marks",
    "PUNCT :": "after colons",
    "PUNCT ;": "after semicolons",
    "SCONJ": "after subordinating conjunctions",
    "SYM": "after symbols",
    "VERB": "after verbs",
}
_ENDS: Final = frozenset((START, "PUNCT", "PUNCT .", "PUNCT ?", "PUNCT !"))
_END_WEIGHT: Final = 0.6
"""At the ends of a sentence heads may fire for the place alone: such findings are worth less than those on words."""
_FEWEST_ROWS: Final = 30
_CERTAINTY: Final = 3.0  # standard deviations: many heads and many categories are looked at
_LEAST_GAP: Final = 0.2


def after(category: str) -> str:
    """Where the rows of a category are, in words."""
    if category in _AFTER:
        return _AFTER[category]
    kind, _, mark = category.partition(" ")
    return f"after {mark!r}" if kind == "PUNCT" and mark else f"after words tagged {category}"


def specialists(by_tag: TaggedNulls, *, fewest_rows: int = _FEWEST_ROWS) -> list[Finding]:
    """Heads that fire, or fall silent, after words of one category; the strongest first, each head once.

    The strength is the gap between the null rates there and elsewhere that is left when both are taken at the ends of
    their Wilson intervals that are nearest each other: what few rows show by chance has none. At the ends of a sentence
    it counts less. The decoder's row at the start has a single key, so there is nothing to be found there.
    """
    found: list[Finding] = []
    enough = np.minimum(by_tag.counts, by_tag.rows - by_tag.counts) >= fewest_rows
    places = enough.nonzero()[0]
    if not len(places):
        return []
    counts = by_tag.counts[places][:, None, None]
    for kind, nulls in by_tag.nulls.items():
        inside = nulls[places]  # [category, layer, head]
        outside = by_tag.all_nulls[kind] - inside
        names = [by_tag.categories[place] for place in places]
        worth = np.array([_END_WEIGHT if name in _ENDS else 1.0 for name in names])
        if kind == "decoder":
            worth[[name == START for name in names]] = 0
        gaps = _sure_gap(inside, counts, outside, by_tag.rows - counts) * worth[:, None, None]
        for layer, head in np.ndindex(gaps.shape[1:]):
            best = int(gaps[:, layer, head].argmax())
            gap = float(gaps[best, layer, head])
            if gap < _LEAST_GAP:
                continue
            there = float(inside[best, layer, head] / counts[best, 0, 0])
            elsewhere = float(outside[best, layer, head] / (by_tag.rows - counts[best, 0, 0]))
            text = (
                f"{head_name(kind, layer, head)} {_verb(there, elsewhere)} {after(names[best])}: null {percent(there)} "
                f"there, {percent(elsewhere)} elsewhere."
            )
            found.append(
                Finding(
                    text=text, strength=gap, sort="specialist", kind=kind, layer=layer, head=head, category=names[best]
                )
            )
    return sorted(found, key=lambda finding: -finding.strength)


def _verb(there: float, elsewhere: float) -> str:
    if there < elsewhere:
        return "fires" if there < 0.5 <= elsewhere else "fires more often"
    return "is silent" if elsewhere < 0.5 <= there else "is silent more often"


def _sure_gap(
    first: NDArray[np.int64], first_rows: NDArray[np.int64], second: NDArray[np.int64], second_rows: NDArray[np.int64]
) -> Values:
    """How far two rates are apart at least, by the intervals that both are in with certainty; 0 if these overlap."""
    low, high = wilson(first, first_rows)
    other_low, other_high = wilson(second, second_rows)
    return np.maximum(0, np.maximum(low - other_high, other_low - high))


def wilson(successes: NDArray[Any], trials: NDArray[Any], deviations: float = _CERTAINTY) -> tuple[Values, Values]:
    """Wilson's interval of a rate."""
    rate, squared = successes / trials, deviations**2
    middle = (rate + squared / (2 * trials)) / (1 + squared / trials)
    half = deviations / (1 + squared / trials) * np.sqrt(rate * (1 - rate) / trials + squared / (4 * trials**2))
    return middle - half, middle + half


def other_findings(measures: Measures, others: Mapping[str, Measures] | None = None) -> list[Finding]:
    """What else is remarkable, from a model's ``measures`` as ``results.json`` has them; the strongest first.

    ``others`` are the measures of further models on the same data, by their names, to compare with.
    """
    found = [finding for find in FINDERS for finding in find(measures)]
    found += diversity(measures, others or {})
    return sorted(found, key=lambda finding: -finding.strength)
