"""Made-up result files, of the form that docs/results-format.md describes."""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

KINDS = ("encoder", "decoder", "cross")
TAUS = ("1", "0.5", "0.25", "0.1")
TAGS = ("⟨s⟩", "ADJ", "AUX", "DET", "NOUN", "PRON", "PUNCT", "PUNCT ,", "VERB")
WORDS = re.findall(r"\S+", "the old dog , which the woman sees today , runs into a very small house with three doors")
DENSE = ("softmax",)
NEVER_NULL = (*DENSE, "sparsemax", "entmax15")
SIGNED = ("leaky",)


def write_results(
    folder: Path,
    models: Sequence[str] = ("rela-g", "softmax"),
    *,
    layers: int = 3,
    heads: int = 4,
    sentences: int = 6,
    words: int = 12,
    gold: bool = True,
    seeds: int = 1,
    seed: int = 1,
    findings: int = 1,
    vocabulary: Sequence[str] | None = None,
) -> Path:
    """Write both files with random numbers; returns the folder. ``models`` are attentions, each with so many seeds.

    ``findings`` is how many heads of a model have one; another one is about no head.
    """
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(seed)
    entries = [
        _model(name, number, seeds, layers, heads, gold, findings, generator)
        for name in models
        for number in range(seeds)
    ]
    groups = [_group(name, [entry for entry in entries if entry["group"] == name]) for name in models]
    results = {
        "format": "rela-results-1",
        "rela_version": "0.1.0",
        "data": {
            "source": "test.en",
            "target": "test.de",
            "source_language": "en",
            "target_language": "de",
            "pairs": 1000,
            "source_pieces": 14210,
            "target_pieces": 15023,
            "skipped": {},
            "gold": {"name": "test", "sure": "test.sure", "possible": "test.possible", "pairs": 1000} if gold else None,
            "tags": "test.tags.de",
        },
        "models": entries,
        "groups": groups,
    }
    (folder / "results.json").write_text(json.dumps(results, ensure_ascii=False), encoding="utf-8")
    _write_examples(folder, entries, layers, heads, sentences, words, gold, generator, vocabulary or WORDS)
    return folder


def _model(
    name: str,
    number: int,
    seeds: int,
    layers: int,
    heads: int,
    gold: bool,
    findings: int,
    generator: np.random.Generator,
) -> dict[str, Any]:
    measures: dict[str, Any] = {}

    def add(measure: str, axes: Sequence[str], value: Any, labels: dict[str, list[str]] | None = None) -> None:
        measures[measure] = {
            "signature": f"{measure}|data:test|attention:{name}|v0.1.0",
            "axes": list(axes),
            "labels": labels or {},
            "value": np.round(value, 4).tolist(),
        }

    by_head, by_layer = ("layer", "head"), ("layer",)
    add("loss", (), 1.25)
    for kind in KINDS:
        for statistic in ("sparsity", "null", "mass", "entropy", "sink_first", "sink_last"):
            value = generator.random((layers, heads))
            if (name in DENSE and statistic == "sparsity") or (name in NEVER_NULL and statistic == "null"):
                value = np.zeros((layers, heads))
            add(f"{kind}.{statistic}", by_head, value)
            add(f"{kind}.{statistic}.layer", by_layer, value.mean(1))
            add(f"{kind}.{statistic}.variance", by_layer, value.var(1))
            if statistic in ("sparsity", "null"):
                add(f"{kind}.{statistic}.layer_attention", by_layer, value.min(1) / 2)
                add(f"{kind}.{statistic}.word", by_head, value / 2)
                add(f"{kind}.{statistic}.word.layer", by_layer, value.mean(1) / 2)
        distances = ["<=-10", *map(str, range(-9, 10)), ">=10"]
        share = generator.dirichlet(np.ones(len(distances)), (layers, heads))
        add(f"{kind}.distance", (*by_head, "distance"), share, {"distance": distances})
        diversity = generator.random(layers)
        add(f"{kind}.diversity", by_layer, diversity)
        add(f"{kind}.diversity.word", by_layer, diversity / 2)
        add(f"{kind}.diversity.mean", (), diversity.mean())
        if name not in DENSE:
            by_tau = diversity * np.array([[1], [0.8], [0.7], [0.7]])
            add(f"{kind}.diversity.tau", ("tau", "layer"), by_tau, {"tau": list(TAUS)})
            add(f"{kind}.diversity.tau.word", ("tau", "layer"), by_tau / 2, {"tau": list(TAUS)})
            add(f"{kind}.diversity.tau.mean", ("tau",), by_tau.mean(1), {"tau": list(TAUS)})
    for kind in ("decoder", "cross"):
        add(f"{kind}.null.tag", ("tag", *by_head), generator.random((len(TAGS), layers, heads)), {"tag": list(TAGS)})
        add(f"{kind}.null.tag.count", ("tag",), np.arange(1, len(TAGS) + 1) * 100, {"tag": list(TAGS)})
    real = generator.random(layers) / 2
    add("hallucinated.null.real", by_layer, real)
    add("hallucinated.null.shuffled", by_layer, real + 0.3)
    add("hallucinated.auc", by_layer, 0.5 + generator.random(layers) / 2)
    add("hallucinated.auc.mean", (), 0.9)
    best = {"normal": None, "shifted": None}
    if gold:
        for shift in ("normal", "shifted"):
            for rule in ("merged", "any"):
                for score in ("aer", "precision", "recall", "f1"):
                    value = generator.random((layers, heads))
                    add(f"cross.{score}.{shift}.{rule}", by_head, value)
                    add(f"cross.{score}.{shift}.{rule}.layer_attention", by_layer, value.mean(1))
                    if score == "aer":
                        add(f"cross.aol.{shift}.{rule}", (), value.mean())
                        add(f"cross.aoh.{shift}.{rule}", (), value.min(1).mean())
        best = {
            "normal": {"layer": 1, "head": 1, "aer": 0.31},
            "shifted": {"layer": min(2, layers), "head": 0, "aer": 0.22},
        }
    label = name if seeds == 1 else f"{name} seed {number + 1}"
    return {
        "name": label,
        "group": name,
        "path": f"runs/{name}-{number + 1}",
        "direction": "en-de",
        "seed": number + 1,
        "attention": name,
        "attentions": dict.fromkeys(KINDS, name),
        "layers": dict.fromkeys(KINDS, layers),
        "heads": heads,
        "parameters": 1_344_384,
        "cost": {"ratio": 1.31, "signature": "cost|v0.1.0"},
        "best": best,
        "measures": measures,
        "findings": [
            {
                "text": f"Cross-attention is the sparsest kind of {name}.",
                "strength": 0.95,
                "sort": "sparsity",
                "kind": "cross",
                "layer": None,
                "head": None,
                "category": None,
                "sentence": None,
            },
            *(
                {
                    "text": f"Layer 2 head {1 + place} of {name} fires after commas: null 2% there, 94% elsewhere.",
                    "strength": 0.9 - place / 10,
                    "sort": "specialist",
                    "kind": "cross",
                    "layer": min(2, layers),
                    "head": (1 + place) % heads,
                    "category": "PUNCT ,",
                    "sentence": 0,
                }
                for place in range(findings)
            ),
        ],
    }


def _group(name: str, entries: list[dict[str, Any]]) -> dict[str, Any]:
    measures: dict[str, Any] = {}
    for measure, first in entries[0]["measures"].items():
        if "head" in first["axes"]:
            continue
        values = np.array([entry["measures"][measure]["value"] for entry in entries], np.float64)
        measures[measure] = {
            **{key: first[key] for key in ("signature", "axes", "labels")},
            "mean": values.mean(0).tolist(),
            "spread": values.std(0, ddof=1).tolist() if len(entries) > 1 else None,
        }
    return {"name": name, "models": [entry["name"] for entry in entries], "measures": measures}


def make_weights(
    shape: tuple[int, ...],
    generator: np.random.Generator,
    *,
    dense: bool,
    causal: bool = False,
    never_null: bool = False,
    signed: bool = False,
) -> NDArray[np.float32]:
    """Softmax weights, or ReLU weights with zeros and null rows, or leaky ones; ``[layer, head, query, key]``."""
    scores = generator.normal(-0.5, 1.5, shape)
    allowed = np.tri(*shape[-2:], dtype=bool) if causal else np.ones(shape[-2:], bool)
    if dense:
        weights = np.where(allowed, np.exp(scores), 0)
        return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)
    scores[generator.random(shape[:-1]) < 0.3] = -1  # rows that attend to nothing
    if never_null:
        scores[..., 0] = 1
    below = 0.1 * scores if signed else np.zeros_like(scores)
    return np.where(allowed, np.maximum(scores, below), 0).astype(np.float32)


def _write_examples(
    folder: Path,
    entries: list[dict[str, Any]],
    layers: int,
    heads: int,
    sentences: int,
    words: int,
    gold: bool,
    generator: np.random.Generator,
    vocabulary: Sequence[str],
) -> None:
    roles = ["pair"] * sentences + ["good", "inserted", "mismatched"]
    arrays: dict[str, NDArray[Any]] = {}
    described: list[dict[str, Any]] = []
    for number, role in enumerate(roles):
        sides = [
            [vocabulary[(number + place) % len(vocabulary)] for place in range(max(1, words - shift))]
            for shift in (0, 1)
        ]
        sides[1] = [word.upper() for word in sides[1]]
        links = [[place, place] for place in range(len(sides[1]))]
        models: list[dict[str, Any]] = []
        for place, entry in enumerate(entries):
            pieces, owners = zip(*(_pieces(side) for side in sides), strict=True)
            source, target = (len(side) for side in pieces)
            dense, signed = (entry["attention"] in names for names in (DENSE, SIGNED))
            sizes = {"encoder": (source, source), "decoder": (target, target), "cross": (target, source)}
            null: dict[str, float] = {}
            for kind, size in sizes.items():
                weights = make_weights(
                    (layers, heads, *size),
                    generator,
                    dense=dense,
                    causal=kind == "decoder",
                    never_null=entry["attention"] in NEVER_NULL,
                    signed=signed,
                )
                arrays[f"{place}.{kind}.{number}"] = weights
                null[kind] = float((weights == 0).all(-1).mean())
            models.append(
                {
                    "source_pieces": pieces[0],
                    "target_pieces": pieces[1],
                    "source_piece_words": owners[0],
                    "target_piece_words": owners[1],
                    "loss": 0.5 + number / 10,
                    "null": null,
                    "aer": 0.1 * (number % 7) if gold else None,
                }
            )
        described.append(
            {
                "line": number + 1,
                "role": role,
                "source_words": sides[0],
                "target_words": sides[1],
                "source_tags": None,
                "target_tags": ["PUNCT" if word == "," else "NOUN" for word in sides[1]],
                "sure": links[::2] if gold else None,
                "possible": links if gold else None,
                "models": models,
            }
        )
    examples = {
        "format": "rela-examples-1",
        "models": [entry["name"] for entry in entries],
        "sentences": described,
    }
    arrays["examples"] = np.array(json.dumps(examples, ensure_ascii=False))
    np.savez_compressed(folder / "attention.npz", **arrays)  # pyright: ignore[reportArgumentType] (of any shape and type)


def _pieces(words: list[str]) -> tuple[list[str], list[list[int]]]:
    """Long words as two pieces, and EOS; a piece that begins a word has the blank before it."""
    pieces: list[str] = []
    owners: list[list[int]] = []
    for place, word in enumerate(words):
        parts = [word[:4], word[4:]] if len(word) > 4 else [word]
        pieces += [(" " if place and not number else "") + part for number, part in enumerate(parts)]
        owners += [[place]] * len(parts)
    return [*pieces, "</s>"], [*owners, []]


def write_bench(folder: Path, models: Sequence[str] = ("softmax", "rela-g"), lengths: int = 10) -> Path:
    """Results of a benchmark of decoding, with nothing else in them; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    labels = [f"{1 + 5 * place}-{5 + 5 * place}" for place in range(lengths)]
    entries = [
        {
            "name": name,
            "measures": {
                "decode.speed": {
                    "signature": f"decode|attention:{name}|v0.1.0",
                    "axes": ["length"],
                    "labels": {"length": labels},
                    "value": [1.0 - place / 10] * lengths,
                }
            },
        }
        for place, name in enumerate(models)
    ]
    data = {"format": "rela-results-1", "rela_version": "0.1.0", "data": {}, "models": entries, "groups": []}
    (folder / "results.json").write_text(json.dumps(data), encoding="utf-8")
    return folder


def edit_results(folder: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """Change the numbers of a folder; returns the folder."""
    file = folder / "results.json"
    data = json.loads(file.read_text(encoding="utf-8"))
    change(data)
    file.write_text(json.dumps(data), encoding="utf-8")
    return folder


def change_examples(folder: Path, change: Callable[[dict[str, Any], dict[str, Any]], None]) -> None:
    """``change`` gets the description and the arrays."""
    path = folder / "attention.npz"
    with np.load(path) as archive:
        arrays = dict(archive)
    described = json.loads(str(arrays["examples"]))
    change(described, arrays)
    arrays["examples"] = np.array(json.dumps(described))
    np.savez_compressed(path, **arrays)  # pyright: ignore[reportArgumentType] (of any shape and type)
