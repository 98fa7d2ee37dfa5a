"""A scorer out of the crawl that it is to clean: the pairs are prepared, and a small model is trained on them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from rela._files import new_folder, write_text
from rela._warn import warn
from rela.filtering.remembering import PAIRS, remember_quality
from rela.model.directory import MODEL_FOLDER, QUALITY_FILE
from rela.text.prepare import PrepareOptions, prepare
from rela.text.readers import PairSource
from rela.text.rows import read_windows
from rela.text.store import Store
from rela.training import runs
from rela.training.config import TrainConfig, to_config
from rela.training.journal import read_status
from rela.training.pace import tokens_per_second
from rela.training.reporter import Reporter
from rela.training.validation import Validator
from rela.training.world import World

FEWEST_PAIRS: Final = 500
"""Of fewer pairs a model learns nothing that would tell good ones from bad ones."""

SPOILING: Final[Mapping[str, Any]] = {"share": 0.4, "null_loss": 4.0, "begin": 0.4}
"""How pairs are spoiled during the training of a scorer. tools/recipe_study.py compares it with others."""

_DEV_PAIRS: Final = 1000
_DEV_SHARE: Final = 0.1
_MERGES: Final = ((50_000, 4_000), (1_000_000, 8_000))  # up to so many pairs, so many merges
_MOST_MERGES: Final = 16_000
_EXTRA: Final = 0.05  # of the time goes to validation and checkpoints
_FEWEST_TOKENS: Final = 20_000
_MANY_COPIES: Final = 0.3
_RECIPE_FILE: Final = "training.json"

Say = Callable[[str], None]


class Plan(NamedTuple):
    """What is going to be trained on, and how fast."""

    tokens: int
    tokens_per_second: float


def scorer_config(
    store: Path,
    tokens: int,
    attention: str = "rela-g",
    seed: int = 1,
    spoiling: Mapping[str, Any] = SPOILING,
) -> TrainConfig:
    """The recipe: pairs are spoiled on purpose, so that null attention tells something about pairs."""
    pointwise = not attention.startswith(("softmax", "sparsemax", "entmax", "topk"))
    data: dict[str, Any] = {
        "store": str(store),
        "seed": seed,
        "model": {
            "size": "tiny",
            "encoder_layers": 3,
            "decoder_layers": 3,
            "dropout": 0.1,
            "attention_dropout": 0.1,
            "attention": attention,
        },
        "batch": {"tokens": 1500, "update_tokens": 1500},
        "rate": {"schedule": "linear", "warmup": 400, "peak": 1.5e-3},
        "spoiling": dict(spoiling) if pointwise else {},
        "budget": {"tokens": tokens},
        "validation": {"every": 500, "bleu": False},
        "checkpoints": {"every": 200, "keep_last": 3, "average": 3},
    }
    return to_config(data, "the scorer")


def claim_training(folder: Path, recipe: Mapping[str, Any]) -> None:
    """Make a folder that of one training, or see that it is: that of another crawl must not be taken for it."""
    wanted = json.loads(json.dumps(recipe))
    path, made = folder / _RECIPE_FILE, [folder / name for name in ("corpus", "store", "training")]
    begun = [one for one in made if one.exists()]
    if path.exists():
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            raise ValueError(
                f"{path}: expected what the scorer was trained with, got a damaged file; name another folder with "
                "--out, or delete this one"
            ) from None
        other = [name for name in wanted if found.get(name) != wanted[name]]
        if other and made[-1] in begun:
            raise ValueError(
                f"{folder}: expected the pairs and options that its scorer was trained with, got other "
                f"{' and '.join(other)}; name another folder with --out, or delete {made[-1]}"
            )
        for one in begun if other else ():  # made in seconds
            shutil.rmtree(one)
    elif begun:
        raise FileExistsError(
            f"{folder}: expected a new folder, or one of the same command, got one with {begun[0].name} in it; name "
            "another with --out"
        )
    write_text(path, json.dumps(wanted, indent=2) + "\n")


def prepare_crawl(
    source: PairSource, languages: tuple[str, str], folder: Path, say: Say, *, header: bool = False
) -> Path:
    """The pairs of a crawl in a token store, every so many of them held out; returns the store."""
    store = folder / "store"
    if store.exists():
        return store
    corpus = folder / "corpus"
    if not corpus.exists():
        _copy_pairs(source, corpus, header)
    count = int((corpus / "count").read_text(encoding="utf-8"))
    if count < FEWEST_PAIRS:
        shutil.rmtree(corpus)
        (folder / _RECIPE_FILE).unlink(missing_ok=True)
        raise ValueError(
            f"{source.path}: expected at least {FEWEST_PAIRS} good pairs to train a scorer on, got {count}; give more, "
            "or a model with --model"
        )
    merges = next((merges for most, merges in _MERGES if count <= most), _MOST_MERGES)
    say(f"preparing {count:,} pairs with {merges:,} merges")
    splits = {
        split: [PairSource.files(corpus / f"{split}.source", corpus / f"{split}.target")] for split in ("train", "dev")
    }
    prepare(splits, languages, store, PrepareOptions(merges=merges))
    return store


def _copy_pairs(source: PairSource, corpus: Path, header: bool) -> None:
    """All good pairs; some that are spread over the whole are held out for validation."""
    counted = sum(len(window.pairs) for window in read_windows(source, header=header))
    every = max(round(1 / _DEV_SHARE), counted // _DEV_PAIRS)
    number = copies = 0
    with new_folder(corpus) as partial:
        files = {
            (split, side): (partial / f"{split}.{side}").open("w", encoding="utf-8", newline="\n")
            for split in ("train", "dev")
            for side in ("source", "target")
        }
        try:
            for window in read_windows(source, header=header):
                for pair in window.pairs:
                    copies += pair[0].strip() == pair[1].strip()
                    split = "dev" if number % every == every - 1 else "train"
                    for side, text in zip(("source", "target"), pair, strict=True):
                        files[split, side].write(text.rstrip("\r") + "\n")
                    number += 1
        finally:
            for file in files.values():
                file.close()
        (partial / "count").write_text(f"{number}\n", encoding="utf-8")
    if copies > _MANY_COPIES * number:
        warn(
            f"{copies:,} of {number:,} pairs have the same text on both sides; a scorer that is trained on them takes "
            "copies for translations"
        )


def plan_training(store: Path, minutes: float, attention: str, seed: int = 1) -> Plan:
    """How many target tokens two, or however many, cores train on in so many minutes: a few updates tell."""
    speed = tokens_per_second(scorer_config(store, _FEWEST_TOKENS, attention, seed))
    tokens = max(_FEWEST_TOKENS, int(speed * 60 * minutes * (1 - _EXTRA)))
    return Plan(tokens, speed)


def train_scorer(config: TrainConfig, run: Path, reporter: Reporter) -> Path:
    """Train, or go on with a training that was cut off; returns the model directory."""
    if read_status(run) == "done":
        if not (run / MODEL_FOLDER / QUALITY_FILE).exists():  # it was cut off just then
            opened, batch = Store.open(config.store), config.batch
            split = opened.split(config.validation.split)
            validator = Validator(split, opened.tokenizers(), config.validation, batch.tokens, batch.max_pieces)
            remember_quality(run / MODEL_FOLDER, validator.texts(PAIRS))
        return run / MODEL_FOLDER
    begun = (run / runs.CONFIG_FILE).exists()
    trainer = runs.resume(run, World(), reporter) if begun else runs.start(config, run, World(), reporter)
    trainer.train()
    remember_quality(run / MODEL_FOLDER, trainer.validator.texts(PAIRS))
    return run / MODEL_FOLDER
