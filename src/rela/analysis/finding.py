"""One finding: a sentence that says what is remarkable about a model, and how remarkable it is."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rela.attention.spec import Kind


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something remarkable about a model, in words and with its numbers.

    Attributes:
        text: the sentence; in it, layers count from 1 and heads from 0.
        strength: from 0 (nothing special) to 1.
        sort: what it is about; of each sort, :func:`most_interesting` takes one.
        kind: the attention it is about, if it is about one kind.
        layer: the layer, counted from 0, if it is about one head.
        head: the head, counted from 0.
        category: the category of words it is about, as in ``PUNCT ,``.
        sentence: an example that shows it, by its place in ``attention.npz``.
    """

    text: str
    strength: float
    sort: str
    kind: Kind | None = None
    layer: int | None = None
    head: int | None = None
    category: str | None = None
    sentence: int | None = None

    def __post_init__(self) -> None:
        assert 0 <= self.strength <= 1, self

    def to_json(self) -> dict[str, Any]:
        """As ``results.json`` has it: there, layers count from 1."""
        return {
            "text": self.text,
            "strength": round(self.strength, 4),
            "sort": self.sort,
            "kind": self.kind,
            "layer": None if self.layer is None else self.layer + 1,
            "head": self.head,
            "category": self.category,
            "sentence": self.sentence,
        }


def most_interesting(findings: Iterable[Finding], count: int = 3) -> list[Finding]:
    """The strongest, at most one of each sort."""
    chosen: dict[str, Finding] = {}
    for finding in sorted(findings, key=lambda finding: -finding.strength):
        chosen.setdefault(finding.sort, finding)
    return list(chosen.values())[:count]


def head_name(kind: Kind, layer: int, head: int) -> str:
    """A head as people call it, the first layer being number 1."""
    return f"Layer {layer + 1} head {head} ({kind})"


def percent(share: float) -> str:
    """A share in as few digits as tell it from none and from all: 0% and 100% are exact."""
    value = 100 * share
    for digits in range(4):
        text = f"{value:.{digits}f}"
        if float(text) not in (0.0, 100.0) or float(text) == value:
            return f"{text}%"
    return "under 0.001%" if value < 50 else "over 99.999%"


def number(value: float) -> str:
    """Two digits that count: 0.042, 1.4, 130."""
    if value == 0:
        return "0"
    rounded = float(f"{value:.1e}")
    return f"{rounded:,.{max(0, 1 - math.floor(math.log10(abs(rounded))))}f}"
