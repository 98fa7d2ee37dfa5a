"""Findings and the example sentences that show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from rela.analysis.finding import Finding, most_interesting
from rela.analysis.findings import other_findings
from rela.analysis.inspection import Inspection
from rela.analysis.sample import Example
from rela.analysis.tags import START, categories

_LOOKABLE: Final = range(5, 31)
"""Target words of a sentence that shows a finding well."""


class Evidence:
    """For each finding the example that shows it best, of all that are looked at."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        self._found = list(findings)
        self._gaps = [-np.inf] * len(self._found)

    def look(self, place: int, example: Example, inspection: Inspection) -> None:
        """One example, by its place in the file."""
        for number, finding in enumerate(self._found):
            gap = _gap(finding, example, inspection)
            if gap is not None and gap > self._gaps[number]:
                self._gaps[number] = gap
                self._found[number] = replace(finding, sentence=place)

    @property
    def findings(self) -> list[Finding]:
        """All of them, with their examples."""
        return self._found


def _gap(finding: Finding, example: Example, inspection: Inspection) -> float | None:
    """How much more the head is null at the category's words than elsewhere in a sentence, or less; a few words more.

    None: there is nothing to be seen.
    """
    if finding.kind is None or finding.layer is None or finding.head is None or finding.category is None:
        return None
    if example.role != "pair" or example.target_tags is None or len(inspection.target_words) not in _LOOKABLE:
        return None
    null = inspection.null(finding.kind)[finding.layer, finding.head]
    inside = np.zeros(len(null), bool)
    inside[0] = finding.category == START
    named = categories(inspection.target_words, example.target_tags)
    for pieces, words in zip(inspection.target_word_pieces, named, strict=True):
        if pieces and finding.category in words:
            inside[pieces[-1] + 1] = True
    if not inside.any() or inside.all():
        return None
    return float(abs(null[inside].mean() - null[~inside].mean()) + 0.02 * min(int(inside.sum()), 5))


def add_findings(entries: Sequence[dict[str, Any]], found: Sequence[Sequence[Finding]]) -> None:
    """Into each model's entry its findings, the strongest first; ``found`` are those that its numbers do not show."""
    measures = {entry["name"]: entry["measures"] for entry in entries}
    for entry, of_model in zip(entries, found, strict=True):
        others = {name: other for name, other in measures.items() if name != entry["name"]}
        general = other_findings(entry["measures"], others)
        ordered = sorted([*of_model, *general], key=lambda finding: -finding.strength)
        best = most_interesting(ordered)
        rest = [finding for finding in ordered if finding not in best]
        entry["findings"] = [finding.to_json() for finding in [*best, *rest]]
