"""Which sentences a page of limited size carries: the important ones first, the room shared fairly between models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from rela.report.encoding import pack
from rela.report.results import KINDS, Examples, Results, Weights

_MISFITS: Final = 4  # after so many sentences that are too large, a model's others are not tried


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

    The next sentence is always one of the model that has taken the least room so far. So models share it fairly, and
    what a sparse one leaves when it has all of its sentences goes to the dense ones.
    """
    models = [_Model(number, iter(order)) for number in range(len(examples.models))]
    space = Room(room)
    waiting = list(models)
    while waiting:
        model = min(waiting, key=_room_taken)
        sentence = next(model.sentences, None)
        if sentence is None or model.misfits == _MISFITS:
            waiting.remove(model)
            continue
        kinds = _usable_weights(examples, model.number, sentence)
        if kinds is None:
            model.unusable += 1
        elif kinds:
            model.add(_element(model.number, sentence, kinds), space)
    elements = [element for model in models for element in model.elements]
    return Chosen(elements, [len(model.elements) for model in models], [model.unusable for model in models])


@dataclass
class _Model:
    """What a model has got into the page so far."""

    number: int
    sentences: Iterator[int]
    elements: list[str] = field(default_factory=list[str])
    taken: int = 0
    misfits: int = 0  # in a row
    unusable: int = 0

    def add(self, element: str, space: Room) -> None:
        size = len(element) + 1  # they stand on lines of their own
        if space.take(size):
            self.elements.append(element)
            self.taken += size
            self.misfits = 0
        else:
            self.misfits += 1


def _room_taken(model: _Model) -> int:
    return model.taken


def _usable_weights(examples: Examples, model: int, number: int) -> dict[str, Weights] | None:
    """None if some are no numbers."""
    found = {kind: examples.weights(model, kind, number) for kind in KINDS}
    kinds = {kind: weights for kind, weights in found.items() if weights is not None}
    return kinds if all(np.isfinite(weights).all() for weights in kinds.values()) else None


def _element(model: int, number: int, kinds: dict[str, Weights]) -> str:
    block = pack(kinds)
    shapes = " ".join(f"{kind}:{'x'.join(map(str, shape))}" for kind, shape in block.shapes.items())
    return f'<script type="text/plain" id="w{model}-{number}" data-shapes="{shapes}">{block.text}</script>'
