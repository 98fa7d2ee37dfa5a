"""Claims 7 and 15: speed beside softmax, and operations."""

from __future__ import annotations

from typing import Final

import numpy as np

from rela.attention.cost import map_and_norm_operations
from rela.attention.spec import resolve
from rela.experiments.reproduce.claims.verdict import Statement
from rela.experiments.reproduce.evidence import Evidence

CLOSE: Final = 0.9
"""Of softmax's speed: from here on, speed is close to it."""
_SLOWER: Final = 0.95
_PAPER_HEADS: Final = 8
_PAPER_DIM: Final = 512


def speed(evidence: Evidence) -> list[Statement]:
    speeds = evidence.speeds
    statements: list[Statement] = []
    for what, measure, papers in (
        ("training step", "train.step.over.softmax", {"rela-g": "0.93", "sparsemax": "0.26", "entmax15": "0.27"}),
        ("decoding", "decode.speed.mean", {"rela-g": "0.98", "sparsemax": "0.54", "entmax15": "0.49"}),
    ):
        for name, paper in papers.items():
            found = speeds[name][measure]
            value = found["value"]
            held = value >= CLOSE if name == "rela-g" else value < _SLOWER
            claim = f"at least {CLOSE}" if name == "rela-g" else f"below {_SLOWER}"
            statements.append(
                Statement(
                    answer="holds" if held else "does not hold",
                    text=f"{what}, {name}: {value:.2f} of softmax's speed ({claim}).",
                    test=f"quartiles {found['low']:.2f} to {found['high']:.2f} of {found['rounds']} rounds"
                    if "low" in found
                    else "",
                    paper=paper,
                    signature=found["signature"],
                )
            )
    lengths = {name: np.array(speeds[name]["decode.speed"]["value"]) for name in ("rela-g", "sparsemax", "entmax15")}
    slower = [name for name in ("sparsemax", "entmax15") if not (lengths[name] < lengths["rela-g"]).all()]
    least = float(lengths["rela-g"].min())
    statements.append(
        Statement(
            answer="does not hold" if slower or least < CLOSE else "holds",
            text=f"decoding at every source length: rela-g at least {least:.2f}"
            + (f"; not slower than it everywhere: {', '.join(slower)}." if slower else "; the others slower in all."),
        )
    )
    return statements


def operations(_: Evidence) -> list[Statement]:
    counts = {
        (name, length): map_and_norm_operations(resolve(name), _PAPER_HEADS, _PAPER_DIM, length)
        for name in ("softmax", "rela-g")
        for length in (100, 1000)
    }
    short = counts["rela-g", 100] > counts["softmax", 100]
    long = counts["rela-g", 1000] < counts["softmax", 1000]
    text = "; ".join(
        f"T = {length}: softmax {counts['softmax', length]:,}, rela-g {counts['rela-g', length]:,}"
        for length in (100, 1000)
    )
    return [
        Statement(
            answer="holds" if short and long else "does not hold",
            text=f"{text} (8 heads, d = 512).",
            paper="239K and 592K; 23.99M and 13.12M",
        )
    ]
