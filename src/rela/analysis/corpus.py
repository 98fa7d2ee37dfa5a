"""The pairs that are analysed, with their gold links and tags, read line by line as they are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple

from rela._files import stem_of
from rela.alignment.errors import GoldLinks
from rela.alignment.gold import GoldReader
from rela.alignment.pairs import EncodedPair, encode_side
from rela.analysis.tags import Tagger, check_tags, read_tags
from rela.text.problems import ReadReport
from rela.text.readers import MAX_CHARS, PairSource, count_lines, read_pairs
from rela.text.subwords import PairEncoding
from rela.text.worded import Wording

_CHARS_A_PIECE: Final = 16
"""A line with more than so many characters for each piece that is allowed is hardly text."""
TOO_LONG: Final = "too-many-pieces"
"""Why a pair was left out, besides the problems of lines."""
_TOO_MANY_CHARS: Final = "too-long"  # one of PROBLEMS


class Item(NamedTuple):
    """A pair as text and as pieces, its gold links and the tags of its target's words, if there are any."""

    source: str
    target: str
    pair: EncodedPair
    gold: GoldLinks | None
    tags: list[str] | None


@dataclass(frozen=True, kw_only=True)
class GoldFiles:
    """Where gold links are, and how they are written: see :class:`rela.alignment.gold.GoldReader`."""

    sure: Path
    possible: Path | None = None
    base: int = 0
    flipped: bool = False

    def open(self) -> GoldReader:
        """A reader at the first line."""
        return GoldReader(self.sure, self.possible, base=self.base, flipped=self.flipped)


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """Two files of text, and what is known about them. It can be read any number of times.

    Attributes:
        tags: a file of tags, or a tagger.
        max_pieces: longer sentences are left out, and counted: weights grow with the square of the length.
        max_pieces_by: what decides how many those are, in the words of a note.
    """

    source: Path
    target: Path
    gold: GoldFiles | None = None
    tags: Path | Tagger | None = None
    wording: Wording = field(default_factory=Wording)
    max_pieces: int = 1024
    max_pieces_by: str = "see --max-pieces"

    @property
    def name(self) -> str:
        """The source's name without folder and ending."""
        return stem_of(str(self.source))

    @property
    def max_chars(self) -> int:
        """Longer lines are left out before they are split into pieces."""
        return max(MAX_CHARS, _CHARS_A_PIECE * self.max_pieces)

    @property
    def tags_name(self) -> str | None:
        """The file of tags, or the tagger."""
        if self.tags is None:
            return None
        return str(self.tags) if isinstance(self.tags, Path) else self.tags.name

    @property
    def files(self) -> dict[str, Path]:
        """All files that are read, by what they are."""
        found = {"source": self.source, "target": self.target}
        if self.gold is not None:
            found["sure"] = self.gold.sure
            if self.gold.possible is not None:
                found["possible"] = self.gold.possible
        return found | ({"tags": self.tags} if isinstance(self.tags, Path) else {})

    def check(self) -> None:
        """Refuse files that are not there or can be read only once, and texts of unequal length."""
        for name, path in self.files.items():
            if path.is_file():
                continue
            if path.is_dir():
                raise IsADirectoryError(f"{path}: expected a file ({name}), got a folder")
            if path.exists() or str(path) == "-":
                raise ValueError(
                    f"{path}: expected a file ({name}), since an analysis reads it more than once; got a stream. Write "
                    "it to a file first"
                )
            raise FileNotFoundError(f"{path}: expected a file ({name}), there is none")
        source, target = count_lines(self.source), count_lines(self.target)
        if source != target:
            raise ValueError(
                f"{self.source} and {self.target}: expected as many lines in both, since line n of one must belong to "
                f"line n of the other, got {source:,} and {target:,}"
            )

    def within(self, max_pieces: int | None, model: object) -> Corpus:
        """The same with what a model can read."""
        if max_pieces is None or max_pieces >= self.max_pieces:
            return self
        return replace(self, max_pieces=max_pieces, max_pieces_by=f"{model} has no positions for more")

    def read(self, tokenizers: PairEncoding) -> Reading:
        """All pairs without a problem, in order, in a model's pieces."""
        return Reading(self, tokenizers)


class Reading:
    """One pass over a corpus: an iterator, which counts what it leaves out.

    Attributes:
        report: the lines that were read so far, and their problems.
        num_long: pairs with too many pieces on a side.
        gold: the reader of the gold links.
    """

    def __init__(self, corpus: Corpus, tokenizers: PairEncoding) -> None:
        self.corpus = corpus
        self.report = ReadReport()
        self.num_long = 0
        self.gold = None if corpus.gold is None else corpus.gold.open()
        self._items = self._read(tokenizers)

    def __iter__(self) -> Iterator[Item]:
        return self

    def __next__(self) -> Item:
        return next(self._items)

    @property
    def num_pairs(self) -> int:
        """The pairs that came out."""
        return self.report.num_kept - self.num_long

    @property
    def skipped(self) -> dict[str, int]:
        """Lines that were left out, by the reason."""
        return dict(self.report.counts) | ({TOO_LONG: self.num_long} if self.num_long else {})

    def lines(self) -> list[str]:
        """For people: a line for each reason to leave lines out."""
        lines = self.report.lines(but=(_TOO_MANY_CHARS,))[1:]
        if count := self.report.counts.get(_TOO_MANY_CHARS):
            lines.append(
                f"{_TOO_MANY_CHARS}: {count:,} (lines with more than {self.corpus.max_chars:,} characters; see "
                "--max-pieces)"
            )
        return [*lines, *self.lines_on_length()]

    def lines_on_length(self) -> list[str]:
        """That of length alone, which depends on a model's pieces."""
        if not self.num_long:
            return []
        most = self.corpus.max_pieces
        why = self.corpus.max_pieces_by
        return [f"{TOO_LONG}: {self.num_long:,} (pairs with more than {most:,} pieces on a side; {why})"]

    def _read(self, tokenizers: PairEncoding) -> Iterator[Item]:
        for item in self._tagged(self._with_gold(self._encoded(tokenizers))):
            if max(len(item.pair.source.ids), len(item.pair.target.ids)) > self.corpus.max_pieces:
                self.num_long += 1
            else:
                yield item
        if self.gold is not None:
            self.gold.check_end(self.report.num_lines)

    def _encoded(self, tokenizers: PairEncoding) -> Iterator[Item]:
        corpus = self.corpus
        files = PairSource.files(corpus.source, corpus.target)
        for line, source, target in read_pairs(files, report=self.report, max_chars=corpus.max_chars):
            sides = (
                encode_side(subwords, corpus.wording.read(text))
                for subwords, text in ((tokenizers.source, source), (tokenizers.target, target))
            )
            yield Item(source, target, EncodedPair(line, *sides), None, None)

    def _with_gold(self, items: Iterator[Item]) -> Iterator[Item]:
        if self.gold is None:
            yield from items
            return
        held: list[Item] = []

        def pairs() -> Iterator[EncodedPair]:
            for item in items:
                held.append(item)
                yield item.pair

        for _, gold in self.gold.of_pairs(pairs()):
            yield held.pop()._replace(gold=gold)

    def _tagged(self, items: Iterator[Item]) -> Iterator[Item]:
        tags = self.corpus.tags
        if tags is None:
            yield from items
        elif isinstance(tags, Path):
            yield from self._tagged_by_file(items, tags)
        else:
            for item in items:
                yield item._replace(tags=tags(item.pair.target.words))

    def _tagged_by_file(self, items: Iterator[Item], path: Path) -> Iterator[Item]:
        """Tag lines of pairs that were left out are read past."""
        lines = read_tags(path)
        number = 0
        for item in items:
            tags: list[str] | None = None
            while number < item.pair.line:
                tags = next(lines, None)
                if tags is None:
                    raise ValueError(
                        f"{path}: expected a line of tags for each line of the text, got none for line "
                        f"{item.pair.line}: the file has {number} lines"
                    )
                number += 1
            assert tags is not None  # each item is of a later line
            check_tags(tags, item.pair.target.words, path, number)
            yield item._replace(tags=tags)
        number += sum(1 for _ in lines)
        if number != self.report.num_lines:
            raise ValueError(
                f"{path}: expected {self.report.num_lines} lines, as many as the text has, got {number}; line n of the "
                "tags must belong to line n of the text"
            )
