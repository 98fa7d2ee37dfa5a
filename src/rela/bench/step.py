"""A whole training step: each attention on the same batches of real sentences, in turn.

A step is what `rela train` does: forward, loss, backward, clipping, AdamW. Softmax attends by torch's own kernel.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import torch
from torch import nn

from rela._version import __version__
from rela.bench.machine import kernel_name, matmul_peak
from rela.bench.results import Number, Points, measure
from rela.bench.timing import summary
from rela.bench.train import PEAK_TARGET, operations
from rela.model.transformer import Transformer
from rela.text.batches import Batch, BatchOptions, BatchStream
from rela.text.store import Store
from rela.text.vocabulary import PAD
from rela.training.allocator import keep_memory
from rela.training.config import ModelSection
from rela.training.loss import Criterion

BASELINE: Final = "softmax"
TARGET: Final = 1.0
_SMOOTHING: Final = 0.1
_RATE: Final = 1e-4
_SOME_PIECES: Final = 100


class Learner:
    """A model that is trained step by step."""

    def __init__(self, section: ModelSection, store: Store, seed: int) -> None:
        sides = store.tokenizers()
        torch.manual_seed(seed)
        self.model = Transformer(section.resolve(sides.source.size, sides.target.size, joint=sides.joint)).train()
        self.criterion = Criterion(self.model, _SMOOTHING)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=_RATE, betas=(0.9, 0.98), fused=True)

    def step(self, batch: Batch) -> float:
        """One update; returns the seconds it took."""
        start = time.perf_counter()
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.criterion(*(torch.from_numpy(ids) for ids in batch[:3]))
        (loss.smoothed / batch.num_tokens).backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return time.perf_counter() - start


def measure_step(
    store_folder: Path,
    attentions: Sequence[str],
    *,
    size: str | ModelSection,
    tokens: int,
    rounds: int,
    points: Points,
    seed: int = 1,
    on_round: Callable[[dict[str, float]], object] = lambda _: None,
) -> dict[str, dict[str, Any]]:
    """The measures of each attention: speed over softmax's, share of the matrix-multiply peak, tokens a second.

    ``size`` is one with a name, or a model's section of a configuration, whose attention does not matter.
    """
    names = list(dict.fromkeys((*attentions, BASELINE)))
    store = Store.open(store_folder)
    section = ModelSection(size=size) if isinstance(size, str) else size
    name = size if isinstance(size, str) else _sizes(size)
    recipe = (
        f"step|size:{name}|vocabulary:{store.tokenizers().target.size}|batch:{tokens}|threads:{torch.get_num_threads()}"
        f"|dtype:float32|device:cpu|memory:{keep_memory()}|kernel:{kernel_name()}|rounds:{rounds}|statistic:median"
        f"|torch:{torch.__version__}|v{__version__}"
    )

    def run() -> list[dict[str, float]]:
        learners = {name: Learner(msgspec.structs.replace(section, attention=name), store, seed) for name in names}
        config = learners[BASELINE].model.config
        stream = BatchStream(store.split("train"), BatchOptions(tokens=tokens, seed=seed))
        first = next(stream)
        for learner in learners.values():
            learner.step(first)  # memory is asked for, threads are started
        found: list[dict[str, float]] = []
        for number in range(rounds):
            batch = next(stream)
            order = names if number % 2 == 0 else names[::-1]
            seconds = {name: learners[name].step(batch) for name in order}
            facts = {
                "tokens": batch.num_tokens,
                "work": operations(config, int((batch.source != PAD).sum()), batch.num_tokens),
                "peak": matmul_peak(tokens, config.dim, config.ffn_dim, seconds=0.5),
            }
            found.append(seconds | facts)
            on_round(seconds)
        return found

    found: list[dict[str, float]] = points.get(f"{recipe}|{store.identity()}|{','.join(names)}", run)
    return {name: _measures(name, found, f"{recipe}|attention:{name}") for name in names}


def _sizes(section: ModelSection) -> str:
    """Of a model whose size has no name: dim, FFN, layers, heads."""
    config = section.resolve(_SOME_PIECES, _SOME_PIECES, joint=True)
    return f"{config.dim}-{config.ffn_dim}-{config.encoder_layers}+{config.decoder_layers}-{config.num_heads}"


def _measures(name: str, rounds: list[dict[str, float]], recipe: str) -> dict[str, Any]:
    times = [one[name] for one in rounds]
    ratios = [one[BASELINE] / one[name] for one in rounds]
    shares = [one["work"] / one[name] / one["peak"] for one in rounds]
    speeds = [one["tokens"] / one[name] for one in rounds]
    target = None if name == BASELINE else TARGET

    def number(values: list[float], target: float | None = None) -> Number:
        return Number.of_speed(summary(values, statistics.median(times)), target)

    return {
        "train.step.over.softmax": measure(f"{recipe}|over:{BASELINE} on SDPA", None, number(ratios, target)),
        "train.step.peak_share": measure(
            f"{recipe}|of:matrix-multiply peak|padding is no work", None, number(shares, PEAK_TARGET)
        ),
        "train.step.tokens_per_second": measure(recipe, None, number(speeds)),
    }
