"""The pairs that are analysed, with their gold links and tags, read line by line as they are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from rela._files import stem_of
from rela.alignment.errors import GoldLinks
from rela.alignment.gold import GoldReader
from rela.alignment.pairs import EncodedPair, encode_side
from rela.analysis.tags import Tagger, check_tags, read_tags
from rela.text.problems import ReadReport
from rela.text.readers import PairSource, read_pairs
from rela.text.store import Tokenizers
from rela.text.worded import Wording


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


@dataclass(kw_only=True)
class Corpus:
    """Two files of text, and what is known about them. It can be read any number of times.

    Attributes:
        tags: a file of tags, or a tagger.
        max_pieces: longer sentences are left out, and counted: weights grow with the square of the length.
        report: what was left out the last time, and why.
    """

    source: Path
    target: Path
    gold: GoldFiles | None = None
    tags: Path | Tagger | None = None
    wording: Wording = field(default_factory=Wording)
    max_pieces: int = 1024
    report: ReadReport = field(default_factory=ReadReport)
    num_long: int = 0
    gold_reader: GoldReader | None = None

    @property
    def name(self) -> str:
        """The source's name without folder and ending."""
        return stem_of(str(self.source))

    def items(self, tokenizers: Tokenizers) -> Iterator[Item]:
        """All pairs without a problem, in order."""
        self.report, self.num_long = ReadReport(), 0
        self.gold_reader = None if self.gold is None else self.gold.open()
        for item in self._tagged(self._with_gold(self._encoded(tokenizers))):
            if max(len(item.pair.source.ids), len(item.pair.target.ids)) > self.max_pieces:
                self.num_long += 1
            else:
                yield item
        if self.gold_reader is not None:
            self.gold_reader.check_end(self.report.num_lines)

    def _encoded(self, tokenizers: Tokenizers) -> Iterator[Item]:
        for line, source, target in read_pairs(PairSource.files(self.source, self.target), report=self.report):
            sides = (
                encode_side(subwords, self.wording.read(text))
                for subwords, text in ((tokenizers.source, source), (tokenizers.target, target))
            )
            yield Item(source, target, EncodedPair(line, *sides), None, None)

    def _with_gold(self, items: Iterator[Item]) -> Iterator[Item]:
        if self.gold_reader is None:
            yield from items
            return
        held: list[Item] = []

        def pairs() -> Iterator[EncodedPair]:
            for item in items:
                held.append(item)
                yield item.pair

        for _, gold in self.gold_reader.of_pairs(pairs()):
            yield held.pop()._replace(gold=gold)

    def _tagged(self, items: Iterator[Item]) -> Iterator[Item]:
        if self.tags is None:
            yield from items
        elif not isinstance(self.tags, Path):
            for item in items:
                yield item._replace(tags=self.tags(item.pair.target.words))
        else:
            yield from self._tagged_by_file(items, self.tags)

    def _tagged_by_file(self, items: Iterator[Item], path: Path) -> Iterator[Item]:
        """Tag lines of pairs that were left out are read past."""
        lines = enumerate(read_tags(path), start=1)
        number, tags = 0, list[str]()
        for item in items:
            while number < item.pair.line:
                number, tags = next(lines, (0, []))
                if number == 0:
                    raise ValueError(
                        f"{path}: expected a line of tags for each line of the text, got none for line {item.pair.line}"
                    )
            check_tags(tags, item.pair.target.words, path, number)
            yield item._replace(tags=tags)
        surplus = sum(1 for _ in lines)
        if number + surplus > self.report.num_lines:
            raise ValueError(
                f"{path}: expected {self.report.num_lines} lines, as many as the text has, got {number + surplus}"
            )

    def describe(self, languages: tuple[str, str]) -> dict[str, Any]:
        """The entry ``data`` of results.json, without what a model's pieces decide."""
        skipped = dict(self.report.counts) | ({"too-many-pieces": self.num_long} if self.num_long else {})
        tags = self.tags if self.tags is None or isinstance(self.tags, Path) else "tagger"
        return {
            "source": str(self.source),
            "target": str(self.target),
            "source_language": languages[0],
            "target_language": languages[1],
            "pairs": self.report.num_kept - self.num_long,
            "skipped": skipped,
            "gold": None if self.gold_reader is None else self.gold_reader.to_json(),
            "tags": None if tags is None else str(tags),
        }
