"""Universal tags of a target's words, from a file or from a tagger, and how often heads are null after each."""

from __future__ import annotations

import importlib
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rela.alignment.pairs import PairBatch
from rela.analysis import tagsets
from rela.attention.spec import Kind
from rela.text.compression import open_text
from rela.text.marks import without_mark
from rela.text.vocabulary import BOS, SPECIAL_PIECES

START: Final = SPECIAL_PIECES[BOS]
"""The category of the place before the first word."""

PUNCTUATION: Final = "PUNCT"


class Tagger(Protocol):
    """The tags of a sentence's words, one for each; ``name`` says in results which tagger it was."""

    @property
    def name(self) -> str: ...

    def __call__(self, words: Sequence[str], /) -> list[str]: ...


_LANGUAGES: Final[Mapping[str, tuple[str, Callable[[str, str], str | None]]]] = {
    "de": ("morphmodel_ger.pgz", tagsets.german),
    "en": ("morphmodel_en.pgz", tagsets.english),
    "nl": ("morphmodel_dutch.pgz", tagsets.dutch),
}
_SHOWN_WORDS: Final = 30
_MOST_CATEGORIES: Final = 5_000  # the largest sets of tags, those of rich morphologies, have about as many
_LONGEST_MARK: Final = 3  # "..."; a line of fifty hyphens is no category of its own
_EXACT: Final = 1 << 24  # float32 counts up to here
_SYMBOLS: Final = frozenset("%&@#§‰")  # for Unicode, punctuation
_ACCENTS: Final = frozenset("`\u00b4")  # quotation marks of old; for Unicode, symbols


def read_tags(path: str | Path) -> Iterator[list[str]]:
    """The tags of a file, line by line: one line for each sentence, tags separated by blanks. It may be packed."""
    with open_text(path) as stream:
        for number, raw in enumerate(stream, start=1):
            line = without_mark(raw, path) if number == 1 else raw
            try:
                yield line.decode("utf-8").split()
            except UnicodeDecodeError:
                raise ValueError(f"{path}, line {number}: expected tags in UTF-8, got other bytes") from None


def check_tags(tags: Sequence[str], words: Sequence[str], path: str | Path, line: int) -> None:
    """Refuse a line of tags that are not as many as the words."""
    if len(tags) != len(words):
        shown = f": {' '.join(words)}" if len(words) <= _SHOWN_WORDS else ""
        raise ValueError(
            f"{path}, line {line}: expected {len(words)} tags, one a word of the target{shown}; got {len(tags)}. "
            "If the words of the target are separated by blanks already, say so with --tokenised"
        )


class HanTaTagger:
    """Tags by the Hannover Tagger, which has models of German, English and Dutch. Needs the extra ``tags``.

    >>> HanTaTagger("de")(["Der", "Hund", "schläft", "."])
    ['DET', 'NOUN', 'VERB', 'PUNCT']
    """

    def __init__(self, language: str) -> None:
        if language not in _LANGUAGES:
            raise ValueError(
                f"language: expected one of {', '.join(_LANGUAGES)}, which the Hannover Tagger knows, got "
                f"{language!r}; tag the target with another program, and pass the file with --tags"
            )
        try:
            module: Any = importlib.import_module("HanTa.HanoverTagger")
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] != "HanTa":
                raise
            raise ModuleNotFoundError(
                "tagging words needs the Hannover Tagger, which is not installed: pip install "
                '"rela-attention[tags]"; or tag the target with another program, and pass the file with --tags',
                name=error.name,
            ) from None
        self.name = f"hanta-{language}"
        model, self._universal = _LANGUAGES[language]
        self._tagger = module.HanoverTagger(model)

    def __call__(self, words: Sequence[str]) -> list[str]:
        """The universal tags of a sentence's words."""
        found: list[tuple[str, str, str]] = self._tagger.tag_sent(list(words))
        return [_tag_of_sign(word) or self._universal(tag, lemma) or "X" for word, lemma, tag in found]


def _tag_of_sign(word: str) -> str | None:
    """The tag of a word without letters and digits, which taggers often do not know."""
    if any(sign.isalnum() for sign in word):
        return None
    plain = all(unicodedata.category(sign)[0] == "P" and sign not in _SYMBOLS for sign in word)
    return PUNCTUATION if plain or set(word) <= _ACCENTS else "SYM"


def categories(words: Sequence[str], tags: Sequence[str]) -> list[tuple[str, ...]]:
    """For each word what it counts for: its tag, and for a punctuation mark also itself, as in ``PUNCT ,``."""
    return [
        (tag, mark_category(word, tag)) if is_mark(word, tag) else (tag,) for word, tag in zip(words, tags, strict=True)
    ]


def is_mark(word: str, tag: str) -> bool:
    """Whether a word is a punctuation mark that also counts by itself."""
    return tag == PUNCTUATION and len(word) <= _LONGEST_MARK


def mark_category(word: str, tag: str) -> str:
    """That of a mark by itself, as in ``PUNCT ,``."""
    return f"{tag} {word}"


@dataclass(frozen=True, eq=False)
class TaggedNulls:
    """How often heads are null after words of each category.

    Attributes:
        categories: the categories, in order of their names.
        counts: ``[category]``, rows of each.
        rows: all rows, also those inside of words, which belong to none.
        nulls: for each kind ``[category, layer, head]``, rows of each category at which a head is null.
        all_nulls: for each kind ``[layer, head]``, the same over all rows.
    """

    categories: list[str]
    counts: NDArray[np.int64]
    rows: int
    nulls: dict[Kind, NDArray[np.int64]]
    all_nulls: dict[Kind, NDArray[np.int64]]

    def rates(self, kind: Kind) -> NDArray[np.float64]:
        """The null rates ``[category, layer, head]``."""
        return self.nulls[kind] / self.counts[:, None, None]

    def measures(self) -> dict[str, NDArray[Any]]:
        """The values by the names that ``results.json`` has for them; :attr:`categories` are the labels of ``tag``."""
        found: dict[str, NDArray[Any]] = {}
        for kind in self.nulls:
            found |= {f"{kind}.null.tag": self.rates(kind), f"{kind}.null.tag.count": self.counts}
        return found


class NullByTag:
    """Counts the rows at which heads are null, by the category of the word just produced, batch by batch.

    Just produced is a word at the row whose decoder input is its last piece; at the row of BOS it is ``START``. What is
    kept does not grow with the batches, only with the categories.
    """

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._rows = 0
        self._counts = torch.zeros(0, dtype=torch.long)
        self._nulls: dict[Kind, Tensor] = {}  # [category, layer, head]
        self._all: dict[Kind, Tensor] = {}  # [layer, head]

    def add(self, batch: PairBatch, tags: Sequence[Sequence[str]], null: Mapping[Kind, Sequence[Tensor]]) -> None:
        """One batch: for each pair the tags of its target's words; for each kind and layer ``[B, H, T]``, True at null.

        Kinds are ``decoder`` and ``cross``. What stands at padding does not count.
        """
        found, rows = self._rows_by_category(batch, tags)
        size, num_rows = len(self._places), batch.target_in.numel()
        # Float32 counts a batch's rows exactly, and its product is far faster than sums of whole numbers.
        belongs = torch.zeros(size + 1, num_rows)  # the last: all rows but padding
        belongs[found, rows] = 1
        belongs[-1] = (torch.arange(batch.target_in.shape[1]) < batch.target_lengths.cpu()[:, None]).flatten()
        assert num_rows < _EXACT
        counts = belongs.sum(1).long()
        self._rows += int(counts[-1])
        self._counts = _grown(self._counts, size) + counts[:-1]
        for kind, layers in null.items():
            each = torch.stack([layer.cpu() for layer in layers])  # [L, B, H, T]
            flat = each.permute(1, 3, 0, 2).reshape(num_rows, -1).float()  # [B * T, L * H]
            sums = (belongs @ flat).long().view(size + 1, len(layers), -1)
            before = self._nulls.get(kind, torch.zeros(0, *sums.shape[1:], dtype=torch.long))
            self._nulls[kind] = _grown(before, size) + sums[:-1]
            self._all[kind] = self._all.get(kind, torch.zeros_like(sums[-1])) + sums[-1]

    def state(self) -> dict[str, NDArray[Any]]:
        """All that was counted."""
        found: dict[str, NDArray[Any]] = {
            "categories": np.array(list(self._places), dtype=np.str_),
            "rows": np.array(self._rows),
            "counts": self._counts.numpy(),
        }
        for kind in self._nulls:
            found |= {f"{kind}.nulls": self._nulls[kind].numpy(), f"{kind}.all": self._all[kind].numpy()}
        return found

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go on from there."""
        self._places = {str(name): place for place, name in enumerate(state["categories"])}
        self._rows = int(state["rows"])
        self._counts = torch.from_numpy(state["counts"])
        for kind in ("decoder", "cross"):
            if f"{kind}.nulls" in state:
                self._nulls[kind] = torch.from_numpy(state[f"{kind}.nulls"])
                self._all[kind] = torch.from_numpy(state[f"{kind}.all"])

    def result(self) -> TaggedNulls:
        """What was counted so far."""
        if self._rows == 0:
            raise ValueError("expected at least one pair to count null rows of, got none")
        names = sorted(self._places)
        order = torch.tensor([self._places[name] for name in names])
        return TaggedNulls(
            names,
            self._counts[order].numpy(),
            self._rows,
            {kind: counts[order].numpy() for kind, counts in self._nulls.items()},
            {kind: counts.numpy() for kind, counts in self._all.items()},
        )

    def _rows_by_category(self, batch: PairBatch, tags: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """Categories, by their places, and the rows of ``[B * T]`` that count for them: as many of each."""
        pieces = batch.target_word_pieces
        assert [len(found) for found in tags] == np.diff(pieces.words).tolist(), "tags of another batch"
        is_there = np.diff(pieces.starts) > 0  # a word without pieces is never produced
        starts = np.arange(len(batch.pairs)) * batch.target_in.shape[1]
        last = pieces.pieces[pieces.starts[1:][is_there] - 1]
        rows = np.repeat(starts, np.diff(pieces.words))[is_there] + last + 1
        words = list(compress(chain.from_iterable(pair.target.words for pair in batch.pairs), is_there))
        names = list(compress(chain.from_iterable(tags), is_there))
        for name in dict.fromkeys([START, *names]):
            self._place(name)
        found = [self._places[START]] * len(starts) + [self._places[name] for name in names]
        marks = [place for place, name in enumerate(names) if name == PUNCTUATION and is_mark(words[place], name)]
        found += [self._place(mark_category(words[place], PUNCTUATION)) for place in marks]
        return torch.from_numpy(np.array(found)), torch.from_numpy(np.concatenate([starts, rows, rows[marks]]))

    def _place(self, category: str) -> int:
        place = self._places.get(category)
        if place is not None:
            return place
        place = self._places[category] = len(self._places)
        if place >= _MOST_CATEGORIES:
            raise ValueError(
                f"expected at most {_MOST_CATEGORIES:,} different tags, got more, such as {category!r}; is the file of "
                "tags one of words?"
            )
        return place


def _grown(counts: Tensor, size: int) -> Tensor:
    """The same counts, with zeros at the end."""
    return torch.cat([counts, counts.new_zeros(size - len(counts), *counts.shape[1:])])
