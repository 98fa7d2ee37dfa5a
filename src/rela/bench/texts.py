"""Real sentence pairs to measure with: files, or a split of a corpus that is known by name."""

from __future__ import annotations

from itertools import chain, islice
from pathlib import Path
from typing import Final

from rela.text.corpora import fetch
from rela.text.problems import ReadReport
from rela.text.readers import PairSource, read_pairs
from rela.text.store import DESCRIPTION_FILE

BUILT_IN: Final = "grammar"


def data_name(source: Path) -> str:
    """What signatures call a file; files of token stores have the same names in each, so there the store's comes first.

    ``corpus/test.en`` is ``test``, and ``runs/grammar-store/test.source.txt`` is ``grammar-store/test.source``.
    """
    folder = source.resolve().parent
    return f"{folder.name}/{source.stem}" if (folder / DESCRIPTION_FILE).exists() else source.stem


def read_text_pairs(source: Path, target: Path, count: int) -> list[tuple[str, str]]:
    """So many of the first pairs of two files."""
    return _first([PairSource.files(source, target)], count, f"{source} and {target}")


def corpus_pairs(corpus: str, split: str, count: int) -> list[tuple[str, str]]:
    """So many of the first pairs of a corpus; fetched if it is not here."""
    return _first(fetch(corpus, splits=[split]).splits[split], count, f"{corpus}, {split}")


def _first(sources: list[PairSource], count: int, name: str) -> list[tuple[str, str]]:
    pairs = chain.from_iterable(read_pairs(source, report=ReadReport()) for source in sources)
    found = [(pair.source, pair.target) for pair in islice(pairs, count)]
    if not found:
        raise ValueError(f"{name}: expected at least one sentence pair, got none")
    return found
