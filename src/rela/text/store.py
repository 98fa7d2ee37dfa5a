"""The token store: prepared text as memory-mapped arrays, opened instantly whatever its size.

A store is a folder::

    store.json                    what is in it: format, languages, splits with counts and checksums, how it was made
    tokenizer.json                one vocabulary for both sides, or
    tokenizer.source.json         one for each
    tokenizer.target.json
    train.source.tokens           little-endian ids of all pieces of a side, one sentence after the other
    train.source.offsets          little-endian 64-bit: where each sentence begins, and the end
    test.source.txt               the text itself, for all splits but the one that is trained on

Only whole stores have the name they were asked for: a store is written beside it and renamed when it is complete.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from rela._files import naming
from rela.text.subwords import Subwords

FORMAT: Final = "rela-store-1"
DESCRIPTION_FILE: Final = "store.json"
SIDES: Final = ("source", "target")
CONTENTS: Final = ("tokens", "offsets")
_DTYPES: Final = ("<u2", "<u4")


class Tokenizers(NamedTuple):
    """The encoding of each side; the same object for both if the vocabulary is joint."""

    source: Subwords
    target: Subwords

    @property
    def joint(self) -> bool:
        """True if both sides share their vocabulary."""
        return self.source is self.target

    def files(self) -> dict[str, str]:
        """The files that hold them: name and content."""
        if self.joint:
            return {"tokenizer.json": self.source.to_json()}
        return {f"tokenizer.{side}.json": getattr(self, side).to_json() for side in SIDES}

    @classmethod
    def load(cls, folder: Path, *, remedy: str | None = None) -> Tokenizers:
        """Read them from a store or a model directory; an error ends with the remedy."""
        if remedy is None:
            is_store = (folder / DESCRIPTION_FILE).is_file()
            remedy = "prepare the text anew" if is_store else "name a store or a whole model directory"
        if (folder / "tokenizer.json").exists():
            subwords = Subwords.load(folder / "tokenizer.json", remedy=remedy)
            return cls(subwords, subwords)
        files = [folder / f"tokenizer.{side}.json" for side in SIDES]
        missing = [file.name for file in files if not file.exists()]
        if missing:
            found = "none of them" if len(missing) == len(files) else f"no {missing[0]}"
            raise FileNotFoundError(
                f"{folder}: expected tokenizer.json, or tokenizer.source.json and tokenizer.target.json; got {found}; "
                f"{remedy}"
            )
        return cls(*(Subwords.load(file, remedy=remedy) for file in files))


class Sentences:
    """One side of a split: a list of arrays of ids that stay on disk until they are asked for.

    Damage inside the files is found where they are read, for to look through them would take long. ``name`` is that of
    the files, without what tells them apart; ``size``, how many ids there are.
    """

    def __init__(
        self,
        tokens: NDArray[np.integer[Any]],
        offsets: NDArray[np.int64],
        *,
        name: str = "sentences",
        size: int | None = None,
    ) -> None:
        self.tokens = tokens
        self.offsets = offsets
        self._name = name
        self._size = size

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> NDArray[np.integer[Any]]:
        if not 0 <= index < len(self):
            raise IndexError(f"expected a sentence from 0 to {len(self) - 1}, got {index}")
        start, end = int(self.offsets[index]), int(self.offsets[index + 1])
        if not 0 <= start <= end <= len(self.tokens):
            raise self._damage(index)
        return self.tokens[start:end]

    def lengths(self, indices: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """How many pieces these sentences have."""
        lengths = self.offsets[indices + 1] - self.offsets[indices]
        if len(lengths) and lengths.min() < 0:
            raise self._damage(int(indices[lengths.argmin()]))
        return lengths

    def check(self, ids: NDArray[np.integer[Any]]) -> None:
        """Refuse ids that the vocabulary does not have: the model would fail on them without a word about the file."""
        if self._size is not None and ids.size and (greatest := int(ids.max())) >= self._size:
            raise ValueError(
                f"{self._name}.tokens: expected ids from 0 to {self._size - 1:,}, got {greatest:,}; the file is "
                "damaged, prepare anew"
            )

    def _damage(self, index: int) -> ValueError:
        start, end = self.offsets[index : index + 2].tolist()
        return ValueError(
            f"{self._name}.offsets: expected sentence {index:,} at two places in ascending order from 0 to "
            f"{len(self.tokens):,}, got {start:,} to {end:,}; the file is damaged, prepare anew"
        )


class Split(NamedTuple):
    """The two sides of a split, sentence by sentence."""

    source: Sentences
    target: Sentences

    def __len__(self) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        return len(self.source)


@dataclass(frozen=True)
class Store:
    """An open store."""

    folder: Path
    description: dict[str, Any]

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> Store:
        """Open a store; its arrays are mapped when a split is asked for."""
        path = Path(folder)
        file = path / DESCRIPTION_FILE
        if not file.is_file():
            raise FileNotFoundError(
                f"{path}: expected a folder that `rela prepare` made, with {DESCRIPTION_FILE} in it; "
                f"{'it has none' if path.is_dir() else 'there is no such folder'}"
            )
        try:
            description = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{file}: expected JSON, got {error}; prepare the text anew") from None
        if not isinstance(description, dict) or description.get("format") != FORMAT:
            found = description.get("format") if isinstance(description, dict) else type(description).__name__
            raise ValueError(f"{file}: expected format {FORMAT!r}, got {found!r}; prepare the text anew")
        if lacking := _lacking(description):
            raise ValueError(f"{file}: expected a description with {lacking}, got none; prepare the text anew")
        return cls(path, description)

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target language."""
        return self.description["source_language"], self.description["target_language"]

    @property
    def splits(self) -> list[str]:
        """The names of the splits."""
        return list(self.description["splits"])

    def tokenizers(self) -> Tokenizers:
        """The encodings of both sides."""
        tokenizers = Tokenizers.load(self.folder)
        for side in SIDES:
            expected, size = self.description["vocabulary"][side], getattr(tokenizers, side).size
            if size != expected:
                raise ValueError(
                    f"{self.folder}: expected a vocabulary of {expected:,} pieces on the {side} side, got a tokenizer "
                    f"with {size:,}; it belongs to another store, prepare anew"
                )
        return tokenizers

    def identity(self) -> str:
        """Tells whether two stores have the same content: vocabularies, and the same pieces in the same order.

        When, with which version and from what lines they were made makes no difference. Of stores that were made before
        there were checksums in them, their whole description has to do.
        """
        files = self.tokenizers().files()
        entries = self.description["splits"]
        sums = {name: [entry.get(f"{side}_sha256") for side in SIDES] for name, entry in entries.items()}
        if all(isinstance(one, str) for some in sums.values() for one in some):
            return digest_of({"dtype": self.description["dtype"], "splits": sums}, files)
        return digest_of(self.description, files)

    def split(self, name: str) -> Split:
        """Map one split's arrays."""
        if name not in self.description["splits"]:
            raise ValueError(f"{self.folder}: expected one of the splits {', '.join(self.splits)}; got {name!r}")
        return Split(*(self._sentences(name, side) for side in SIDES))

    def _sentences(self, name: str, side: str) -> Sentences:
        entry = self.description["splits"][name]
        dtype = np.dtype(self.description["dtype"])
        tokens = _map(self.folder / f"{name}.{side}.tokens", dtype, entry[f"{side}_tokens"])
        offsets = _map(path := self.folder / f"{name}.{side}.offsets", np.dtype("<i8"), entry["pairs"] + 1)
        ends = (int(offsets[0]), int(offsets[-1]))
        if ends != (0, len(tokens)):
            raise ValueError(
                f"{path}: expected offsets from 0 to {len(tokens):,}, got {ends[0]:,} to {ends[1]:,}; the file is "
                "damaged, prepare anew"
            )
        size = self.description["vocabulary"][side]
        return Sentences(tokens, offsets, name=str(self.folder / f"{name}.{side}"), size=size)


def digest_of(*facts: object) -> str:
    """A checksum of whatever can be written as JSON."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _lacking(description: dict[str, Any]) -> str | None:
    """The first thing that every description has and this one has not."""
    kinds: dict[str, type] = {"source_language": str, "target_language": str, "vocabulary": dict, "splits": dict}
    for name, kind in kinds.items():
        if not isinstance(description.get(name), kind):
            return name
    if description.get("dtype") not in _DTYPES:
        return f"a dtype of {' or '.join(_DTYPES)}"
    entries = {"vocabulary": description["vocabulary"]}
    entries |= {f"splits.{split}": entry for split, entry in description["splits"].items()}
    for where, entry in entries.items():
        for name in SIDES if where == "vocabulary" else ("pairs", *(f"{side}_tokens" for side in SIDES)):
            count = entry.get(name) if isinstance(entry, dict) else None
            if not isinstance(count, int) or count < 0:
                return f"a number as {where}.{name}"
    return None


def _map(path: Path, dtype: np.dtype[Any], length: int) -> NDArray[Any]:
    expected = length * dtype.itemsize
    if not path.is_file():
        raise FileNotFoundError(f"{path}: expected a file of {expected:,} bytes, there is none; prepare anew")
    size = path.stat().st_size
    if size != expected:
        raise ValueError(f"{path}: expected {expected:,} bytes, got {size:,}; the file is damaged, prepare anew")
    if length == 0:
        return np.empty(0, dtype)
    return np.memmap(path, dtype, mode="r", shape=(length,)).view(np.ndarray)


class SentenceWriter:
    """Writes one side of a split, sentence by sentence, with constant memory. What was written is on disk at its end.

    An error names the file, which those of a full disk do not do by themselves. ``sha256`` is that of what was written,
    however many sentences were written at a time.
    """

    def __init__(self, folder: Path, name: str, side: str, dtype: str) -> None:
        self._dtype = np.dtype(dtype)
        self._paths = [folder / f"{name}.{side}.{content}" for content in CONTENTS]
        self._files: list[IO[bytes]] = []
        self._sums = [hashlib.sha256() for _ in CONTENTS]
        self.num_tokens = 0

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._files = [stack.enter_context(path.open("wb", buffering=0)) for path in self._paths]
            self._append(b"", np.zeros(1, "<i8").tobytes())
            self._closing = stack.pop_all()
        return self

    def write(self, sentences: Sequence[Sequence[int]]) -> None:
        """Append sentences."""
        lengths = np.fromiter((len(ids) for ids in sentences), "<i8", len(sentences))
        flat = np.fromiter(chain.from_iterable(sentences), self._dtype, int(lengths.sum()))
        self._append(flat.tobytes(), (np.cumsum(lengths, dtype="<i8") + self.num_tokens).tobytes())
        self.num_tokens += len(flat)

    @property
    def sha256(self) -> str:
        """One for both files."""
        return hashlib.sha256(b"".join(one.digest() for one in self._sums)).hexdigest()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._closing:
            if kind is None:
                for path, file in zip(self._paths, self._files, strict=True):
                    with naming(path):
                        os.fsync(file.fileno())

    def _append(self, *contents: bytes) -> None:
        for path, file, one, content in zip(self._paths, self._files, self._sums, contents, strict=True):
            one.update(content)
            rest = memoryview(content)
            with naming(path):
                while rest:  # a raw file may take less than it is given
                    rest = rest[file.write(rest) :]


def dtype_for(vocabulary: int) -> str:
    """The smallest type that holds the ids of a vocabulary."""
    return _DTYPES[0] if vocabulary <= 2**16 else _DTYPES[1]
