"""The microscope: one HTML file with all numbers and the weights of example sentences, which needs no network."""

from __future__ import annotations

import html
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from rela._files import write_text
from rela._version import __version__
from rela.report.choice import entries_of
from rela.report.palette import looks_of
from rela.report.parts import asset, fill, to_json
from rela.report.results import Entry, Examples, Measure, Results
from rela.report.room import Room, choose_blocks, priority

# In this order: a file uses names of those before it when it is read, and of any when the page runs.
SCRIPTS: Final = (
    "dom.js",
    "numbers.js",
    "data.js",
    "colours.js",
    "marks.js",
    "weights.js",
    "axes.js",
    "matrix.js",
    "state.js",
    "hover.js",
    "charts.js",
    "labels.js",
    "bars.js",
    "facts.js",
    "overview.js",
    "explorer.js",
    "heads.js",
    "heatmap.js",
    "drawing.js",
    "links.js",
    "thumbnails.js",
    "pane.js",
    "toolbar.js",
    "sentences.js",
    "viewer.js",
    "keyboard.js",
    "main.js",
)
_DIGITS: Final = 7  # as many as results.json has: with fewer, what is rounded again for people may end in another digit


@dataclass(frozen=True)
class PageSummary:
    """What got into a page. ``sentences`` counts those whose weights it carries, for each model."""

    path: Path
    num_bytes: int
    total_sentences: int
    listed_sentences: int
    sentences: dict[str, int]


def write_page(results: Results, path: Path, *, max_bytes: int = 5_000_000, title: str | None = None) -> PageSummary:
    """Write the page, of at most ``max_bytes``.

    All numbers are in it. Of the sentences it has as many as there is room for: first their text, then the weights,
    shared fairly between models. Those that findings point to come first, then those with a role of their own.
    """
    fixed = {
        "title": html.escape(title or _default_title(results)),
        "style": asset("page.css"),
        "script": "\n".join(asset(name) for name in SCRIPTS),
    }
    template = asset("page.html")
    data = _describe(results, title)
    empty = fill(template, {**fixed, "data": to_json(data), "weights": ""})
    room = max_bytes - _size(empty)
    if room < 0:
        raise ValueError(
            f"{path}: expected at least {_size(empty)} bytes for a page with these numbers and no sentence, "
            f"got max_bytes {max_bytes}; allow more, or report fewer models"
        )
    if results.examples is None or not results.examples.sentences:
        write_text(path, empty)
        return PageSummary(path, _size(empty), 0, 0, {})

    listed, data["examples"] = _list_sentences(results, results.examples, room // 2)
    text = fill(template, {**fixed, "data": to_json(data), "weights": ""})
    chosen = choose_blocks(results.examples, listed, max_bytes - _size(text))
    data["examples"]["unusable"] = chosen.unusable
    page = fill(template, {**fixed, "data": to_json(data), "weights": "\n".join(chosen.elements)})
    write_text(path, page)
    carried = dict(zip(results.examples.models, chosen.carried, strict=True))
    return PageSummary(path, _size(page), len(results.examples.sentences), len(listed), carried)


# ---------------------------------------------------------------------- the data


def _describe(results: Results, title: str | None) -> dict[str, Any]:
    names = {entry.name for entry in results.models}
    return {
        "version": __version__,
        "title": title,
        "data": results.data,
        "names": _file_names(results.data),
        "models": [_describe_entry(entry) for entry in results.models],
        "groups": [_describe_group(entry, names) for entry in results.groups],
        "looks": _describe_looks(results),
        "has_examples_file": results.examples is not None,
        "examples": None,
    }


def _describe_entry(entry: Entry) -> dict[str, Any]:
    measures = {name: _describe_measure(measure) for name, measure in entry.measures.items()}
    return {**entry.info, "name": entry.name, "measures": measures}


def _describe_group(entry: Entry, models: set[str]) -> dict[str, Any]:
    """A group of one has the numbers of its model: they are not written twice."""
    members = entry.info.get("models") or []
    if len(members) == 1 and members[0] in models:
        return {"name": entry.name, "models": members, "measures": None}
    return _describe_entry(entry)


def _describe_looks(results: Results) -> list[dict[str, Any]]:
    """Of the groups or, in a file without any, of the models; then of models that are in no group."""
    entries = entries_of(results)
    names = [entry.name for entry in entries]
    members = {name for entry in entries for name in entry.info.get("models") or [entry.name]}
    models = [entry.name for entry in results.models] + (results.examples.models if results.examples else [])
    names += [name for name in dict.fromkeys(models) if name not in members and name not in names]
    return [
        {"name": name, "light": look.light, "dark": look.dark, "marker": look.marker, "dashes": look.dashes}
        for name, look in looks_of(names).items()
    ]


def _describe_measure(measure: Measure) -> dict[str, Any]:
    described: dict[str, Any] = {
        "signature": measure.signature,
        "axes": measure.axes,
        "labels": measure.labels,
        "value": _rounded(measure.value),
    }
    if measure.spread is not None:
        described["spread"] = _rounded(measure.spread)
    return described


def _list_sentences(results: Results, examples: Examples, room: int) -> tuple[list[int], dict[str, Any]]:
    """Those whose text fits into the room: their numbers, important ones first, and what the page has of them."""
    order = priority(results)
    texts = {number: _describe_sentence(number, examples.sentences[number]) for number in order}
    space = Room(room)
    listed = [number for number in order if space.take(_size(to_json(texts[number])) + 1)]
    described: dict[str, Any] = {
        "models": examples.models,
        "total": len(examples.sentences),
        "sentences": [texts[number] for number in sorted(listed)],
        "unusable": [len(examples.sentences)] * len(examples.models),  # at most; so the text can only get shorter
    }
    return listed, described


def _describe_sentence(number: int, sentence: dict[str, Any]) -> dict[str, Any]:
    """With the pieces once, when models split the text alike."""
    keys = ("source_pieces", "target_pieces", "source_piece_words", "target_piece_words")
    forms: list[dict[str, Any]] = []
    models: list[dict[str, Any]] = []
    for model in sentence["models"]:
        form = {key: model[key] for key in keys}
        if form not in forms:
            forms.append(form)
        numbers = {key: _rounded(model.get(key)) for key in ("loss", "aer")}
        null = {kind: _rounded(rate) for kind, rate in (model.get("null") or {}).items()}
        models.append({"form": forms.index(form), **numbers, "null": null})
    return {**sentence, "id": number, "forms": forms, "models": models}


def _rounded(value: Any) -> Any:
    """Numbers with a few digits, in nested lists as they were; None for what is no number."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list):
        return [_rounded(part) for part in value]
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{_DIGITS}g}")


# ---------------------------------------------------------------------- the file


def _default_title(results: Results) -> str:
    names = _file_names(results.data)
    sides = [names[side] for side in ("source", "target") if side in names]
    return f"Attention on {' → '.join(sides)}" if sides else "Attention"


def _file_names(data: dict[str, Any]) -> dict[str, str]:
    """The files without their folders; source and target with as much of them as tells the two apart."""
    gold = data.get("gold") or {}
    paths = {**{name: data.get(name) for name in ("source", "target", "tags")}, "gold": gold.get("sure")}
    parts = {name: re.split(r"[/\\]", str(path)) for name, path in paths.items() if path}
    last = dict.fromkeys(parts, 1)
    if "source" in parts and "target" in parts and parts["source"] != parts["target"]:
        while parts["source"][-last["source"] :] == parts["target"][-last["target"] :]:
            last |= {name: last[name] + 1 for name in ("source", "target")}
    return {name: "/".join(found[-last[name] :]) or str(paths[name]) for name, found in parts.items()}


def _size(text: str) -> int:
    return len(text.encode("utf-8"))
