"""The text of a task: made, or found, and prepared; and what its models are measured on."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from rela.analysis.corpus import Corpus, GoldFiles
from rela.analysis.tags import HanTaTagger, Tagger
from rela.experiments.reproduce.places import Places
from rela.experiments.reproduce.scales import Task
from rela.text.corpora import fetch
from rela.text.grammar import write_corpus
from rela.text.prepare import PrepareOptions, prepare
from rela.text.readers import PairSource
from rela.text.registry import find_corpus
from rela.text.store import Store
from rela.text.worded import Wording

Say = Callable[[str], None]

_DEV_PAIRS: Final = 1000
_GOLD_FOLDER: Final = "gold-de-en"
_OLD_SPELLING: Final = {"daß": "dass", "Daß": "Dass"}
"""The gold text is in the spelling of before 1996, the training text in that of after."""


class Split(NamedTuple):
    """A part of a corpus as lines of text."""

    name: str
    source: list[str]
    target: list[str]


def make_store(places: Places, task: Task, say: Say) -> Store:
    """The token store of a task, made if it is not there."""
    folder = places.store(task)
    if not folder.exists():
        corpus = find_corpus(task.corpus)
        languages = corpus.source_language, corpus.target_language
        say(f"preparing {task.corpus}")
        splits = _grammar_sources(places, task) if corpus.is_generated else fetch(task.corpus).splits
        prepare(splits, languages, folder, PrepareOptions(merges=task.merges, joint=task.joint))
    return Store.open(folder)


def _grammar_folder(places: Places, task: Task) -> Path:
    return places.work / task.corpus / "corpus"


def _grammar_sources(places: Places, task: Task) -> dict[str, list[PairSource]]:
    """The built-in corpus, as large as is wanted."""
    from rela.text.grammar import DEFAULT_COUNTS

    corpus, folder = find_corpus(task.corpus), _grammar_folder(places, task)
    counts = dict(DEFAULT_COUNTS)
    counts["train"] = task.train_pairs or counts["train"]
    for split in counts:
        if split.startswith("test"):
            counts[split] = task.test_pairs or counts[split]
    write_corpus(folder, counts=counts)
    languages = corpus.source_language, corpus.target_language
    return {split: [PairSource.files(*(folder / f"{split}.{one}" for one in languages))] for split in counts}


def test_splits(store: Store) -> list[str]:
    """The parts that translations are measured on; the first one is what tables show."""
    return [name for name in store.splits if name.startswith("test")]


def read_split(places: Places, task: Task, name: str) -> Split:
    """The text of a split, from the store."""
    folder = places.store(task)
    sides = [
        (folder / f"{name}.{side}.txt").read_text(encoding="utf-8").split("\n")[:-1] for side in ("source", "target")
    ]
    return Split(name, *sides)


def weights_corpus(places: Places, task: Task) -> Corpus | None:
    """What weights are measured on: the test set; of a gold task, the text that has links. None: it is not here."""
    corpus, store = find_corpus(task.corpus), places.store(task)
    if corpus.is_generated:
        folder = _grammar_folder(places, task)
        exchanged = corpus.source_language != "en"
        return Corpus(
            source=folder / f"test.{corpus.source_language}",
            target=folder / f"test.{corpus.target_language}",
            gold=GoldFiles(sure=folder / "test.sure", possible=folder / "test.possible", flipped=exchanged),
            tags=folder / f"test.tags.{corpus.target_language}",
        )
    if task.role == "gold":
        return _gold_corpus(corpus.source_language, corpus.target_language)
    return Corpus(
        source=store / "test.source.txt", target=store / "test.target.txt", tags=tagger_for(corpus.target_language)
    )


def _gold_corpus(source: str, target: str) -> Corpus | None:
    """Links that people drew, if RELA_DATA has them: they may not be handed on."""
    data = os.environ.get("RELA_DATA")
    folder = None if data is None else Path(data) / _GOLD_FOLDER
    if folder is None or not folder.is_dir() or {source, target} != {"de", "en"}:
        return None
    return Corpus(
        source=folder / f"dev.{source}",
        target=folder / f"dev.{target}",
        gold=GoldFiles(sure=folder / "dev.sure", possible=folder / "dev.possible", flipped=source == "en"),
        wording=Wording(tokenised=True, replacements=_OLD_SPELLING),
    )


def tagger_for(language: str) -> Tagger | None:
    """None for languages without one, and without the package."""
    try:
        return HanTaTagger(language)
    except (ValueError, ModuleNotFoundError):
        return None
