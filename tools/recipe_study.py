"""Which recipe makes the best scorer out of a noisy crawl? Trains one in several ways, and asks who finds the noise.

usage: python tools/recipe_study.py [NAME ...]

Needs Multi30k (RELA_DATA). Spoils 30% of its training pairs by another seed than the cleaning experiment, and trains a
scorer on that crawl as `rela filter --train` does, with the spoiling of each way that is named, or of all, one after
the other and each with one thread, into runs/recipes/NAME; goes on with those that were cut off. Then scores the crawl,
and writes to docs/results/recipes/NAME.json how well each score tells the pairs of each kind of noise from good ones.
About half an hour each on one core.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from null_study import asked_for

ROOT: Final = Path(__file__).resolve().parent.parent
RUNS: Final = ROOT / "runs" / "recipes"
RESULTS: Final = ROOT / "docs" / "results" / "recipes"
TOKENS: Final = 4_000_000
NOISE_SEED: Final = 2

WAYS: Final[dict[str, dict[str, Any]]] = {
    "none": {},
    "mild": {"share": 0.25, "null_loss": 1.0, "begin": 0.4},
    "strong": {"share": 0.4, "null_loss": 4.0, "begin": 0.4},
}
SCORES: Final = {"quality": -1, "null_rate": 1, "coverage": -1, "cross_entropy": 1}
"""Scores, and whether high is bad (1) or good (-1)."""


def make_crawl() -> Path:
    """Multi30k, 30% of its training pairs spoiled in ten ways."""
    from rela.text.corpora import fetch

    crawl = RUNS / "crawl.tsv"
    if not crawl.exists():
        RUNS.mkdir(parents=True, exist_ok=True)
        german, french = (fetch(f"multi30k-en-{which}", splits=["train"]).splits["train"][0] for which in ("de", "fr"))
        files = ["--src", german.path, "--tgt", german.target_path, "--foreign", french.target_path]
        names = ["--language", "de", "--seed", NOISE_SEED, "--labels", RUNS / "crawl.labels", "-o", crawl]
        subprocess.run([sys.executable, "-m", "rela", "noise", *map(str, (*files, *names))], check=True)
    return crawl


def train(name: str, crawl: Path) -> Path:
    """A scorer, trained on the crawl with one way of spoiling pairs."""
    import torch
    from rich.console import Console

    from rela.cli._progress import TrainingProgress
    from rela.experiments.sieve import prepare_crawl, scorer_config, train_scorer
    from rela.text.readers import PairSource

    torch.set_num_threads(1)
    store = prepare_crawl(PairSource.tsv(crawl), ("en", "de"), RUNS, print)
    with TrainingProgress(Console(stderr=True)) as progress:
        return train_scorer(scorer_config(store, TOKENS, spoiling=WAYS[name]), RUNS / name, progress)


def measure(name: str, model: Path, crawl: Path) -> None:
    """How well each score tells each kind of noise from good pairs, and what a quality of 0.5 keeps."""
    import numpy as np

    from rela.filtering.features import area_under_curve

    scored = RUNS / f"{name}.jsonl"
    command = [sys.executable, "-m", "rela", "score", str(model), str(crawl), "-o", str(scored)]
    subprocess.run([*command, "--calibrate-on", "input", "--workers", "1"], check=True)
    rows = [json.loads(line) for line in scored.read_text(encoding="utf-8").split("\n")[:-1]]
    labels = np.array((RUNS / "crawl.labels").read_text(encoding="utf-8").split("\n")[:-1])
    assert len(rows) == len(labels)
    found: dict[str, dict[str, float]] = {}
    for kind in sorted({*labels.tolist()} - {"good"}):
        found[kind] = {}
        for score, sign in SCORES.items():
            values = sign * np.array([float(row[score]) for row in rows])
            found[kind][score] = round(float(area_under_curve(values[labels == "good"], values[labels == kind])), 4)
    quality = np.array([float(row["quality"]) for row in rows])
    kept = {kind: round(float((quality[labels == kind] >= 0.5).mean()), 4) for kind in sorted({*labels.tolist()})}
    result = {"way": name, "spoiling": WAYS[name], "tokens": TOKENS, "seed": NOISE_SEED, "auc": found, "kept": kept}
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    """Train and measure all that was asked for."""
    names = asked_for(WAYS)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    crawl = make_crawl()
    for name in names:
        measure(name, train(name, crawl), crawl)


if __name__ == "__main__":
    main()
