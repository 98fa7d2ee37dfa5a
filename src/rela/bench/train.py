"""Training speed beside JoeyNMT: target tokens a second on the same data, vocabulary and model size."""

from __future__ import annotations

import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import torch

from rela._version import __version__
from rela.bench import joeynmt
from rela.model.config import ModelConfig
from rela.text.store import Store
from rela.training.allocator import keep_memory
from rela.training.config import ModelSection, dump_config, to_config
from rela.training.journal import read_log

_LOG_EVERY: Final = 5
_PEAK_SECONDS: Final = 1.0


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


def measure(
    setting: TrainSetting, peer_python: Path, *, rounds: int, on_round: Callable[[Round], None]
) -> dict[str, Any]:
    """Interleaved pairs of runs: the order within a pair changes from round to round."""
    peer_python = peer_python.absolute()  # JoeyNMT works in a folder of its own
    peer_version = joeynmt.check_python(peer_python)
    store = Store.open(setting.store)
    if not store.tokenizers().joint or "dev" not in store.splits:
        raise ValueError(f"{setting.store}: expected a joint vocabulary and a split dev, as the peer's setting needs")
    model = setting.model()
    found: list[Round] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        options = {"tokens": setting.tokens, "updates": setting.updates, "log_every": _LOG_EVERY, "seed": setting.seed}
        peer_config = joeynmt.write_setting(folder, store, model, **options)
        environment = os.environ | {"OMP_NUM_THREADS": str(setting.threads), "MKL_NUM_THREADS": str(setting.threads)}
        for number in range(rounds):
            runs = {
                "ours": lambda number=number: _run_ours(setting, folder / f"ours-{number}", environment),
                "peer": lambda: joeynmt.run_training(peer_python, peer_config, environment),
            }
            order = ("ours", "peer") if number % 2 == 0 else ("peer", "ours")
            speeds = {which: statistics.median(runs[which]()[1:]) for which in order}
            found.append(Round(**speeds, peak=matmul_peak(setting, model)))
            on_round(found[-1])
    return summarise(setting, model, found, peer_version)


def summarise(setting: TrainSetting, model: ModelConfig, rounds: list[Round], peer_version: str) -> dict[str, Any]:
    """Medians over the rounds. The interval is from the least to the greatest ratio."""
    ratios = [found.ratio for found in rounds]
    work = operations_per_token(model, Store.open(setting.store))
    share = statistics.median(found.ours * work / found.peak for found in rounds)
    return {
        "schema": "rela-bench-train/1",
        "ratio": statistics.median(ratios),
        "ratio_low": min(ratios),
        "ratio_high": max(ratios),
        "coverage": 1 - 2 * 0.5 ** len(ratios),
        "peak_share": share,
        "operations_per_token": work,
        "rounds": [asdict(found) | {"ratio": found.ratio} for found in rounds],
        "signature": (
            f"train|size:{setting.size}|attention:{setting.attention}|vocabulary:{model.target_vocabulary}"
            f"|batch:{setting.tokens}|updates:{setting.updates}|threads:{setting.threads}|dtype:float32|device:cpu"
            f"|memory:{keep_memory()}"
            f"|pairs:{len(rounds)}|statistic:median|{peer_version}|rela:{__version__}"
        ),
    }


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
    """Floating-point operations of matrix products that a target token needs, forward and backward.

    A product of an activation with a matrix of n numbers takes 2n, and twice that to go back. The products inside
    attention, and whatever is not a product, are left out: they are small here.
    """
    layer = 4 * model.dim**2 + 2 * model.dim * model.ffn_dim
    split = store.split("train")
    source_share = (len(split.source.tokens) + len(split)) / (len(split.target.tokens) + len(split))
    encoder = model.encoder_layers * layer + model.decoder_layers * 2 * model.dim**2  # with the memory's projections
    decoder = model.decoder_layers * (layer + 2 * model.dim**2) + model.dim * model.target_vocabulary
    return 6 * (encoder * source_share + decoder)


def matmul_peak(setting: TrainSetting, model: ModelConfig) -> float:
    """Operations a second of the feed-forward layer's product, alone: what the machine gives right now."""
    before = torch.get_num_threads()
    torch.set_num_threads(setting.threads)
    try:
        x, weight = torch.randn(setting.tokens, model.dim), torch.randn(model.dim, model.ffn_dim)
        out = x @ weight
        count, started = 0, time.perf_counter()
        while time.perf_counter() - started < _PEAK_SECONDS:
            torch.mm(x, weight, out=out)
            count += 1
        return 2 * x.numel() * model.ffn_dim * count / (time.perf_counter() - started)
    finally:
        torch.set_num_threads(before)
