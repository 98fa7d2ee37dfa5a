"""Training speed beside JoeyNMT: target tokens a second on the same data, vocabulary and model size."""

from __future__ import annotations

import itertools
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rela._version import __version__
from rela.bench import joeynmt
from rela.bench.machine import matmul_peak
from rela.bench.peers import PEERS, clean_environment, versions
from rela.bench.results import Number, Points, measure
from rela.bench.timing import summary
from rela.model.config import ModelConfig
from rela.text.store import Store
from rela.training.allocator import keep_memory
from rela.training.config import ModelSection, dump_config, to_config
from rela.training.journal import read_log

_LOG_EVERY: Final = 5


@dataclass(frozen=True, kw_only=True)
class TrainSetting:
    """What is trained: a store, a size, an attention; batches of so many places; so many updates a run."""

    store: Path
    size: str
    attention: str
    tokens: int
    updates: int
    threads: int
    seed: int = 1

    def recipe(self, model: ModelConfig, peer_version: str) -> str:
        """The signature of all numbers of a run."""
        return (
            f"train|size:{self.size}|attention:{self.attention}|vocabulary:{model.target_vocabulary}"
            f"|batch:{self.tokens}|updates:{self.updates}|threads:{self.threads}|dtype:float32|device:cpu"
            f"|memory:{keep_memory()}|{peer_version}|v{__version__}"
        )

    def model(self) -> ModelConfig:
        """Our model; the peer's is told from it."""
        sides = Store.open(self.store).tokenizers()
        section = ModelSection(size=self.size, attention=self.attention)
        return section.resolve(sides.source.size, sides.target.size, joint=sides.joint)


@dataclass(frozen=True, kw_only=True)
class Round:
    """One pair of runs, one after the other."""

    ours: float
    peer: float
    peak: float

    @property
    def ratio(self) -> float:
        """How many times faster we were."""
        return self.ours / self.peer


PEER_TARGET: Final = 3.0
"""Times JoeyNMT's target tokens a second."""
PEAK_TARGET: Final = 0.6
"""Of the matrix-multiply peak."""


def measure_pairs(
    setting: TrainSetting, peer_python: Path, *, rounds: int, points: Points, on_round: Callable[[Round], None]
) -> dict[str, Any]:
    """The measures of interleaved pairs of runs: the order within a pair changes from round to round."""
    peer_python = peer_python.absolute()  # JoeyNMT works in a folder of its own
    peer_version = versions(PEERS["joeynmt"], peer_python)
    store = Store.open(setting.store)
    if not store.tokenizers().joint or "dev" not in store.splits:
        raise ValueError(f"{setting.store}: expected a joint vocabulary and a split dev, as the peer's setting needs")
    model = setting.model()
    found: list[Round] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        options = {"tokens": setting.tokens, "updates": setting.updates, "log_every": _LOG_EVERY, "seed": setting.seed}
        peer_config = joeynmt.write_setting(folder, store, model, **options)
        threads = {"OMP_NUM_THREADS": str(setting.threads), "MKL_NUM_THREADS": str(setting.threads)}

        def run(number: int) -> dict[str, float]:
            runs = {
                "ours": lambda: _run_ours(setting, folder / f"ours-{number}", os.environ | threads),
                "peer": lambda: joeynmt.run_training(peer_python, peer_config, clean_environment(**threads)),
            }
            order = ("ours", "peer") if number % 2 == 0 else ("peer", "ours")
            return {which: statistics.median(runs[which]()[1:]) for which in order} | {
                "peak": matmul_peak(setting.tokens, model.dim, model.ffn_dim, threads=setting.threads)
            }

        recipe = setting.recipe(model, peer_version)
        for number in range(rounds):
            found.append(Round(**points.get(f"{recipe}|pair:{number + 1}", lambda number=number: run(number))))
            on_round(found[-1])
    return summarise(found, operations_per_token(model, store), f"{recipe}|pairs:{len(found)}|statistic:median")


def summarise(rounds: list[Round], work: float, recipe: str) -> dict[str, Any]:
    """Medians over the pairs, with their quartiles. ``work`` is that of a target token, in operations."""
    ours, peers = [found.ours for found in rounds], [found.peer for found in rounds]
    return {
        "train.over.joeynmt": measure(recipe, None, _summed([found.ratio for found in rounds], PEER_TARGET)),
        "train.peak_share": measure(
            f"{recipe}|of:matrix-multiply peak|padding is no work",
            None,
            _summed([found.ours * work / found.peak for found in rounds], PEAK_TARGET),
        ),
        "train.tokens_per_second": measure(recipe, "program", {"rela": _summed(ours), "joeynmt": _summed(peers)}),
    }


def _summed(values: list[float], target: float | None = None) -> Number:
    found = summary(values, 0.0)
    return Number(value=found.median, low=found.low, high=found.high, rounds=found.rounds, target=target)


def _run_ours(setting: TrainSetting, folder: Path, environment: dict[str, str]) -> list[float]:
    """`rela train` in a process of its own; returns the speed of every interval of the log."""
    config = to_config(
        {
            "store": str(setting.store.resolve()),
            "seed": setting.seed,
            "model": {"size": setting.size, "attention": setting.attention},
            "batch": {"tokens": setting.tokens, "update_tokens": setting.tokens},
            "rate": {"warmup": 800, "peak": 1e-3},
            "budget": {"steps": setting.updates},
            "validation": {"every": 10**9, "bleu": False, "max_sentences": 1},
            "checkpoints": {"every": 10**9},
            "log": {"every": _LOG_EVERY},
        },
        "the benchmark",
    )
    path = folder.with_suffix(".yaml")
    path.write_text(dump_config(config), encoding="utf-8")
    command = [sys.executable, "-m", "rela", "train", str(path), "--run", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        raise ValueError(f"rela train: expected exit code 0, got {done.returncode}: {done.stderr.strip()}")
    events = [event for event in read_log(folder) if event["event"] == "train" and event["step"] % _LOG_EVERY == 0]
    return [
        (after["tokens"] - before["tokens"]) / (after["time"] - before["time"])
        for before, after in itertools.pairwise(events)
    ]


def operations_per_token(model: ModelConfig, store: Store) -> float:
    """Operations for a target token, with those for its share of the source, on average over the training data."""
    split = store.split("train")
    targets = len(split.target.tokens) + len(split)  # EOS among them
    return operations(model, len(split.source.tokens) + len(split), targets) / targets


def operations(model: ModelConfig, source_tokens: int, target_tokens: int) -> float:
    """Floating-point operations of the matrix products that so many tokens need, forward and backward.

    A product of an activation with a matrix of n numbers takes 2n, and twice that to go back. The products inside
    attention, and whatever is not a product, are left out: they are small here. Padding is no token.
    """
    layer = 4 * model.dim**2 + 2 * model.dim * model.ffn_dim
    encoder = model.encoder_layers * layer + model.decoder_layers * 2 * model.dim**2  # with the memory's projections
    decoder = model.decoder_layers * (layer + 2 * model.dim**2) + model.dim * model.target_vocabulary
    return 6.0 * (encoder * source_tokens + decoder * target_tokens)
