"""Decoding speed side by side: our models and other programs, all of the same size, for a number of steps set before.

Weights are random, every translation gets the same number of pieces, and each contestant is a process of its own that
works when it is its turn. A step's time is that of a whole call, encoding among it, over the number of steps.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from rela._version import __version__
from rela.bench.results import Number, Points, measure
from rela.bench.timing import summary
from rela.bench.work import Worker, all_workers, speed_over, take_turns
from rela.model.config import SIZES
from rela.text.vocabulary import SPECIAL_PIECES

SOFTMAX: Final = "softmax"
CTRANSLATE2: Final = "ctranslate2"
TRANSFORMERS: Final = "transformers"
SCRIPTS: Final = {CTRANSLATE2: "ctranslate2_worker.py", TRANSFORMERS: "marian_worker.py"}
PEER_PRECISIONS: Final = {CTRANSLATE2: ("float32", "int8"), TRANSFORMERS: ("float32",)}
TARGETS: Final = {
    (SOFTMAX, "float32"): 1.0,
    (SOFTMAX, "int8"): 1.0,
    (CTRANSLATE2, "float32"): 1.2,
    (TRANSFORMERS, "float32"): 2.0,
}
"""What is asked of others than softmax over each, at the same precision."""
BEST_TARGET: Final = 1.5
"""Over CTranslate2, the best precision of either."""
_BYTES: Final = {"float32": 4, "int8": 1}


@dataclass(frozen=True, kw_only=True)
class DecodeSetting:
    """What is decoded."""

    size: str
    vocabulary: int
    beam: int
    length: int
    source_length: int
    threads: int
    seed: int = 0

    def recipe(self, rounds: int) -> str:
        """The signature of all numbers of a run, but for who made them."""
        return (
            f"decode|size:{self.size}|vocabulary:{self.vocabulary}|beam:{self.beam}|steps:{self.length}"
            f"|source:{self.source_length}|threads:{self.threads}|device:cpu|rounds:{rounds}|statistic:median"
            f"|v{__version__}"
        )

    def sources(self, batch: int) -> list[list[int]]:
        """Random sentences."""
        generator = np.random.default_rng(self.seed)
        least = len(SPECIAL_PIECES) + 1  # others have a piece for unknown words there
        return generator.integers(least, self.vocabulary, (batch, self.source_length)).tolist()

    def weights_read(self) -> int:
        """Weights that a call of one sentence reads from memory, if it reads each once where it is needed.

        A step needs those of the decoder but for the projections of the memory, and those of the vocabulary; the
        encoder and the projections of the memory are needed once. Biases and norms are too few to count.
        """
        size = SIZES[self.size]
        square, expand = size["dim"] ** 2, 2 * size["dim"] * size["ffn_dim"]
        step = size["decoder_layers"] * (6 * square + expand) + self.vocabulary * size["dim"]
        once = size["encoder_layers"] * (4 * square + expand) + size["decoder_layers"] * 2 * square
        return self.length * step + once


@dataclass(frozen=True, kw_only=True)
class Contestant:
    """Who decodes: one of our models, or another program with its ``python``; ``more`` goes into its setting.

    ``threads``: as many as all have, if it is None.
    """

    name: str
    precision: str
    script: str | Path
    threads: int | None = None
    python: Path | None = None
    versions: str = ""
    more: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def label(self) -> str:
        """Its name in results."""
        with_threads = "" if self.threads is None else f", {self.threads} thread{'s' * (self.threads != 1)}"
        return f"{self.name} {self.precision}{with_threads}"

    @property
    def is_ours(self) -> bool:
        """False for other programs."""
        return self.python is None

    def worker(self, setting: DecodeSetting, batch: int) -> Worker:
        """Its process, ready to work."""
        facts = {
            "size_name": setting.size,
            "size": {**SIZES[setting.size], "vocabulary": setting.vocabulary},
            "precision": self.precision,
            "threads": setting.threads if self.threads is None else self.threads,
            "beam": setting.beam,
            "length": setting.length,
            "source": setting.sources(batch),
            **self.more,
        }
        return Worker(self.label, self.script, facts, python=self.python)


def measure_decoding(
    setting: DecodeSetting,
    contestants: Sequence[Contestant],
    batches: Sequence[int],
    *,
    rounds: int,
    bandwidth: float,
    points: Points,
    on_run: Callable[[Worker, float], object] = lambda _worker, _seconds: None,
) -> list[dict[str, Any]]:
    """The entry of each contestant in a result file. ``bandwidth`` is that of reading memory, in bytes a second."""
    recipe = setting.recipe(rounds)
    who = "|".join(f"{one.label}:{one.versions}" for one in contestants)

    def run(batch: int) -> dict[str, list[float]]:
        with all_workers([lambda one=one: one.worker(setting, batch) for one in contestants]) as workers:
            return take_turns(workers, rounds=rounds, check=_check_lengths(setting, batch), on_run=on_run)

    seconds = {batch: points.get(f"{recipe}|batch:{batch}|{who}", lambda batch=batch: run(batch)) for batch in batches}
    entries: list[dict[str, Any]] = []
    for one in contestants:
        own = f"{recipe}|who:{one.label}" + (f"|{one.versions}" if one.versions else "")
        steps = {str(batch): _milliseconds(found[one.label], setting.length) for batch, found in seconds.items()}
        measures = {"decode.step_ms": measure(own, "batch", steps)}
        if one.precision in _BYTES and 1 in seconds:
            limit = setting.weights_read() * _BYTES[one.precision] / bandwidth
            share = Number(value=limit / statistics.median(seconds[1][one.label]))
            measures["decode.bandwidth_share"] = measure(f"{own}|batch:1|limit:read bandwidth", None, share)
        if one.is_ours:
            measures |= _ratios(one, contestants, seconds, own)
        entries.append({"name": one.label, "ours": one.is_ours, "measures": measures})
    return entries


def _check_lengths(setting: DecodeSetting, batch: int) -> Callable[[Worker, dict[str, Any]], None]:
    def check(worker: Worker, found: dict[str, Any]) -> None:
        if found["lengths"] != [setting.length] * batch:
            raise ValueError(f"{worker.name}: expected {batch} translations of {setting.length} pieces, got {found}")

    return check


def _milliseconds(seconds: Sequence[float], steps: int) -> Number:
    found = summary([1000 * value / steps for value in seconds], statistics.median(seconds))
    return Number(value=found.median, low=found.low, high=found.high, rounds=found.rounds)


def _ratios(
    one: Contestant,
    contestants: Sequence[Contestant],
    seconds: Mapping[int, Mapping[str, list[float]]],
    recipe: str,
) -> dict[str, Any]:
    """How many times faster one of ours is than others of the same precision, and than CTranslate2's best.

    Of another program that ran with several numbers of threads, the fastest counts.
    """
    found: dict[str, Any] = {}
    for name in (SOFTMAX, CTRANSLATE2, TRANSFORMERS):
        target = TARGETS.get((name, one.precision)) if one.name != SOFTMAX else None
        same = [other.label for other in contestants if other.name == name and other.precision == one.precision]
        if not same or one.label in same:
            continue
        ratios = {
            str(batch): Number.of_speed(speed_over(times, one.label, _fastest(same, times)), target)
            for batch, times in seconds.items()
        }
        found[f"decode.over.{name}"] = measure(f"{recipe}|over:{' or '.join(same)}", "batch", ratios)
    theirs = [other.label for other in contestants if other.name == CTRANSLATE2]
    mine = [other.label for other in contestants if other.name == one.name]
    if theirs and one.name != SOFTMAX:
        best: dict[str, Number] = {}
        for batch, times in seconds.items():
            fastest = [_fastest(labels, times) for labels in (mine, theirs)]
            if fastest[0] == one.label:  # the number belongs to the best of ours
                best[str(batch)] = Number.of_speed(speed_over(times, *fastest), BEST_TARGET)
        if best:
            found[f"decode.best_over.{CTRANSLATE2}"] = measure(f"{recipe}|best to best", "batch", best)
    return found


def _fastest(labels: Sequence[str], seconds: Mapping[str, list[float]]) -> str:
    return min(labels, key=lambda label: statistics.median(seconds[label]))
