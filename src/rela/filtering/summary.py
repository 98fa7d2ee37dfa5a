"""What `rela filter` found, as plain data: counts, distributions, examples. The report's page is made of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rela._version import __version__
from rela.filtering.corpus import ScoredCorpus
from rela.filtering.pool import one_thread
from rela.filtering.scorer import Scorer
from rela.filtering.scores import COLUMNS, SCORES
from rela.filtering.splitting import Rule, Split
from rela.filtering.writing import marked

SCHEMA: Final = "rela-filter/1"
DECILES: Final = 10
EXAMPLES: Final = 8
_BINS: Final = 100
_QUANTILES: Final = 1001


def summarise(scored: ScoredCorpus, rule: Rule, split: Split, command: str) -> dict[str, Any]:
    """Everything about one filtering."""
    values = np.concatenate(
        [np.zeros((0, len(COLUMNS)), np.float32)]
        + [_scored(scored.kept.load(number)) for number in range(scored.survey.num_windows)]
    )
    options, quality = scored.options, scored.calibration.quality
    scorer = Scorer.load(options.model, options.device).with_calibration(scored.calibration)
    scorer = replace(scorer, max_pieces=options.max_pieces)
    matching = np.argwhere(scored.calibration.matching)
    return {
        "schema": SCHEMA,
        "version": __version__,
        "input": {
            "files": [Path(path).name for path in options.source.paths],
            "rows": scored.survey.num_rows,
            "good": scored.survey.num_good,
            "share": share_of_good(values[:, COLUMNS.index("quality")]),
        },
        "model": {"path": str(options.model), "attention": scorer.model.config.attention.label},
        "calibration": {
            "pairs": quality.num_pairs,
            "share": quality.share,
            "noises": list(quality.noises),
            "matching_heads": [[int(layer) + 1, int(head)] for layer, head in matching],
        },
        "rule": rule.to_json(),
        "limit": split.limit,
        "counts": {
            "input": split.num_rows,
            "kept": split.num_kept,
            "rejected": split.num_rejected,
            "malformed": split.num_malformed,
        },
        "reasons": dict(split.reasons.most_common()),
        "files": {kind: [Path(path).name for path in paths] for kind, paths in split.files.items()},
        "command": command,
        "speed": {
            "pairs_per_second": scored.speed.per_second,
            "workers": options.workers,
            "share_of_bare": scored.speed.share,
        },
        "scores": {name: {"meaning": score.meaning, "good": score.good} for name, score in SCORES.items()},
        "histograms": {name: _histogram(name, values[:, number]) for number, name in enumerate(COLUMNS)},
        "quantiles": _quantiles(values[:, COLUMNS.index("quality")]),
        "examples": _examples(scored, scorer),
    }


def share_of_good(quality: NDArray[np.float32]) -> float | None:
    """How many of the scored rows are more likely good than bad; None if there are none."""
    return float((quality >= 0.5).mean()) if len(quality) else None


def _scored(window: Any) -> NDArray[np.float32]:
    return window.values[window.kept]


def _histogram(name: str, values: NDArray[np.float32]) -> Mapping[str, Any]:
    low, high = (0.0, 1.0) if name in ("quality", "null_rate", "null_rate_matching") else _ends(values)
    counts, edges = np.histogram(np.clip(values, low, high), _BINS, (low, high))
    return {"edges": [float(f"{edge:.6g}") for edge in edges.tolist()], "counts": counts.tolist()}


def _ends(values: NDArray[np.float32]) -> tuple[float, float]:
    """Without the few that are far away, which stand in the first and the last bar."""
    if not len(values):
        return 0.0, 1.0
    low, high = np.percentile(values, [0.1, 99.9]).tolist()
    return (low, high) if high > low else (low - 0.5, low + 0.5)


def _quantiles(quality: NDArray[np.float32]) -> list[float]:
    if not len(quality):
        return []
    return np.quantile(quality, np.linspace(0, 1, _QUANTILES)).astype(float).round(7).tolist()


def _examples(scored: ScoredCorpus, scorer: Scorer) -> list[dict[str, Any]]:
    """Some pairs of each tenth of the quality, the worst first, evenly spread over it."""
    qualities = np.concatenate(
        [np.zeros(0, np.float32)] + [scored.kept.load(n).values[:, -1] for n in range(scored.survey.num_windows)]
    )
    kept = np.concatenate(
        [np.zeros(0, np.bool_)] + [scored.kept.load(n).kept for n in range(scored.survey.num_windows)]
    )
    ranked = np.flatnonzero(kept)[np.argsort(qualities[kept], kind="stable")]
    wanted: dict[int, tuple[int, int]] = {}  # place among good rows: decile, rank
    for decile, part in enumerate(np.array_split(ranked, DECILES), start=1):
        chosen = np.unique(np.linspace(0, len(part) - 1, EXAMPLES).round().astype(int)) if len(part) else []
        for place in chosen:
            wanted[int(part[place])] = decile, len(wanted)
    rows: list[tuple[int, int, int, tuple[str, str]]] = []
    seen = 0
    for window in scored.options.windows():
        for place, pair in enumerate(window.pairs):
            if seen + place in wanted:
                decile, rank = wanted[seen + place]
                rows.append((rank, decile, window.line(window.places[place]), pair))
        seen += len(window.pairs)
    rows.sort()
    with one_thread():
        found = scorer.score([pair for *_, pair in rows], spans=True)
    return [
        {
            "decile": decile,
            "line": line,
            "source": pair[0],
            "target": pair[1],
            "scores": {name: getattr(score, name) for name in COLUMNS},
            "suspicious": marked(pair[1], score.suspicious or ()),
        }
        for (_, decile, line, pair), score in zip(rows, found, strict=True)
    ]
