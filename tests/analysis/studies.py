"""Small corpora with gold links and tags, and model directories, to make studies of."""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.analysis.batches import texts
from tests.model.folders import subwords
from tests.model.small import random_model, small_config

from rela.alignment.pairs import windows
from rela.analysis.corpus import Corpus, GoldFiles
from rela.analysis.study import StudyOptions
from rela.model.directory import Languages, load_model, save_model
from rela.text.store import Tokenizers
from rela.text.words import split_words, word_texts

EVERYTHING = StudyOptions(num_ablated=6, num_examples=8, num_hallucinated=15)

TAGS = {",": "PUNCT", ".": "PUNCT", "?": "PUNCT", "Hund": "NOUN", "Katze": "NOUN", "Haus": "NOUN", "läuft": "VERB"}


def words_of(text: str) -> list[str]:
    return word_texts(text, split_words(text))


def write_lines(path: Path, lines: Sequence[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def tags_of(text: str) -> str:
    return " ".join(TAGS.get(word, "X") for word in words_of(text))


def links_of(source: str, target: str, draw: random.Random, share: float = 0.3) -> str:
    sizes = len(words_of(source)), len(words_of(target))
    return " ".join(f"{i}-{j}" for i in range(sizes[0]) for j in range(sizes[1]) if draw.random() < share)


def write_text(folder: Path, pairs: Sequence[tuple[str, str]], seed: int = 0) -> Corpus:
    """Both sides, links and tags, in files of a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(seed)
    write_lines(folder / "test.en", [source for source, _ in pairs])
    write_lines(folder / "test.de", [target for _, target in pairs])
    write_lines(folder / "test.sure", [links_of(*pair, draw) for pair in pairs])
    write_lines(folder / "test.possible", [links_of(*pair, draw) for pair in pairs])
    write_lines(folder / "test.tags.de", [tags_of(target) for _, target in pairs])
    return Corpus(
        source=folder / "test.en",
        target=folder / "test.de",
        gold=GoldFiles(sure=folder / "test.sure", possible=folder / "test.possible"),
        tags=folder / "test.tags.de",
    )


def write_corpus(folder: Path, count: int = 20, seed: int = 0, longest: int = 9) -> Corpus:
    return write_text(folder, texts(count, seed, longest), seed)


def make_model(
    folder: Path,
    attention: str = "rela-g",
    *,
    seed: int = 0,
    languages: tuple[str, str] = ("en", "de"),
    made_by: dict[str, Any] | None = None,
    merges: int = 40,
    **changes: Any,
) -> Path:
    """A random model; by default it does not know its seed, as those of earlier versions."""
    sides = Tokenizers(subwords(merges), subwords(merges))
    sizes = {"source_vocabulary": sides.source.size, "target_vocabulary": sides.target.size, "tied": "all"}
    model = random_model(small_config(attention, **{**sizes, **changes}), seed)
    save_model(folder, model, sides, Languages(*languages), made_by or {"test": True})
    return folder


def in_windows(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Windows of so many pairs."""
    for module in ("measuring", "study"):
        monkeypatch.setattr(f"rela.analysis.{module}.windows", partial(windows, size=size))


def without_cost(results: dict[str, Any]) -> dict[str, Any]:
    """All but what a clock decides."""
    copy = json.loads(json.dumps(results))
    for model in copy["models"]:
        model.pop("cost")
    return copy


def numbers(value: Any) -> Iterator[Any]:
    """All numbers of a nested list, None among them."""
    if isinstance(value, list):
        for one in value:
            yield from numbers(one)
    else:
        yield value


class Stop:
    """A progress callback that raises an error at the n-th call."""

    def __init__(self, after: int, error: Callable[[], BaseException] = KeyboardInterrupt) -> None:
        self.left, self.error = after, error

    def __call__(self, what: str, count: int) -> None:
        self.left -= 1
        if self.left == 0:
            raise self.error()


def longest_sides(corpus: Corpus, model: Path) -> list[int]:
    """Of each pair the pieces of its longer side, for a model."""
    items = corpus.read(load_model(model).tokenizers)
    return [max(len(item.pair.source.ids), len(item.pair.target.ids)) for item in items]
