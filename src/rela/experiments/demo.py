"""The demo: the built-in corpus, a small model trained on it, its translations and scores, and a look inside it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from rela._files import write_text
from rela._version import __version__
from rela.alignment.choice import Choice
from rela.alignment.errors import GoldLinks, alignment_error_rate
from rela.alignment.links import Alignment
from rela.analysis.corpus import Corpus, GoldFiles
from rela.analysis.study import StudyOptions, run_study
from rela.decoding.translator import Translator
from rela.evaluation.bleu import corpus_bleu
from rela.evaluation.score import BleuScore
from rela.filtering.remembering import PAIRS, remember_quality
from rela.model.directory import MODEL_FOLDER
from rela.report.page import write_page
from rela.report.results import PAGE_FILE, load_results
from rela.text.grammar import GrammarPair, generate, write_corpus
from rela.text.prepare import PrepareOptions, prepare
from rela.text.readers import PairSource
from rela.training import runs
from rela.training.checkpoints import list_checkpoints, read_state
from rela.training.config import TrainConfig, to_config
from rela.training.journal import read_status
from rela.training.reporter import Reporter
from rela.training.world import World

LANGUAGES: Final = ("en", "de")
TEST_SPLITS: Final = ("test", "test-compositional")
_SHOWN: Final = 6
_DONE_FILE: Final = "demo.done"
_BEGUN_FILE: Final = "demo.begun"
_FOLDERS: Final = ("corpus", "store", "training", "analysis")
_ABLATED: Final = 60  # pairs
_FINDINGS: Final = 3

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class DemoSize:
    """How much is made and learned."""

    train_pairs: int = 100_000
    merges: int = 3_000
    tokens: int = 1_700_000
    dev_pairs: int = 400
    test_pairs: int = 1000


class Shown(NamedTuple):
    """A translation to look at: its words, those of the reference text, and the links."""

    source: str
    reference: str
    translation: str
    alignment: Alignment


class DemoResult(NamedTuple):
    """What the demo found out."""

    bleu: dict[str, BleuScore]
    aer: float
    aligned_by: Choice
    shown: list[Shown]
    parameters: int
    findings: list[str]
    report: Path
    seconds: float
    run: Path

    @property
    def model(self) -> Path:
        """The model directory."""
        return self.run / "training" / "model"

    def to_json(self, attention: str) -> dict[str, Any]:
        """For machines."""
        return {
            "bleu": self.bleu["test"].score,
            "bleu_compositional": self.bleu["test-compositional"].score,
            "seconds": self.seconds,
            "model": str(self.model),
            "attention": attention,
            "parameters": self.parameters,
            "aer": self.aer,
            "report": str(self.report),
            "findings": self.findings,
            "signatures": {
                "bleu": self.bleu["test"].signature,
                "aer": f"AER|gold:grammar-test|attention:{attention}|{self.aligned_by.signature()}|"
                f"chosen:same-words-dev|level:word|v{__version__}",
            },
            "translations": [
                {
                    "source": shown.source,
                    "translation": shown.translation,
                    "reference": shown.reference,
                    "links": shown.alignment.links,
                }
                for shown in self.shown
            ],
        }


def demo_config(store: Path, attention: str, size: DemoSize, seed: int) -> TrainConfig:
    """The training of the demo: a tiny model that sees the corpus a little more than once."""
    data = {
        "store": str(store),
        "seed": seed,
        "model": {"size": "tiny", "dropout": 0.0, "attention_dropout": 0.0, "attention": attention},
        "batch": {"tokens": 1000, "update_tokens": 1000},
        "rate": {"schedule": "linear", "warmup": 300, "peak": 3e-3},
        "budget": {"tokens": size.tokens},
        "validation": {"every": 400, "bleu": False},
        "checkpoints": {"every": 100, "keep_last": 1, "average": 1},
    }
    return to_config(data, "the demo")


def run_demo(
    run: Path, attention: str, reporter: Reporter, say: Say, *, size: DemoSize | None = None, seed: int = 1
) -> DemoResult:
    """Make, train, translate, evaluate. One that was cut off goes on; one that was finished is made anew."""
    size = size or DemoSize()
    _clear_if_done(run, say)
    began = time.monotonic() - _seconds_before(run / "training")
    store = run / "store"
    _make_store(run, store, size, say)
    config = demo_config(store, attention, size, seed)
    _train(config, run / "training", reporter)
    translator = Translator.load(run / "training")
    bleu: dict[str, BleuScore] = {}
    shown: list[Shown] = []
    aer = 0.0
    for split in TEST_SPLITS:
        say(f"translating {size.test_pairs:,} sentences of {split}")
        pairs = list(generate(split, count=size.test_pairs))
        texts = [found.text for found in translator.translate([pair.source for pair in pairs])]
        bleu[split] = corpus_bleu(texts, [[pair.target for pair in pairs]])
        shown += _show(translator, pairs, texts)
        if split == "test":
            aer = _error_rate(translator, pairs)
    say("looking at what every head does")
    findings, report = _analyse(run)
    write_text(run / _DONE_FILE, f"{_last_step(run)}\n")
    (run / _BEGUN_FILE).unlink()
    seconds = time.monotonic() - began
    parameters = translator.model.num_parameters()
    return DemoResult(bleu, aer, translator.alignment, shown, parameters, findings, report, seconds, run)


def _analyse(run: Path) -> tuple[list[str], Path]:
    """The most interesting findings in words, and the page that shows them."""
    corpus = Corpus(
        source=run / "corpus" / "test.en",
        target=run / "corpus" / "test.de",
        gold=GoldFiles(sure=run / "corpus" / "test.sure", possible=run / "corpus" / "test.possible"),
        tags=run / "corpus" / "test.tags.de",
    )
    out = run / "analysis"
    results = run_study([run / "training"], corpus, out, StudyOptions(num_ablated=_ABLATED))
    page = write_page(load_results(out), out / PAGE_FILE).path
    return [finding["text"] for finding in results["models"][0]["findings"][:_FINDINGS]], page


def _clear_if_done(run: Path, say: Say) -> None:
    """Of one that was finished, take away what it made; what else lies in its folder, or was trained since, stays."""
    done, begun = run / _DONE_FILE, run / _BEGUN_FILE
    if done.exists():
        if done.read_text(encoding="utf-8").strip() not in ("", str(_last_step(run))):
            raise FileExistsError(
                f"{run / 'training'}: expected the training that the demo finished, got one that went on since; name "
                "another folder with --run"
            )
        say(f"{run} has a finished demo, which is made anew")
        for name in _FOLDERS:
            shutil.rmtree(run / name, ignore_errors=True)
        done.unlink()
    elif not begun.exists() and (taken := [name for name in _FOLDERS if (run / name).exists()]):
        raise FileExistsError(
            f"{run}: expected a folder without {' or '.join(_FOLDERS)}, which the demo makes, got one with "
            f"{taken[0]}; name another with --run"
        )
    elif (run / "training" / runs.CONFIG_FILE).exists():
        say(f"going on with {run}, which was cut off")
    run.mkdir(parents=True, exist_ok=True)
    write_text(begun, "")


def _last_step(run: Path) -> int | None:
    """The update of the newest checkpoint."""
    checkpoints = list_checkpoints(run / "training")
    return checkpoints[-1].step if checkpoints else None


def _seconds_before(training: Path) -> float:
    """What was trained before a cut, as far as it is kept."""
    checkpoints = list_checkpoints(training)
    return read_state(checkpoints[-1].path)["seconds"] if checkpoints else 0.0


def _make_store(run: Path, store: Path, size: DemoSize, say: Say) -> None:
    if store.exists():
        return
    say(f"making {size.train_pairs:,} English-German sentence pairs with the built-in grammar")
    counts = {"train": size.train_pairs, "dev": size.dev_pairs, **dict.fromkeys(TEST_SPLITS, size.test_pairs)}
    corpus = run / "corpus"
    write_corpus(corpus, counts=counts)
    sources = {
        split: [PairSource.files(*(corpus / f"{split}.{language}" for language in LANGUAGES))]
        for split in ("train", "dev")
    }
    say(f"learning {size.merges:,} subwords, encoding")
    prepare(sources, LANGUAGES, store, PrepareOptions(merges=size.merges))


def _train(config: TrainConfig, folder: Path, reporter: Reporter) -> None:
    world = World()
    if (folder / runs.CONFIG_FILE).exists():
        if read_status(folder) == "done":
            return
        trainer = runs.resume(folder, world, reporter, wanted=config)
    else:
        trainer = runs.start(config, folder, world, reporter)
    trainer.train()
    remember_quality(folder / MODEL_FOLDER, trainer.validator.texts(PAIRS))


def _error_rate(translator: Translator, pairs: Sequence[GrammarPair]) -> float:
    found = translator.align([(pair.source, pair.target) for pair in pairs])
    return alignment_error_rate(
        (alignment.links, GoldLinks(pair.sure, pair.possible)) for alignment, pair in zip(found, pairs, strict=True)
    )


def _show(translator: Translator, pairs: Sequence[GrammarPair], texts: Sequence[str]) -> list[Shown]:
    """A few sentences that are neither very short nor very long."""
    places = [i for i, pair in enumerate(pairs) if 8 <= len(pair.source_words) <= 14 and texts[i]]
    chosen = list(islice(places, 0, len(places), max(1, len(places) // (_SHOWN // len(TEST_SPLITS)))))
    chosen = chosen[: _SHOWN // len(TEST_SPLITS)]
    links = translator.align([(pairs[i].source, texts[i]) for i in chosen])
    return [
        Shown(pairs[i].source, pairs[i].target, texts[i], alignment) for i, alignment in zip(chosen, links, strict=True)
    ]
