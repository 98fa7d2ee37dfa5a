"""Real sentence pairs to measure with: files, or a split of a corpus that is known by name."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Final

from rela._warn import warn
from rela.text.corpora import fetch
from rela.text.problems import ReadReport
from rela.text.readers import Pair, PairSource, read_lines, read_pairs
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
    return [(pair.source, pair.target) for pair in read_numbered_pairs(source, target, count)]


def read_numbered_pairs(source: Path, target: Path, count: int) -> list[Pair]:
    """The same with the numbers of their lines: pairs that are none are left out, and told of."""
    return _first([PairSource.files(source, target)], count, f"{source} and {target}")


def read_sentences(path: Path, pairs: Sequence[Pair]) -> list[str]:
    """The lines of another file that stand beside these pairs, each of which must be a sentence."""
    numbers, found = {pair.line for pair in pairs}, list[str]()
    for line in read_lines(path, report=ReadReport()):
        if line.line not in numbers:
            continue
        if line.problem is not None or not line.text.strip():
            raise ValueError(f"{path}, line {line.line}: expected a sentence, got {line.problem or 'an empty line'}")
        found.append(line.text)
    if len(found) < len(pairs):
        raise ValueError(
            f"{path}: expected a sentence beside each of {len(pairs):,} pairs, the last of which stands in line "
            f"{pairs[-1].line:,}; got a file of fewer lines"
        )
    return found


def corpus_pairs(corpus: str, split: str, count: int) -> list[tuple[str, str]]:
    """So many of the first pairs of a corpus; fetched if it is not here."""
    pairs = _first(fetch(corpus, splits=[split]).splits[split], count, f"{corpus}, {split}")
    return [(pair.source, pair.target) for pair in pairs]


def _first(sources: list[PairSource], count: int, name: str) -> list[Pair]:
    report = ReadReport()
    found = list(islice(chain.from_iterable(read_pairs(source, report=report) for source in sources), count))
    left_out = ", ".join(f"{problem} {number:,}" for problem, number in sorted(report.counts.items()))
    if not found:
        why = f"; all are left out: {left_out}" if left_out else ""
        raise ValueError(f"{name}: expected at least one sentence pair, got none{why}")
    if left_out:
        warn(f"{name}: pairs that are left out: {left_out}")
    return found
