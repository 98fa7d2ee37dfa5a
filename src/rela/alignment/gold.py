"""Gold links from files: a line for each sentence pair, read one by one.

A line has links ``i-j`` between blanks: source word, target word. ``ipj`` and ``i?j`` are possible links, the others
are sure. An empty line has none. A second file may have the possible links, whatever their marks; a sure link is
possible too, whether the second file repeats it or not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

from rela._files import stem_of
from rela.alignment.errors import GoldLinks, Link
from rela.alignment.pairs import EncodedPair
from rela.text.problems import PROBLEMS, ReadReport
from rela.text.readers import Line, read_lines

_LINK: Final = re.compile(r"(\d{1,9})([-p?])(\d{1,9})", re.ASCII)
_MAX_CHARS: Final = 1 << 20

BASES: Final = (0, 1)


class GoldReader:
    """An iterator over the lines of gold files, which counts what it has read.

    Attributes:
        base: the number of a sentence's first word, in the files. Links that come out count from 0.
        flipped: the files say target-source; what comes out is source-target.
        pairs, empty, sure_links, possible_links: counts of the lines read so far, those without links among them.
    """

    def __init__(
        self, sure: str | Path, possible: str | Path | None = None, *, base: int = 0, flipped: bool = False
    ) -> None:
        if base not in BASES:
            raise ValueError(f"base: expected 0 or 1, got {base!r}")
        self.sure, self.possible, self.base, self.flipped = str(sure), possible, base, flipped
        self.pairs = self.empty = self.sure_links = self.possible_links = 0
        self._lines = self._read()

    def __iter__(self) -> Iterator[GoldLinks]:
        return self

    def __next__(self) -> GoldLinks:
        return next(self._lines)

    @property
    def name(self) -> str:
        """The file's name without folder and endings."""
        return stem_of(self.sure)

    def signature(self) -> str:
        """How the gold links were read, and how many were, for the signatures of numbers."""
        flipped = "yes" if self.flipped else "no"
        counts = f"gold-pairs:{self.pairs}|sure:{self.sure_links}|possible:{self.possible_links}"
        return f"gold:{self.name}|base:{self.base}|flipped:{flipped}|{counts}"

    def to_json(self) -> dict[str, Any]:
        """The same for result files."""
        return {
            "name": self.name,
            "sure": self.sure,
            "possible": None if self.possible is None else str(self.possible),
            "base": self.base,
            "flipped": self.flipped,
            "pairs": self.pairs,
            "sure_links": self.sure_links,
            "possible_links": self.possible_links,
        }

    def of_pairs(self, pairs: Iterable[EncodedPair]) -> Iterator[tuple[EncodedPair, GoldLinks]]:
        """Pairs with the links of their lines. Lines between them that have no pair are read past."""
        for pair in pairs:
            while True:
                links = next(self, None)
                if links is None:
                    raise ValueError(
                        f"{self.sure}: expected links for each line of the text, got none for line {pair.line}: the "
                        f"file has {self.pairs} lines"
                    )
                if self.pairs == pair.line:
                    break
            place = f"{self.sure}, line {pair.line}"
            check_links(links, len(pair.source.words), len(pair.target.words), place)
            yield pair, links

    def of_first(self, pairs: Iterable[EncodedPair]) -> Iterator[tuple[EncodedPair, GoldLinks]]:
        """The first pairs, as many as there are lines of links. Of the text, no line may be left out."""
        iterator = iter(pairs)
        for links in self:
            pair = next(iterator, None)
            if pair is None:
                raise ValueError(
                    f"{self.sure}, line {self.pairs}: expected links for lines of the text, which has "
                    f"{self.pairs - 1} lines, got more"
                )
            check_links(links, len(pair.source.words), len(pair.target.words), f"{self.sure}, line {self.pairs}")
            yield pair, links

    def check_end(self, num_lines: int) -> None:
        """Raise a ValueError if there are more lines of links, or fewer, than the text has lines."""
        for _ in self:
            pass
        if self.pairs != num_lines:
            raise ValueError(
                f"{self.sure}: expected {num_lines} lines, as many as the text has, got {self.pairs}; line n of the "
                "links must belong to line n of the text"
            )

    def _read(self) -> Iterator[GoldLinks]:
        if self.possible is None:
            for line in _checked_lines(self.sure):
                sure, possible = self._links(line, self.sure)
                yield self._counted(sure, sure | possible)
            return
        files = _checked_lines(self.sure), _checked_lines(self.possible)
        for one, other in zip_longest(*files):
            if one is None or other is None:
                longer, shorter = (self.possible, self.sure) if one is None else (self.sure, self.possible)
                raise ValueError(
                    f"{longer}, line {self.pairs + 1}: expected as many lines as in {shorter}, got more than its "
                    f"{self.pairs}"
                )
            sure, possible = self._links(one, self.sure)
            yield self._counted(sure, set.union(sure, possible, *self._links(other, str(self.possible))))

    def _counted(self, sure: set[Link], possible: set[Link]) -> GoldLinks:
        self.pairs += 1
        self.empty += not possible
        self.sure_links += len(sure)
        self.possible_links += len(possible)
        return GoldLinks(sure, possible)

    def _links(self, line: Line, path: str) -> tuple[set[Link], set[Link]]:
        """Those with a ``-`` and those with another mark."""
        sure: set[Link] = set()
        possible: set[Link] = set()
        for text in line.text.split():
            match = _LINK.fullmatch(text)
            if match is None:
                raise ValueError(
                    f"{path}, line {line.line}: expected links such as 0-0, or 1p2 and 1?2 for possible ones, got "
                    f"{text!r}"
                )
            first, second = int(match[1]) - self.base, int(match[3]) - self.base
            if min(first, second) < 0:
                raise ValueError(
                    f"{path}, line {line.line}: expected words counted from 1, got {text!r}; does the file count from "
                    "0?"
                )
            link = (second, first) if self.flipped else (first, second)
            (sure if match[2] == "-" else possible).add(link)
        return sure, possible


def read_gold(
    sure: str | Path, possible: str | Path | None = None, *, base: int = 0, flipped: bool = False
) -> GoldReader:
    """Gold links, a line at a time; packed files too."""
    return GoldReader(sure, possible, base=base, flipped=flipped)


def check_links(gold: GoldLinks, source_words: int, target_words: int, place: str) -> None:
    """Raise a ValueError for a link outside the sentence; ``place`` says where it stands."""
    for links in gold:
        for source, target in links:
            if not (0 <= source < source_words and 0 <= target < target_words):
                raise ValueError(
                    f"{place}: expected links of {source_words} source words and {target_words} target words, got "
                    f"source word {source} with target word {target}, counted from 0; do the links count from 1, are "
                    "they in the other direction, or of another split into words?"
                )


def _checked_lines(path: str | Path) -> Iterator[Line]:
    for line in read_lines(path, report=ReadReport(), max_chars=_MAX_CHARS):
        if line.problem is not None:
            raise ValueError(f"{path}, line {line.line}: expected word links, got {PROBLEMS[line.problem]}")
        yield line
