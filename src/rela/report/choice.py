"""Which of the results a figure or table shows, and why it may show none."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from rela.report.results import KINDS, Entry, Measure, Results, Values


class AbsentError(ValueError):
    """There is nothing to show; the message says what is missing."""


def entries_of(results: Results) -> list[Entry]:
    """The groups or, in a file without any, the models."""
    return results.groups or results.models


def models_of(results: Results, group: Entry) -> list[Entry]:
    """The models of a group, in its order; a model is a group of one."""
    by_name = {model.name: model for model in results.models}
    names = group.info.get("models", [group.name])
    return [by_name[name] for name in names if name in by_name]


def has_numbers(measure: Measure | None) -> bool:
    """Whether there is a number in it."""
    return measure is not None and bool(np.isfinite(measure.value).any())


def with_measure(results: Results, name: str, why: str) -> list[Entry]:
    """The groups that have the measure; ``why`` tells the user what it would take."""
    found = [entry for entry in entries_of(results) if has_numbers(entry.measures.get(name))]
    if not found:
        raise AbsentError(f"no {name} in the results: {why}")
    return found


def with_heads(results: Results, name: str, why: str) -> list[Entry]:
    """The groups with a model that has the measure, one of single heads; ``why`` as in :func:`with_measure`."""
    found = [entry for entry in entries_of(results) if of_heads(results, entry, name)]
    if not found:
        raise AbsentError(f"no {name} in the results: {why}")
    return found


def of_heads(results: Results, group: Entry, name: str) -> list[Measure]:
    """A measure of single heads, from each of the group's models that has it: seeds have no heads in common."""
    found = (model.measures.get(name) for model in models_of(results, group))
    return [measure for measure in found if measure is not None and has_numbers(measure)]


def over_models(
    results: Results, group: Entry, reduce: Callable[[Entry], Values | None]
) -> tuple[Values, Values | None] | None:
    """Mean and spread over a group's models of a number that is worked out for each of them."""
    found = [value for model in models_of(results, group) if (value := reduce(model)) is not None]
    if not found:
        return None
    values = np.array(found)
    return values.mean(0), values.std(0, ddof=1) if len(found) > 1 else None


def mean_without_nan(values: Values, axis: int | None = None) -> Values:
    """The mean of the numbers that are there; NaN, without a warning, where there are none."""
    there = np.isfinite(values)
    count = there.sum(axis)
    total = np.where(there, values, 0).sum(axis)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def has_nulls(entry: Entry) -> bool:
    """Whether some head attends to nothing somewhere."""
    measures = (entry.measures.get(f"{kind}.null.layer") for kind in KINDS)
    return any(measure is not None and bool((measure.value > 0).any()) for measure in measures)


def slug(names: Sequence[str]) -> list[str]:
    """File names for names: no two the same."""
    found: list[str] = []
    for name in names:
        base = re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-.") or "model"
        number, unique = 1, base
        while unique in found:
            number += 1
            unique = f"{base}-{number}"
        found.append(unique)
    return found
