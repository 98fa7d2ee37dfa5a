"""What the tests of training share: a tiny store of made-up sentences, a tiny configuration, and processes to kill."""

import json
import multiprocessing
import os
import random
import signal
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from rela.decoding.translator import Translator
from rela.model.transformer import Transformer
from rela.text.prepare import PrepareOptions, prepare
from rela.text.readers import PairSource
from rela.text.store import Sentences, Split, Tokenizers
from rela.training.checkpoints import list_checkpoints
from rela.training.config import TrainConfig, to_config
from rela.training.journal import read_log
from rela.training.runs import resume, start
from rela.training.trainer import Trainer
from rela.training.world import World

_SOURCE = ("one", "two", "three", "four", "five", "six", "seven", "eight")
TWO_LAYERS: dict[str, Any] = {
    "model__dim": 32,
    "model__num_heads": 4,
    "model__encoder_layers": 2,
    "model__decoder_layers": 2,
    "batch__tokens": 600,
    "batch__update_tokens": 600,
    "validation__every": 50,
    "checkpoints__every": 50,
}
"""Changes of the tiny training: a model that learns to count in a second or two."""
_TARGET = ("eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht")


def make_store(
    folder: Path, *, pairs: int = 60, dev: int = 4, joint: bool = True, seed: int = 0, longest: int = 7
) -> Path:
    """A store of numbers that are counted in two languages."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = random.Random(seed)
    splits: dict[str, list[PairSource]] = {}
    for split, count in (("train", pairs), ("dev", dev)):
        texts: list[list[str]] = [[], []]
        for _ in range(count):
            numbers = generator.choices(range(len(_SOURCE)), k=generator.randint(1, longest))
            for text, words in zip(texts, (_SOURCE, _TARGET), strict=True):
                text.append(" ".join(words[number] for number in numbers) + "!")
        files = [str(folder / f"{split}.{side}") for side in ("en", "de")]
        for file, text in zip(files, texts, strict=True):
            Path(file).write_text("".join(f"{line}\n" for line in text), encoding="utf-8")
        splits[split] = [PairSource.files(*files)]
    prepare(splits, ("en", "de"), folder / "store", PrepareOptions(merges=20, joint=joint))
    return folder / "store"


def plain_config(store: Path, **changes: Any) -> dict[str, Any]:
    """The settings of a tiny training, as plain data; names of changes have ``__`` for the dot."""
    data: dict[str, Any] = {
        "store": str(store),
        "model": {"dim": 16, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1, "ffn_dim": 16},
        "batch": {"tokens": 60, "update_tokens": 150},
        "rate": {"warmup": 4, "peak": 0.01},
        "budget": {"steps": 8},
        "validation": {"every": 3, "bleu": False},
        "checkpoints": {"every": 2, "keep_last": 3, "average": 3},
        "log": {"every": 1},
    }
    for name, value in changes.items():
        section, _, key = name.partition("__")
        if key:
            data.setdefault(section, {})[key] = value
        else:
            data[section] = value
    return data


def tiny_config(store: Path, **changes: Any) -> TrainConfig:
    """The settings of a tiny training."""
    return to_config(plain_config(store, **changes), "test")


def partly_translated(model: Transformer, tokenizers: Tokenizers, split: Split) -> Split:
    """The same sources; the first half of the targets are what greedy search finds. BLEU is then neither 0 nor 100."""
    sources = [tokenizers.source.decode(split.source[place].tolist()) for place in range(len(split) // 2)]
    found = Translator(model, tokenizers).translate(sources, beam=1)
    pieces = [np.array(tokenizers.target.encode(one.text), np.int64) for one in found]
    pieces += [np.asarray(split.target[place], np.int64) for place in range(len(sources), len(split))]
    return Split(split.source, Sentences(np.concatenate(pieces), np.cumsum([0, *map(len, pieces)])))


class Silent:
    """A reporter that keeps what it is told."""

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {}
        self.losses: list[float] = []
        self.spent: list[float] = []
        self.notes: list[str] = []

    def started(self, facts: dict[str, Any]) -> None:
        self.facts = facts

    def updated(self, step: int, spent: float, loss: float, tokens_per_second: float) -> None:
        assert step > 0
        assert tokens_per_second > 0
        self.losses.append(loss)
        self.spent.append(spent)

    def noted(self, text: str) -> None:
        self.notes.append(text)


def new_trainer(config: TrainConfig, run: Path) -> tuple[Trainer, Silent]:
    """A trainer of a new run in this process alone."""
    reporter = Silent()
    return start(config, run, World(), reporter), reporter


def resumed_trainer(run: Path, *overrides: str) -> tuple[Trainer, Silent]:
    """A trainer that goes on with a run."""
    reporter = Silent()
    return resume(run, World(), reporter, overrides=overrides), reporter


def train(config: TrainConfig, run: Path) -> dict[str, Any]:
    """Train from the beginning to the end."""
    return new_trainer(config, run)[0].train()


def model_bytes(run: Path) -> bytes:
    """The weights of the finished model, as they are on disk."""
    return (run / "model" / "model.safetensors").read_bytes()


def events(run: Path, event: str) -> list[dict[str, Any]]:
    """The lines of a run's log about one kind of event."""
    return [entry for entry in read_log(run) if entry["event"] == event]


def status(run: Path) -> dict[str, Any]:
    """What a run says about itself."""
    return json.loads((run / "status.json").read_text())


def steps(run: Path) -> list[tuple[int, bool]]:
    """The checkpoints of a run, and whether they were scheduled."""
    return [(checkpoint.step, checkpoint.scheduled) for checkpoint in list_checkpoints(run)]


def changed(config: TrainConfig, section: str, **values: Any) -> TrainConfig:
    """The same configuration but for some settings of a section."""
    return msgspec.structs.replace(config, **{section: msgspec.structs.replace(getattr(config, section), **values)})


def kill_at(function: Callable[..., Any], number: int) -> Callable[..., Any]:
    """The same function, until the given call of it: there the process ends as by kill -9."""
    calls = 0

    def deadly(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **named)

    return deadly


@cache
def _server() -> Any:
    """Processes are forked from one that has imported torch, so that one costs no seconds."""
    context = multiprocessing.get_context("forkserver")
    # The optimizer's first step imports torch._dynamo, the first BLEU sacrebleu.
    context.set_forkserver_preload(["rela.training.trainer", "torch._dynamo", "sacrebleu.metrics", "pytest", "yaml"])
    return context


def spawn(target: Callable[..., None], *arguments: Any) -> Any:
    """A process of its own."""
    process = _server().Process(target=target, args=arguments)
    process.start()
    return process


def run_process(target: Callable[..., None], *arguments: Any) -> int:
    """The exit code of a process: -9 if it was killed."""
    process = spawn(target, *arguments)
    process.join(120)
    assert process.exitcode is not None, "the process did not end"
    return process.exitcode
