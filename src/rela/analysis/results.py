"""The numbers of a model as results.json has them, each with its signature; and the means of models of one group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

FORMAT: Final = "rela-results-1"
RESULTS_FILE: Final = "results.json"
EXAMPLES_FILE: Final = "attention.npz"

Values = NDArray[Any]
Measures = dict[str, dict[str, Any]]


def measure(
    value: Values | float, axes: Sequence[str], signature: str, labels: Mapping[str, list[str]] | None = None
) -> dict[str, Any]:
    """One entry."""
    array = np.asarray(value, np.float64)
    assert array.ndim == len(axes), (signature, array.shape, axes)
    return {"signature": signature, "axes": list(axes), "labels": dict(labels or {}), "value": plain(array)}


def plain(value: Values) -> Any:
    """Numbers as JSON has them: seven digits that count, and null where there is none."""
    if value.ndim == 0:
        number = float(value)
        return float(f"{number:.7g}") if np.isfinite(number) else None
    return [plain(part) for part in value]


def grouped(models: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each group its models, and of each measure that all of them have the mean and the spread.

    What has an axis ``head`` stands in the models alone: head 2 of one seed is not head 2 of another.
    """
    groups: dict[str, list[dict[str, Any]]] = {}
    for model in models:
        groups.setdefault(model["group"], []).append(model)
    return [_group(name, members) for name, members in groups.items()]


def _group(name: str, members: Sequence[dict[str, Any]]) -> dict[str, Any]:
    found: Measures = {}
    for measure_name, first in members[0]["measures"].items():
        if "head" in first["axes"]:
            continue
        others = [member["measures"].get(measure_name) for member in members]
        values = [_array(one["value"]) for one in others if one is not None and one["labels"] == first["labels"]]
        if len(values) < len(members):
            continue
        stacked = np.stack(values)
        found[measure_name] = {
            "signature": _joint_signature([one["signature"] for one in others if one is not None]),
            "axes": first["axes"],
            "labels": first["labels"],
            "mean": plain(stacked.mean(0)),
            "spread": plain(stacked.std(0, ddof=1)) if len(members) > 1 else None,
        }
    return {"name": name, "models": [member["name"] for member in members], "measures": found}


def _array(value: Any) -> NDArray[np.float64]:
    return np.array(value, dtype=np.float64)


def _joint_signature(signatures: Sequence[str]) -> str:
    """One for all: parts in which they differ are joined by commas."""
    if len(set(signatures)) == 1:
        return signatures[0]
    columns = zip(*(signature.split("|") for signature in signatures), strict=True)
    joined: list[str] = []
    for column in columns:
        different = list(dict.fromkeys(column))
        key, _, first = different[0].partition(":")
        rest = [part.partition(":")[2] for part in different[1:]]
        joined.append(different[0] if len(different) == 1 else f"{key}:{','.join([first, *rest])}")
    return "|".join(joined)
