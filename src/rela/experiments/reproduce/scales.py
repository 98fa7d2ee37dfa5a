"""What is trained for a corpus at a scale: tasks, each a corpus with its recipe, its systems and their seeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from rela.experiments.reproduce.systems import ANALYSED, SYSTEMS
from rela.text.registry import find_corpus

Role = Literal["main", "pair", "gold"]
"""Of a task: what most tables are about; another pair of languages, for table 3; links drawn by people, for table 5."""
ScaleName = Literal["tiny", "laptop", "paper"]
Seeds = Mapping[str, tuple[int, ...]]

THREE: Final = (1, 2, 3)
ONE: Final = (1,)
IDEAS: Final = ("rela-g-decoder-cross", "rela-g-relu2")
"""The room that the paper leaves, tried on the same budget."""
_PAIR_SYSTEMS: Final = ("softmax", "rela-g")


@dataclass(frozen=True, kw_only=True)
class Task:
    """A corpus, how it becomes pieces, how all its systems are trained, and which these are.

    Attributes:
        settings: of the training, but for store, seed and attention.
        seeds: by system, in the order in which they are wanted.
        train_pairs: of the built-in corpus, how many are made; None: all that there are.
        test_pairs: of its test set.
    """

    corpus: str
    role: Role
    merges: int
    settings: Mapping[str, Any]
    seeds: Seeds
    joint: bool = True
    train_pairs: int | None = None
    test_pairs: int | None = None


@dataclass(frozen=True, kw_only=True)
class Study:
    """All tasks of a reproduction; the first one is the main one."""

    corpus: str
    scale: ScaleName
    tasks: tuple[Task, ...]

    @property
    def name(self) -> str:
        """Of its folder."""
        return f"{self.corpus}-{self.scale}"

    @property
    def main(self) -> Task:
        """What most tables and figures are about."""
        return self.tasks[0]


_PAPER_SEEDS: Final[Seeds] = {
    **dict.fromkeys(ANALYSED, THREE),
    **{name: ONE for name, system in SYSTEMS.items() if system.row is not None and name not in ANALYSED},
}

TINY: Final[Mapping[str, Any]] = {
    "model": {"size": "tiny", "dropout": 0.0, "attention_dropout": 0.0},
    "batch": {"tokens": 1000, "update_tokens": 1000},
    "rate": {"schedule": "linear", "warmup": 60, "peak": 3e-3},
    "budget": {"tokens": 200_000},
    "validation": {"every": 100, "max_sentences": 200, "bleu": False},
    "checkpoints": {"every": 25, "keep_last": 3, "average": 3},
    "divergence": {"window": 50},
    "log": {"every": 10},
}
"""Minutes for all: nobody should take these numbers for more than a sign that everything works."""

LAPTOP: Final[Mapping[str, Any]] = {
    "model": {
        "size": "tiny",
        "encoder_layers": 3,
        "decoder_layers": 3,
        "ffn_dim": 512,
        "dropout": 0.1,
        "attention_dropout": 0.1,
    },
    "batch": {"tokens": 1000, "update_tokens": 1000},
    "rate": {"schedule": "linear", "warmup": 1500, "peak": 4e-3},
    "budget": {"tokens": 6_000_000},
    "validation": {"every": 500, "bleu": False},
    "checkpoints": {"every": 200},
}
"""Two cores. Tuned for softmax alone, on the validation pairs of Multi30k (`tools/tune_laptop.py`)."""

LAPTOP_GRAMMAR: Final[Mapping[str, Any]] = {
    **LAPTOP,
    "rate": {**LAPTOP["rate"], "warmup": 300},
    "budget": {"tokens": 2_000_000},
}
"""The built-in corpus is soon learned."""

PAPER: Final[Mapping[str, Any]] = {
    "model": {"size": "base", "dropout": 0.1, "attention_dropout": 0.1, "tied": "target"},
    "batch": {"tokens": 4096, "update_tokens": 25_000, "max_pieces": 256},
    "optimizer": {"beta1": 0.9, "beta2": 0.98, "eps": 1e-8, "clip": 0.0, "label_smoothing": 0.1},
    "rate": {"schedule": "noam", "warmup": 4000},
    "budget": {"steps": 300_000},
    "validation": {"every": 5000},
    "checkpoints": {"every": 5000, "keep_last": 5, "average": 5},
}
"""The paper's; what it leaves open is in `sources`."""

_WMT: Final = ("wmt14-en-de", "wmt14-en-fr", "wmt18-en-fi", "wmt18-zh-en", "wmt16-ro-en")
_MULTI30K: Final = ("multi30k-en-de", "multi30k-en-fr", "multi30k-en-cs")
SCALES: Final[tuple[ScaleName, ...]] = ("tiny", "laptop", "paper")


def find_study(corpus: str, scale: ScaleName) -> Study:
    """What is to be done for a corpus at a scale."""
    known = find_corpus(corpus)  # an error names those that there are
    make = {"tiny": _tiny, "laptop": _laptop, "paper": _paper}[scale]
    return Study(corpus=known.name, scale=scale, tasks=tuple(make(known.name)))


def _tiny(corpus: str) -> list[Task]:
    seeds = {name: ONE for name, system in SYSTEMS.items() if system.row is not None or name in IDEAS}
    seeds |= {"softmax": (1, 2), "rela-g": (1, 2)}
    main = Task(corpus=corpus, role="main", settings=TINY, seeds=seeds, merges=2000, train_pairs=20_000, test_pairs=200)
    opposite = find_corpus(corpus).reversed()
    pair = replace(main, corpus=opposite.name, role="pair", seeds=dict.fromkeys(_PAIR_SYSTEMS, ONE))
    return [main, pair]


def _laptop(corpus: str) -> list[Task]:
    seeds = {**_PAPER_SEEDS, **dict.fromkeys(("rela-i", *IDEAS), THREE)}
    main = Task(corpus=corpus, role="main", merges=5000, settings=LAPTOP, seeds=seeds)
    pairs = [name for name in _MULTI30K if name != corpus] if corpus in _MULTI30K else []
    links = Task(
        corpus="grammar", role="gold", merges=3000, settings=LAPTOP_GRAMMAR, seeds=dict.fromkeys(ANALYSED, THREE)
    )
    europarl = replace(
        main, corpus="europarl-en-de", role="gold", merges=8000, seeds=dict.fromkeys(_PAIR_SYSTEMS, THREE)
    )
    others = [replace(main, corpus=name, role="pair", seeds=dict.fromkeys(_PAIR_SYSTEMS, ONE)) for name in pairs]
    return [main, *others, *(task for task in (links, europarl) if task.corpus != corpus)]


def _paper(corpus: str) -> list[Task]:
    main = Task(corpus=corpus, role="main", merges=32_000, joint=False, settings=PAPER, seeds=_PAPER_SEEDS)
    others = [name for name in _WMT if name != corpus] if corpus in _WMT else []
    return [main, *(replace(main, corpus=name, role="pair", seeds=dict.fromkeys(ANALYSED, ONE)) for name in others)]
