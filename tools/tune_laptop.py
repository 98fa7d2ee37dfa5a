"""How the scale `laptop` of `rela reproduce` was tuned: for softmax alone, on the validation pairs of Multi30k en-de.

And what the recipe costs rela-g, which was not asked when it was chosen.

usage: python tools/tune_laptop.py [NAME ...]

Needs Multi30k (RELA_DATA). First the rate, which matters most; then, with the best rate, one thing after the other.
Trains the ways that are named, or all, one after the other and each with one thread, into runs/tuning/NAME; goes on
with those that were cut off and leaves those that are done. Then translates the validation pairs, and writes
docs/results/tuning/NAME.json. About half an hour each on one core.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from null_study import asked_for

ROOT: Final = Path(__file__).resolve().parent.parent
RUNS: Final = ROOT / "runs" / "tuning"
RESULTS: Final = ROOT / "docs" / "results" / "tuning"

START: Final[dict[str, Any]] = {
    "model": {
        "size": "tiny",
        "encoder_layers": 4,
        "decoder_layers": 4,
        "ffn_dim": 256,
        "dropout": 0.1,
        "attention_dropout": 0.1,
    },
    "batch": {"tokens": 1500, "update_tokens": 1500},
    "rate": {"schedule": "linear", "warmup": 1000, "peak": 2e-3},
    "budget": {"tokens": 6_000_000},
    "validation": {"every": 500, "bleu": False},
    "checkpoints": {"every": 200},
}
"""What all ways change."""
BEST_RATE: Final = {"rate.peak": 4e-3}
"""Of the first four ways; the others start from it."""
SHALLOW: Final = {**BEST_RATE, "model.encoder_layers": 3, "model.decoder_layers": 3, "model.ffn_dim": 512}


def _batches(tokens: int, warmup: int) -> dict[str, Any]:
    """Smaller batches: more updates out of the same text, and a longer start."""
    return {"batch.tokens": tokens, "batch.update_tokens": tokens, "rate.warmup": warmup}


WAYS: Final[dict[str, dict[str, Any]]] = {
    "rate 1e-3": {"rate.peak": 1e-3},
    "rate 2e-3": {"rate.peak": 2e-3},
    "rate 4e-3": {"rate.peak": 4e-3},
    "rate 8e-3": {"rate.peak": 8e-3},
    "no attention dropout": {**BEST_RATE, "model.attention_dropout": 0.0},
    "3+3 layers, FFN 512": SHALLOW,
    "3+3 layers, FFN 512, batches of 1,000": {**SHALLOW, **_batches(1000, 1500)},
    "3+3 layers, FFN 512, batches of 700": {**SHALLOW, **_batches(700, 2000)},
}
"""What is changed, by name; from these, the recipe was chosen."""
_CHOSEN: Final = {**SHALLOW, **_batches(1000, 1500), "model.attention": "rela-g"}
AFTERWARDS: Final[dict[str, dict[str, Any]]] = {
    "rela-g": _CHOSEN,
    "rela-g, rate 1e-3": {**_CHOSEN, "rate.peak": 1e-3},
    "rela-g, rate 2e-3": {**_CHOSEN, "rate.peak": 2e-3},
    "rela-g, no attention dropout": {**_CHOSEN, "model.attention_dropout": 0.0},
}
"""Looked at when all was done: the chosen recipe, and others, for rela-g."""


def folder_of(name: str) -> str:
    """A name without blanks and commas."""
    return name.replace(",", "").replace(" ", "-").replace("+", "-")


def changed(settings: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with some of them changed; a point goes down a level."""
    found = {key: dict(value) if isinstance(value, Mapping) else value for key, value in settings.items()}
    for path, value in changes.items():
        section, name = path.split(".")
        found[section][name] = value
    return found


def _changes(name: str) -> dict[str, Any]:
    return {**WAYS, **AFTERWARDS}[name]


def store() -> Path:
    """That of the study itself."""
    from rela.experiments.reproduce.places import default_places
    from rela.experiments.reproduce.scales import find_study
    from rela.experiments.reproduce.texts import make_store

    study = find_study("multi30k-en-de", "laptop")
    places = default_places(study, None, RUNS / "texts")
    make_store(places, study.main, print)
    return places.store(study.main)


def train(name: str) -> Path:
    """Train one way, or go on with it."""
    import yaml

    run = RUNS / folder_of(name)
    command = [sys.executable, "-m", "rela", "train", "--threads", "1", "--run", str(run)]
    if (run / "model").exists():
        return run
    if (run / "config.yaml").exists():
        subprocess.run([*command, "--resume"], check=True)
        return run
    settings = changed(START, {"model.attention": "softmax", **_changes(name)})
    settings |= {"store": str(store()), "seed": 1}
    RUNS.mkdir(parents=True, exist_ok=True)
    config = RUNS / f"{folder_of(name)}.yaml"
    config.write_text(yaml.safe_dump(settings), encoding="utf-8")
    subprocess.run([*command, str(config)], check=True)
    return run


def measure(name: str, run: Path) -> None:
    """BLEU and loss of the validation pairs."""
    import torch

    from rela.decoding.translator import Translator
    from rela.evaluation import Recipe, evaluate
    from rela.experiments.reproduce.job import BEAM, LENGTH_PENALTY
    from rela.training.journal import read_log

    torch.set_num_threads(1)
    translator, texts = Translator.load(run), store()
    source, target = ((texts / f"dev.{side}.txt").read_text("utf-8").split("\n")[:-1] for side in ("source", "target"))
    found = [one.text for one in translator.translate(source, beam=BEAM, length_penalty=LENGTH_PENALTY)]
    scores = evaluate(found, [target], Recipe(language="de"))
    log = read_log(run)
    result = {
        "way": name,
        "changes": _changes(name),
        "parameters": translator.model.num_parameters(),
        "loss": min(entry["loss"] for entry in log if entry["event"] == "validation"),
        "bleu": scores.by_metric["bleu"].to_json(),
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{folder_of(name)}.json"
    path.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    """Train and measure all that was asked for."""
    names = asked_for({**WAYS, **AFTERWARDS})
    for name in names:
        measure(name, train(name))


if __name__ == "__main__":
    main()
