"""The page of the corpus filter: what was kept, what another threshold would keep, and examples to judge it by.

One HTML file, which needs no network. It is made from a ``summary.json`` of the schema ``rela-filter/1``::

    schema       "rela-filter/1"
    version      of rela, such as "0.5.0"
    input        {"files": ["crawl.tsv"], "rows": 10000, "good": 9950, "share": 0.7}; the share with quality >= 0.5
    model        {"path": "runs/x/model", "attention": "rela-g"}
    calibration  {"pairs": 2000, "share": 0.71, "noises": ["shuffled"], "matching_heads": [[2, 0]]}, layers from 1
    rule         {"by": "quality", "threshold": 0.5}, or "keep": 0.8, or "top": 1000
    limit        the lowest value that was kept (the highest, of a score whose good end is low), or null
    counts       {"input": 10000, "kept": 7000, "rejected": 2950, "malformed": 50}: the first is the sum of the others
    reasons      rows by why they were not kept: {"low-score": 2950, "bad-record": 30, "invalid-utf8": 20}
    files        {"kept": ["kept.tsv"], "rejected": ["rejected.tsv"]}
    command      the command line without the rule
    speed        {"pairs_per_second": 812.3 (null: too few to tell), "workers": 2, "share_of_bare": 0.87}
    scores       by name: {"meaning": "...", "good": "high"}, or "low", or "middle"
    histograms   by name: {"edges": [0.0, ..., 1.0], "counts": [...]}, of the scored rows; a bar has its lower edge
    quantiles    1001 values of quality, ascending, at shares 0, 0.001, ..., 1 of the scored rows; [] if there are none
    examples     a list, of all deciles of quality: {"decile": 1, "line": 17, "source": "...", "target": "...",
                 "scores": {"quality": 0.01, ...}, "suspicious": [{"words": [3, 6], "characters": [14, 30],
                 "text": "..."}]}; decile 1 is the worst, characters are places in the target

Scored rows are those that were kept or rejected. ``calibration``, ``files``, ``limit`` and ``speed`` may be left out.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rela._files import write_text
from rela.report.parts import asset, fill, to_json

SUMMARY_SCHEMA: Final = "rela-filter/1"
STYLES: Final = ("page.css", "sieve.css")
SIEVE_SCRIPTS: Final = (
    "dom.js",
    "numbers.js",
    "sieve-rows.js",
    "sieve-histogram.js",
    "sieve-threshold.js",
    "sieve-examples.js",
    "sieve.js",
)
_PARTS: Final = (
    "version",
    "input",
    "model",
    "rule",
    "counts",
    "reasons",
    "command",
    "scores",
    "histograms",
    "quantiles",
    "examples",
)
_NUM_QUANTILES: Final = 1001
_AGAIN: Final = "make the summary again with `rela filter`"


def write_sieve_page(summary: Mapping[str, Any], path: Path) -> Path:
    """Write the page of a summary, whole or not at all; returns its path."""
    _check(summary)
    names = [str(file).replace("\\", "/").rsplit("/", 1)[-1] for file in summary["input"]["files"]]
    parts = {
        "title": html.escape(f"Filtered: {', '.join(names)}"),
        "style": "\n".join(asset(name) for name in STYLES),
        "script": "\n".join(asset(name) for name in SIEVE_SCRIPTS),
        "data": to_json({**summary, "names": names}),
    }
    write_text(path, fill(asset("sieve.html"), parts))
    return path


def _check(summary: Mapping[str, Any]) -> None:
    """What the page relies on. Numbers that contradict each other are refused: they would be shown side by side."""
    if (schema := summary.get("schema")) != SUMMARY_SCHEMA:
        raise ValueError(f"summary: expected the schema {SUMMARY_SCHEMA}, got {schema!r}; {_AGAIN}")
    if missing := [name for name in _PARTS if name not in summary]:
        raise ValueError(f"summary: expected all parts of {SUMMARY_SCHEMA}, got none of {', '.join(missing)}; {_AGAIN}")
    counts = summary["counts"]
    if counts["input"] != counts["kept"] + counts["rejected"] + counts["malformed"]:
        raise ValueError(
            f"summary: expected kept, rejected and malformed rows to be the {counts['input']:,} of the input, "
            f"got {counts['kept']:,}, {counts['rejected']:,} and {counts['malformed']:,}; {_AGAIN}"
        )
    for name, histogram in summary["histograms"].items():
        _check_histogram(name, histogram["edges"], histogram["counts"])
    _check_quality(summary)


def _check_histogram(name: str, edges: Sequence[float], counts: Sequence[int]) -> None:
    if (edges or counts) and len(edges) != len(counts) + 1:
        raise ValueError(
            f"summary: histogram of {name}: expected one edge more than counts, "
            f"got {len(edges)} edges and {len(counts)} counts; {_AGAIN}"
        )


def _check_quality(summary: Mapping[str, Any]) -> None:
    """Scored rows have 1001 quantiles and are all in the histogram; no scored rows have none."""
    scored = summary["counts"]["kept"] + summary["counts"]["rejected"]
    expected = _NUM_QUANTILES if scored else 0
    if len(summary["quantiles"]) != expected:
        raise ValueError(
            f"summary: expected {expected} quantiles of quality for {scored:,} scored rows, "
            f"got {len(summary['quantiles'])}; {_AGAIN}"
        )
    histogram = summary["histograms"].get("quality", {"counts": []})
    if sum(histogram["counts"]) != scored:
        raise ValueError(
            f"summary: histogram of quality: expected the {scored:,} rows that were kept or rejected, "
            f"got {sum(histogram['counts']):,}; {_AGAIN}"
        )
