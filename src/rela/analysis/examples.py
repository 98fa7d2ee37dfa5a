"""The file attention.npz: the weights that models give to example sentences, written as they come."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rela._files import naming, sync
from rela.alignment.errors import ErrorCounts, GoldLinks, Link
from rela.alignment.naive import merged_links
from rela.analysis.inspection import Inspection, inspect
from rela.analysis.sample import Example
from rela.attention.spec import KINDS
from rela.model.seq2seq import Seq2Seq
from rela.text.subwords import PairEncoding
from rela.text.vocabulary import EOS, SPECIAL_PIECES
from rela.text.worded import Wording

FORMAT: Final = "rela-examples-1"
_AT_A_TIME: Final = 16
"""Examples whose weights are in memory together."""
_NO_DATE: Final = (1980, 1, 1, 0, 0, 0)
"""For the files of the archive: the same weights are the same bytes."""


class ExamplesFile:
    """Weights on their way into an archive beside its place, which :meth:`finish` gives its name."""

    def __init__(self, examples: Sequence[Example], wording: Wording, partial: Path) -> None:
        self.examples = examples
        self._wording, self._partial = wording, partial
        self._models: list[str] = []
        self._words: list[tuple[list[str], list[str]]] = []
        self._described: list[list[dict[str, Any]]] = []
        with naming(partial):
            self._archive = zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED)

    def __enter__(self) -> ExamplesFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._archive.close()

    def add(
        self,
        name: str,
        model: Seq2Seq,
        tokenizers: PairEncoding,
        best: dict[str, Any] | None,
        see: Callable[[int, Example, Inspection], None],
    ) -> None:
        """One more model. ``best`` are the heads that align best, by shift; ``see`` is told all examples."""
        number = len(self._models)
        self._models.append(name)
        self._words, described = [], list[dict[str, Any]]()
        for first in range(0, len(self.examples), _AT_A_TIME):
            chosen = self.examples[first : first + _AT_A_TIME]
            found = inspect(
                (model, tokenizers),
                [example.source for example in chosen],
                [example.target for example in chosen],
                wording=self._wording,
            )
            for place, (example, inspection) in enumerate(zip(chosen, found, strict=True), start=first):
                for kind in KINDS:
                    self._write(f"{number}.{kind}.{place}", inspection[kind])
                self._words.append((inspection.source_words, inspection.target_words))
                described.append(_described(example, inspection, best))
                see(place, example, inspection)
        self._described.append(described)

    def finish(self, path: Path) -> None:
        """Put the rest into the file, and give it its name: it is whole, or not there."""
        sentences = [
            {
                "line": example.line,
                "role": example.role,
                "source_words": self._words[place][0],
                "target_words": self._words[place][1],
                "source_tags": None,
                "target_tags": example.target_tags,
                "sure": None if example.gold is None else sorted(example.gold.sure),
                "possible": None if example.gold is None else sorted(example.gold.possible),
                "models": [of_model[place] for of_model in self._described],
            }
            for place, example in enumerate(self.examples)
        ]
        text = json.dumps({"format": FORMAT, "models": self._models, "sentences": sentences}, ensure_ascii=False)
        self._write("examples", np.array(text))
        with naming(path):
            self._archive.close()
            sync(self._partial)
            self._partial.replace(path)

    def _write(self, name: str, array: NDArray[Any]) -> None:
        entry = zipfile.ZipInfo(f"{name}.npy", _NO_DATE)
        entry.compress_type = zipfile.ZIP_DEFLATED
        with naming(self._partial), self._archive.open(entry, "w", force_zip64=True) as file:
            np.lib.format.write_array(file, array, allow_pickle=False)


def _described(example: Example, inspection: Inspection, best: dict[str, Any] | None) -> dict[str, Any]:
    eos = SPECIAL_PIECES[EOS]
    source_pieces, target_pieces = inspection.keys["encoder"], [*inspection.queries["decoder"][1:], eos]
    return {
        "source_pieces": source_pieces,
        "target_pieces": target_pieces,
        "source_piece_words": _owners(inspection.source_word_pieces, len(source_pieces)),
        "target_piece_words": _owners(inspection.target_word_pieces, len(target_pieces)),
        "loss": round(float(inspection.loss.mean()), 5),
        "null": {kind: round(float(inspection.null(kind).mean()), 5) for kind in KINDS},
        "aer": _error_rate(example.gold, inspection, best),
    }


def _owners(word_pieces: Sequence[Sequence[int]], size: int) -> list[list[int]]:
    """For each piece its words; the last one, EOS, has none."""
    found: list[list[int]] = [[] for _ in range(size)]
    for word, pieces in enumerate(word_pieces):
        for piece in pieces:
            found[piece].append(word)
    return found


def _error_rate(gold: GoldLinks | None, inspection: Inspection, best: dict[str, Any] | None) -> float | None:
    """By the head with the lowest error rate, shifted or not."""
    known = {shift: chosen for shift, chosen in (best or {}).items() if chosen is not None}
    if gold is None or not known:
        return None
    shift, chosen = min(known.items(), key=lambda item: item[1]["aer"])
    counts = ErrorCounts.of(head_links(inspection, chosen["layer"] - 1, chosen["head"], shift == "shifted"), gold)
    return None if counts.found + counts.sure == 0 else round(counts.aer, 5)


def head_links(inspection: Inspection, layer: int, head: int, shifted: bool) -> list[Link]:
    """The links that one head makes, by the merged rule."""
    weights = inspection["cross"][layer, head].astype(np.float64)
    return merged_links(weights, inspection.source_word_pieces, inspection.target_word_pieces, shifted=shifted)
