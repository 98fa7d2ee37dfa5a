"""The result files, as the report reads them: docs/results-format.md says what is in them."""

from __future__ import annotations

import json
import zipfile
import zlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

RESULTS_FORMAT: Final = "rela-results-1"
EXAMPLES_FORMAT: Final = "rela-examples-1"
_BROKEN: Final = (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error)
"""What numpy raises for a file that is none of its own, or was cut off."""
RESULTS_FILE: Final = "results.json"
EXAMPLES_FILE: Final = "attention.npz"
PAGE_FILE: Final = "report.html"
KINDS: Final = ("encoder", "decoder", "cross")

Values = NDArray[np.float64]
Weights = NDArray[np.float32]


@dataclass(frozen=True)
class Measure:
    """Numbers along named axes; NaN where there is nothing to measure. ``spread`` is that over a group's models."""

    signature: str
    axes: tuple[str, ...]
    labels: dict[str, list[str]]
    value: Values
    spread: Values | None = None


@dataclass(frozen=True)
class Entry:
    """A model, or a group of models that differ in their seed alone. ``info`` is the rest of its entry in the file."""

    name: str
    measures: dict[str, Measure]
    info: dict[str, Any]


def specialists(entry: Entry) -> list[dict[str, Any]]:
    """The findings about heads that fire or fall silent after words of one category, the strongest first."""
    found = [finding for finding in entry.info.get("findings", []) if finding.get("sort") == "specialist"]
    return sorted(found, key=lambda finding: -finding["strength"])


@dataclass
class Examples:
    """Example sentences, and their weights for each model, read from the file when they are asked for."""

    models: list[str]
    sentences: list[dict[str, Any]]
    path: Path

    def weights(self, model: int, kind: str, sentence: int) -> Weights | None:
        """``[layer, head, query, key]``; None if the file has none for this model."""
        try:
            return self._archive.get(f"{model}.{kind}.{sentence}")
        except _BROKEN as error:
            raise _broken_examples(self.path, error) from None

    def has(self, model: int, kind: str, sentence: int) -> bool:
        """Whether the file has such weights."""
        return f"{model}.{kind}.{sentence}" in self._archive

    @cached_property
    def _archive(self) -> Any:
        return np.load(self.path, allow_pickle=False)


@dataclass(frozen=True)
class Results:
    """All that the report knows."""

    data: dict[str, Any]
    models: list[Entry]
    groups: list[Entry]
    examples: Examples | None


def load_results(path: Path, *, remedy: str = "`rela analyze` makes one") -> Results:
    """Read ``results.json`` and, if it is there, ``attention.npz`` beside it. ``path`` is the file or its folder.

    ``remedy`` says in errors where such a file comes from.
    """
    file = path / RESULTS_FILE if path.is_dir() else path
    if not file.is_file():
        raise FileNotFoundError(f"{file}: expected a file of results, there is none; {remedy}")
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file}: expected JSON, got {error}; {remedy}") from None
    return to_results(data, load_examples(file.parent / EXAMPLES_FILE), where=str(file), remedy=remedy)


def to_results(data: Any, examples: Examples | None, *, where: str, remedy: str) -> Results:
    """What is in a file of results, as read from JSON; ``where`` says in errors which it is."""
    found = data.get("format") if isinstance(data, dict) else type(data).__name__
    if found != RESULTS_FORMAT:
        got = "a file without any" if found is None else repr(found)
        raise ValueError(f"{where}: expected results of the format {RESULTS_FORMAT!r}, got {got}; {remedy}")
    try:
        models = [_entry(entry) for entry in data["models"]]
        groups = [_entry(entry) for entry in data["groups"]]
        facts = dict(data["data"])
    except _MisfitError as error:
        raise ValueError(f"{where}: {error}; {remedy}") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(
            f"{where}: expected data, models and groups, got an entry that does not fit: {error!r}"
        ) from None
    return Results(facts, models, groups, examples)


class _MisfitError(ValueError):
    """A measure whose numbers do not fit; the message says which one it is, and of what."""


def _entry(entry: dict[str, Any]) -> Entry:
    measures = {name: _measure(found, f"{name!r} of {entry['name']!r}") for name, found in entry["measures"].items()}
    return Entry(entry["name"], measures, {key: value for key, value in entry.items() if key != "measures"})


def _measure(found: dict[str, Any], name: str) -> Measure:
    """``name`` says in errors which one it is."""
    value = _numbers(found["value"] if "value" in found else found["mean"], name)
    spread = found.get("spread")
    axes = tuple(found["axes"])
    if value.ndim != len(axes):
        raise _MisfitError(f"measure {name}: expected the axes {axes}, got {value.ndim}")
    return Measure(
        found["signature"],
        axes,
        found.get("labels", {}),
        value,
        None if spread is None else _numbers(spread, f"{name} (spread)"),
    )


def _numbers(value: Any, name: str) -> Values:
    try:
        return np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        got = "lists of unequal length: not rectangular" if _shape(value) is None else "something else among them"
        raise _MisfitError(f"measure {name}: expected numbers, got {got}") from None


def _shape(value: Any) -> tuple[int, ...] | None:
    """The lengths of nested lists from the outside in; None if those at one depth have different ones."""
    if not isinstance(value, list):
        return ()
    shapes = {_shape(part) for part in cast("list[Any]", value)}
    inner = next(iter(shapes), ())
    return None if len(shapes) > 1 or inner is None else (len(cast("list[Any]", value)), *inner)


def load_examples(path: Path) -> Examples | None:
    """The example sentences in a file; None if there is no such file."""
    if not path.is_file():
        return None
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            data = cast("dict[str, Any]", json.loads(str(archive["examples"])))
        if data["format"] != EXAMPLES_FORMAT:
            raise ValueError(f"the format {data['format']!r}")
        return Examples(data["models"], data["sentences"], path)
    except _BROKEN as error:
        raise _broken_examples(path, error) from None


def _broken_examples(path: Path, error: Exception) -> ValueError:
    return ValueError(
        f"{path}: expected examples of format {EXAMPLES_FORMAT!r}, got {error}; make them anew with `rela analyze`, or "
        "move the file away to show the numbers alone"
    )
