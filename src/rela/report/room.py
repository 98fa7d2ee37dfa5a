"""Which sentences a page of limited size carries: the important ones first, the room shared fairly between models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from rela.report.encoding import pack
from rela.report.results import KINDS, Examples, Results, Weights

_FULL: Final = 0.02  # with less than this share of the room left, no more sentences are tried


class Room:
    """Bytes that are left."""

    def __init__(self, left: int) -> None:
        self.left = left

    def take(self, size: int) -> bool:
        """Take so many, if there are as many."""
        if size > self.left:
            return False
        self.left -= size
        return True


class Chosen(NamedTuple):
    """The elements for the page; for each model, how many sentences they are and how many have weights like NaN."""

    elements: list[str]
    carried: list[int]
    unusable: list[int]


def priority(results: Results) -> list[int]:
    """All sentences: those that findings point to, the strongest first; those with a role; then as in the file."""
    assert results.examples is not None
    findings: list[dict[str, Any]] = [found for entry in results.models for found in entry.info.get("findings") or []]
    findings.sort(key=_weakness)
    count = len(results.examples.sentences)
    pointed = [finding.get("sentence") for finding in findings]
    special = [number for number, found in enumerate(results.examples.sentences) if found.get("role") != "pair"]
    wanted = [number for number in pointed if isinstance(number, int) and 0 <= number < count]
    return list(dict.fromkeys([*wanted, *special, *range(count)]))


def _weakness(finding: dict[str, Any]) -> float:
    return -(finding.get("strength") or 0.0)


def choose_blocks(examples: Examples, order: Sequence[int], room: int) -> Chosen:
    """The weights of as many sentences as fit, tried in this order.

    Models with little to carry are served first; what they leave is shared by the others. So a sparse model carries all
    of its sentences, and a dense one fewer.
    """
    found = [_model_elements(examples, model, order, room) for model in range(len(examples.models))]
    sizes = [sum(map(len, elements)) for elements, _ in found]
    left = room
    chosen: list[list[str]] = [[] for _ in found]
    for place, model in enumerate(sorted(range(len(found)), key=sizes.__getitem__)):
        share = Room(left // (len(found) - place))
        chosen[model] = [element for element in found[model][0] if share.take(len(element) + 1)]
        left -= sum(len(element) + 1 for element in chosen[model])
    elements = [element for of_model in chosen for element in of_model]
    return Chosen(elements, [len(of_model) for of_model in chosen], [unusable for _, unusable in found])


def _model_elements(examples: Examples, model: int, order: Sequence[int], room: int) -> tuple[list[str], int]:
    """The elements of a model, no more than could fit if it had all the room; and how many sentences are unusable."""
    space = Room(room)
    elements: list[str] = []
    unusable = 0
    for number in order:
        kinds = _usable_weights(examples, model, number)
        if kinds is None:
            unusable += 1
        elif kinds:
            element = _element(model, number, kinds)
            if space.take(len(element) + 1):
                elements.append(element)
        if space.left < room * _FULL:
            break
    return elements, unusable


def _usable_weights(examples: Examples, model: int, number: int) -> dict[str, Weights] | None:
    """None if some are no numbers."""
    found = {kind: examples.weights(model, kind, number) for kind in KINDS}
    kinds = {kind: weights for kind, weights in found.items() if weights is not None}
    return kinds if all(np.isfinite(weights).all() for weights in kinds.values()) else None


def _element(model: int, number: int, kinds: dict[str, Weights]) -> str:
    block = pack(kinds)
    shapes = " ".join(f"{kind}:{'x'.join(map(str, shape))}" for kind, shape in block.shapes.items())
    return f'<script type="text/plain" id="w{model}-{number}" data-shapes="{shapes}">{block.text}</script>'
