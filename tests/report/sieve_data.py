"""A made-up summary of the corpus filter, of the schema that rela/report/sieve.py describes."""

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

MALFORMED = {"bad-record": 30, "invalid-utf8": 15, "empty-target": 5}
SCORES = {
    "null_rate": ("share of rows of cross-attention that attend to nothing, over all layers and heads", "low"),
    "cross_entropy": ("loss of a target piece under forced decoding, in nats, EOS among them", "low"),
    "coverage": ("largest weight that a source piece gets, last layer, mean over pieces and heads", "high"),
    "null_run": ("target words side by side at which all matching heads attend to nothing, at most", "low"),
    "length_ratio": ("characters of the target for each character of the source", "middle"),
    "quality": ("probability of being a good pair, learned from the corpus and from spoiled pairs of it", "high"),
}
# Each with the target of a good pair, of one with some words too many, and of a bad one.
TEXTS = (
    (
        "The hotel is five minutes from the main station.",
        "Das Hotel liegt fünf Minuten vom Hauptbahnhof entfernt.",
        "Das Hotel liegt fünf Minuten, jetzt günstig online buchen, vom Hauptbahnhof entfernt.",
        "Home | Kontakt | Impressum | Datenschutz | AGB",
    ),
    (
        "Children under twelve years of age travel free of charge if an adult with a valid ticket is with them.",
        "Kinder unter zwölf Jahren fahren kostenlos, wenn sie von einem Erwachsenen mit Fahrschein begleitet werden.",
        "Kinder unter zwölf Jahren fahren kostenlos, wenn sie von ihren drei Hunden begleitet werden.",
        "Please enable JavaScript to view the comments powered by Disqus.",
    ),
    (
        "Add to basket",
        "In den Warenkorb",
        "In den Warenkorb 👍 Kunden kauften auch",
        "SKU-40021-B",
    ),
    (
        "We offer rooms with a view of the sea.",
        "نقدم غرفا مطلة على البحر.",
        "نقدم غرفا مطلة على البحر مع خصم خمسين في المئة.",
        "http://www.hotel.example/booking?id=77123&lang=ar&session=0a9f8e7d6c5b4a39281706f5e4d3c2b1a0",
    ),
    (
        "The committee will meet again on Thursday to discuss the budget.",
        "Der Ausschuss tritt am Donnerstag erneut zusammen, um über den Haushalt zu beraten.",
        "Der Ausschuss tritt am Dienstag mit vier Ministern erneut zusammen, um zu beraten.",
        "Le temps sera couvert demain dans le nord.",
    ),
)


def made_qualities(rows: int, seed: int = 1) -> NDArray[np.float64]:
    """Crowded at both ends, as those of a crawl are, with some pairs between."""
    generator = np.random.default_rng(seed)
    centre = generator.choice([-4.0, 0.5, 4.5], rows, p=[0.24, 0.12, 0.64])
    spread = np.where(centre == 0.5, 1.2, 1.6)
    return np.sort(1 / (1 + np.exp(-generator.normal(centre, spread))))


def made_summary(rows: int = 10_000, *, threshold: float = 0.5, seed: int = 1) -> dict[str, Any]:
    """A summary of so many rows, of which 50 could not be scored; of 50 or fewer, none could."""
    malformed = MALFORMED if rows > 50 else {"bad-record": rows}
    scored = rows - sum(malformed.values())
    values = made_scores(scored, seed)
    quality = values["quality"]
    kept = int((quality >= threshold).sum())
    reasons = {"low-score": scored - kept, **malformed}
    return {
        "schema": "rela-filter/1",
        "version": "0.5.0",
        "input": {"files": ["data/crawl.en-de.tsv.gz"], "rows": rows, "good": scored},
        "model": {"path": "runs/wide/model", "attention": "rela-g"},
        "calibration": {
            "pairs": 2000,
            "share": 0.71,
            "noises": ["shuffled", "wrong-language", "inserted", "dropped"],
            "matching_heads": [[2, 0], [3, 1]],
        },
        "rule": {"by": "quality", "threshold": threshold},
        "limit": float(quality[quality >= threshold].min()) if kept else None,
        "counts": {"input": rows, "kept": kept, "rejected": scored - kept, "malformed": rows - scored},
        "reasons": {name: count for name, count in reasons.items() if count},
        "files": {"kept": ["crawl.sieve/kept.tsv.gz"], "rejected": ["crawl.sieve/rejected.tsv.gz"]},
        "command": "rela filter data/crawl.en-de.tsv.gz --model runs/wide --out crawl.sieve",
        "speed": {"pairs_per_second": 812.3, "workers": 2, "share_of_bare": 0.87},
        "scores": {name: {"meaning": meaning, "good": good} for name, (meaning, good) in SCORES.items()},
        "histograms": {name: made_histogram(name, found) for name, found in values.items()},
        "quantiles": np.quantile(quality, np.linspace(0, 1, 1001)).tolist() if scored else [],
        "examples": made_examples(values, seed) if scored else [],
    }


def made_scores(rows: int, seed: int) -> dict[str, NDArray[np.float64]]:
    """Scores of so many pairs that agree with their quality more or less, the worst pair first."""
    generator = np.random.default_rng(seed + 1)
    quality = made_qualities(rows, seed)
    noise = generator.normal(0, 1, (4, rows))
    return {
        "null_rate": np.clip(0.62 - 0.4 * quality + 0.07 * noise[0], 0, 1),
        "cross_entropy": 1.1 + 4.5 * (1 - quality) + np.exp(0.5 * noise[1]),
        "coverage": np.clip(0.12 + 0.4 * quality + 0.08 * noise[2], 0, None),
        "null_run": np.floor(generator.exponential(np.where(quality < 0.5, 5, 0.6))),
        "length_ratio": np.exp(0.12 * noise[3] + generator.normal(0, 0.6, rows) * (1 - quality)),
        "quality": quality,
    }


def made_histogram(name: str, values: NDArray[np.float64]) -> dict[str, list[float]]:
    ends = (0.0, 1.0) if name == "quality" or not len(values) else (float(values.min()), float(values.max()))
    counts, edges = np.histogram(values, bins=50, range=ends)
    return {"edges": edges.tolist(), "counts": counts.tolist()}


def made_examples(values: dict[str, NDArray[np.float64]], seed: int) -> list[dict[str, Any]]:
    """Eight of each decile, in any order of lines; what is between good and bad has suspicious words."""
    generator = np.random.default_rng(seed + 2)
    rows = len(values["quality"])
    found: list[dict[str, Any]] = []
    for number in range(80):
        decile = number // 8 + 1
        place = int((decile - generator.random()) * rows / 10)
        source, good, added, bad = TEXTS[number % len(TEXTS)]
        quality = float(values["quality"][place])
        target = bad if quality < 0.1 else added if quality < 0.9 else good
        found.append(
            {
                "decile": decile,
                "line": int(generator.integers(rows)) + 1,
                "source": source,
                "target": target,
                "scores": {name: float(f"{column[place]:.6g}") for name, column in values.items()},
                "suspicious": made_spans(good, target),
            }
        )
    return found


def made_spans(good: str, target: str) -> list[dict[str, Any]]:
    """The words that a good translation does not have, neighbours together."""
    words = list(re.finditer(r"\w+", target))
    known = set(re.findall(r"\w+", good))
    spans: list[dict[str, Any]] = []
    for number, word in enumerate(words):
        if word[0] in known:
            continue
        first = spans.pop()["words"][0] if spans and spans[-1]["words"][1] == number else number
        start = words[first].start()
        found = target[start : word.end()]
        spans.append({"words": [first, number + 1], "characters": [start, word.end()], "text": found})
    return spans
