"""Subwords: byte-pair encoding over bytes, which gives back any text exactly as it was.

A text is split into words with the blank before them, a word into bytes, and bytes are merged by the merges that were
learned. One blank is put before the text and taken away when decoding, so that a word has the same pieces at the
beginning of a sentence and inside it.
"""

from __future__ import annotations

import heapq
import json
import os
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
from tokenizers import Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer

from rela.text.byte_level import BYTE_OF, NUM_BYTES, decode_bytes
from rela.text.vocabulary import SPECIAL_PIECES
from rela.text.words import Span

DEFAULT_MERGES: Final = 32_000
_LONGEST_PIECE: Final = 32  # bytes; keeps tables and other long runs from filling the vocabulary


class Encoded(NamedTuple):
    """A text as pieces: their ids, and the characters of the text that each covers."""

    ids: list[int]
    spans: list[Span]


class Decoded(NamedTuple):
    """The text of pieces, and the characters of it that each covers."""

    text: str
    spans: list[Span]


class SideEncoding(Protocol):
    """How the texts of one side become pieces, and pieces text that people read."""

    def encode_with_spans(self, text: str) -> Encoded:
        """The ids, without BOS and EOS, and the characters that each piece covers."""
        ...

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Each piece by itself, as text."""
        ...


class PairEncoding(Protocol):
    """How both sides become pieces; :class:`rela.text.store.Tokenizers` is one."""

    @property
    def source(self) -> SideEncoding: ...
    @property
    def target(self) -> SideEncoding: ...


class Subwords:
    """A trained byte-pair encoding.

    >>> subwords = Subwords.train(["ein Haus", "das Haus"], merges=10)
    >>> subwords.decode(subwords.encode("das Haus"))
    'das Haus'
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    @classmethod
    def train(cls, texts: Iterable[str], merges: int = DEFAULT_MERGES) -> Subwords:
        """Learn merges from texts. There may be fewer than asked if the texts have no more pairs to merge."""
        if merges < 0:
            raise ValueError(f"merges: expected 0 or more, got {merges}")
        tokenizer = _untrained()
        trainer = BpeTrainer(  # pyright: ignore[reportCallIssue]
            vocab_size=NUM_BYTES + merges,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            max_token_length=_LONGEST_PIECE,
            show_progress=False,
        )
        tokenizer.train_from_iterator((_checked(text) for text in texts), trainer)
        return cls(_with_special_pieces(tokenizer))

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, remedy: str = "prepare the text anew") -> Subwords:
        """Read a ``tokenizer.json`` of ours; an error ends with the remedy."""
        if Path(path).is_dir():
            raise IsADirectoryError(f"{path}: expected a tokenizer.json, got a folder; {remedy}")
        data = Path(path).read_bytes()
        try:
            text = data.decode()
            tokenizer = Tokenizer.from_str(text)
        except Exception as error:  # the Rust side raises plain exceptions for whatever does not fit
            raise ValueError(
                f"{path}: expected a tokenizer.json, got a file that does not parse ({error}); {remedy}"
            ) from None
        for index, piece in enumerate(SPECIAL_PIECES):
            if tokenizer.id_to_token(index) != piece:
                raise ValueError(
                    f"{path}: expected a tokenizer that `rela prepare` made, whose piece {index} is {piece!r}, got "
                    f"{tokenizer.id_to_token(index)!r}; {remedy}"
                )
        if (steps := _steps(tokenizer)) != (expected := _steps(_untrained())):
            changed = ", ".join(name for name in expected if steps[name] != expected[name])
            raise ValueError(
                f"{path}: expected a tokenizer that `rela prepare` made, got one with other settings of {changed}; "
                f"{remedy}"
            )
        return cls(tokenizer)

    def to_json(self) -> str:
        """The content of ``tokenizer.json``."""
        return self._tokenizer.to_str(pretty=False)

    @property
    def size(self) -> int:
        """How many ids there are: special ones, bytes and merges."""
        return self._size

    @property
    def num_merges(self) -> int:
        """How many merges were learned."""
        return self.size - NUM_BYTES - len(SPECIAL_PIECES)

    def encode(self, text: str) -> list[int]:
        """The ids of a text's pieces, without BOS and EOS."""
        return self._tokenizer.encode(_checked(text), add_special_tokens=False).ids

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The same for many texts, on all cores."""
        checked = [_checked(text) for text in texts]
        return [encoding.ids for encoding in self._tokenizer.encode_batch_fast(checked, add_special_tokens=False)]

    def encode_with_spans(self, text: str) -> Encoded:
        """The ids, and the characters that each piece covers.

        A piece of part of a character's bytes covers the whole character; one that is nothing but the blank put
        before the text covers none.
        """
        return self.encode_batch_with_spans([text])[0]

    def encode_batch_with_spans(self, texts: Sequence[str]) -> list[Encoded]:
        """The same for many texts, on all cores."""
        checked = [_checked(text) for text in texts]
        found: list[Encoded] = []
        for encoding in self._tokenizer.encode_batch(checked, add_special_tokens=False):
            ids = encoding.ids
            spans = list(map(Span._make, encoding.offsets))
            if ids and ids[0] == self._blank:
                spans[0] = Span(0, 0)
            found.append(Encoded(ids, spans))
        return found

    def decode(self, ids: Sequence[int]) -> str:
        """The text of pieces. Special ids are left out; bytes that are no UTF-8 become U+FFFD."""
        self._check(ids)
        kept = [index for index in ids if index >= len(SPECIAL_PIECES)]
        return self._tokenizer.decode(kept, skip_special_tokens=False)

    def decode_with_spans(self, ids: Sequence[int]) -> Decoded:
        """The same text, and the characters of it that each piece covers; several may share a character's bytes."""
        self._check(ids)
        pieces = [b"" if i < len(SPECIAL_PIECES) else bytes(map(BYTE_OF.__getitem__, self._names[i])) for i in ids]
        text, characters = decode_bytes(b"".join(pieces))
        cut = int(text.startswith(" "))  # the blank that is put before every text
        spans: list[Span] = []
        place = 0
        for piece in pieces:
            covered = characters[place : place + len(piece)]
            place += len(piece)
            found = (covered[0] - cut, covered[-1] + 1 - cut) if covered else (0, 0)
            spans.append(Span(*(max(0, end) for end in found)))
        return Decoded(text[cut:], spans)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Each piece by itself, as text (a broken character shows as U+FFFD)."""
        self._check(ids)
        return [SPECIAL_PIECES[i] if i < len(SPECIAL_PIECES) else _BYTES.decode([self._names[i]]) for i in ids]

    def _check(self, ids: Sequence[int]) -> None:
        """Refuse ids of another vocabulary, which the Rust side would leave out in silence."""
        if len(ids) and not 0 <= min(ids) <= max(ids) < self._size:
            wrong = next(index for index in ids if not 0 <= index < self._size)
            raise ValueError(
                f"expected ids from 0 to {self._size - 1}, got {wrong}; take the tokenizer that the ids were made with"
            )

    def encode_with_dropout(self, text: str, probability: float, generator: np.random.Generator) -> list[int]:
        """The ids when each merge is left out with a probability each time it could be done (BPE dropout).

        Provilkov et al. 2020. At 0 this is :meth:`encode`; at 1, bytes.
        """
        if not 0 <= probability <= 1:
            raise ValueError(f"probability: expected 0 to 1, got {probability}")
        assert self._tokenizer.normalizer is not None
        assert self._tokenizer.pre_tokenizer is not None
        prepared = self._tokenizer.normalizer.normalize_str(_checked(text))
        words = self._tokenizer.pre_tokenizer.pre_tokenize_str(prepared)
        return [index for word, _ in words for index in merge_with_dropout(word, self._merges, probability, generator)]

    @cached_property
    def _size(self) -> int:
        return self._tokenizer.get_vocab_size()

    @cached_property
    def _blank(self) -> int | None:
        return self._tokenizer.token_to_id(_BLANK)

    @cached_property
    def _names(self) -> list[str]:
        vocabulary = self._tokenizer.get_vocab()
        return sorted(vocabulary, key=vocabulary.__getitem__)

    @cached_property
    def _merges(self) -> Merges:
        model: dict[str, Any] = json.loads(self._tokenizer.to_str())["model"]
        ids: dict[str, int] = model["vocab"]
        ranks: dict[tuple[int, int], tuple[int, int]] = {}
        for rank, (left, right) in enumerate(model["merges"]):
            ranks[ids[left], ids[right]] = (rank, ids[left + right])
        return Merges({name: index for name, index in ids.items() if len(name) == 1}, ranks)


class Merges(NamedTuple):
    """The ids of single bytes, and for each pair of ids its rank and the id it becomes."""

    ids: dict[str, int]
    ranks: dict[tuple[int, int], tuple[int, int]]


def merge_with_dropout(word: str, merges: Merges, probability: float, generator: np.random.Generator) -> list[int]:
    """The pieces of one word: the best merge that is not dropped, again and again, until all that are left are dropped.

    One draw decides whether a merge is dropped this time; after each merge that was done, the dropped ones may be done
    again. In O(n log n) of the word's length: pieces are linked, and merges wait in a heap, by rank and then by place.
    Those that have become impossible stay in it until they are its first.
    """
    ids = [merges.ids[character] for character in word]
    after = [*range(1, len(ids)), -1]
    before = list(range(-1, len(ids) - 1))

    def rank(place: int) -> tuple[int, int] | None:
        """The rank of the merge at this place and the id it makes, if there is one."""
        return merges.ranks.get((ids[place], ids[after[place]])) if after[place] >= 0 else None

    waiting = [(found[0], place) for place in range(len(ids)) if (found := rank(place)) is not None]
    heapq.heapify(waiting)
    dropped: list[tuple[int, int]] = []
    while waiting:
        first = heapq.heappop(waiting)
        place = first[1]
        found = rank(place)
        if found is None or found[0] != first[0]:
            continue
        if generator.random() < probability:
            dropped.append(first)
            continue
        gone = after[place]
        ids[place], ids[gone] = found[1], _GONE
        after[place], after[gone] = after[gone], -1
        if after[place] >= 0:
            before[after[place]] = place
        changed = (place, before[place]) if before[place] >= 0 else (place,)
        for other in (*dropped, *((new[0], left) for left in changed if (new := rank(left)) is not None)):
            heapq.heappush(waiting, other)
        dropped.clear()
    return [index for index in ids if index != _GONE]


_GONE: Final = -1
"""The id of what went into the piece before it."""
_BYTES: Final = decoders.ByteLevel()
_BLANK: Final = "Ġ"
"""How the alphabet of bytes writes a blank."""


def _checked(text: str) -> str:
    """The same text, if it can be written as UTF-8. The Rust side would raise a TypeError that says nothing."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"expected text that can be written as UTF-8, got the lone surrogate {error.object[error.start]!r} as "
            f"character {error.start} of {len(text):,}; replace or remove it"
        ) from None
    return text


def _untrained() -> Tokenizer:
    tokenizer = Tokenizer(BPE())
    tokenizer.normalizer = normalizers.Prepend(" ")  # pyright: ignore[reportAttributeAccessIssue]
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # pyright: ignore[reportAttributeAccessIssue]
    tokenizer.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])  # pyright: ignore[reportAttributeAccessIssue]
    return tokenizer


def _steps(tokenizer: Tokenizer) -> dict[str, Any]:
    """Everything about a tokenizer but its pieces: with other settings, pieces would not give back their text."""
    state: dict[str, Any] = json.loads(tokenizer.to_str())
    model: dict[str, Any] = state.pop("model")
    return state | {f"model {name}": value for name, value in model.items() if name not in ("vocab", "merges")}


def _with_special_pieces(tokenizer: Tokenizer) -> Tokenizer:
    """Put the special pieces before all others, as entries that no text can reach."""
    state: dict[str, Any] = json.loads(tokenizer.to_str())
    shifted = {name: index + len(SPECIAL_PIECES) for name, index in state["model"]["vocab"].items()}
    state["model"]["vocab"] = {name: index for index, name in enumerate(SPECIAL_PIECES)} | shifted
    return Tokenizer.from_str(json.dumps(state))
