"""All weights of sentence pairs under forced decoding, with the words and pieces they belong to."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rela.alignment.merging import Weights, merge_pieces
from rela.alignment.pairs import EncodedPair, PairBatch, by_length, encode_pairs, windows
from rela.analysis.ablation import AblatedBatch, Head, check_head
from rela.attention.heads import Observation
from rela.attention.spec import KINDS, Kind
from rela.decoding.translator import Translator
from rela.model.opening import adapt_model, open_model
from rela.model.seq2seq import Seq2Seq
from rela.text.subwords import PairEncoding, SideEncoding
from rela.text.vocabulary import BOS, EOS, SPECIAL_PIECES
from rela.text.worded import Wording

ModelLike = str | os.PathLike[str] | Translator | tuple[Any, Any]
"""The folder of a model or of a run, a translator, or a model with its tokenizers.

Or a model of another library with its tokenizer, once the integration is imported.
"""


class WordWeights(NamedTuple):
    """Weights ``[layer, head, query word, key word]``, and the words along both sides."""

    weights: Weights
    queries: list[str]
    keys: list[str]


@dataclass(frozen=True, eq=False)
class HeadAblation:
    """What silencing one head alone changes.

    Attributes:
        head: kind, layer and head, counted from 0.
        change: what the loss of each target piece, EOS at the end, grows by without the head, in nats.
        null: True at the rows where the head is null anyway; None for the encoder's heads, which have no such rows.
    """

    head: Head
    change: NDArray[np.float32]
    null: NDArray[np.bool_] | None


@dataclass(frozen=True, eq=False, repr=False)
class Inspection:
    """One sentence pair, seen through a model. Layers and heads count from 0, as everywhere in Python code.

    ``inspection["cross"]`` are the weights ``[layer, head, query, key]`` of cross-attention, ``["encoder"]`` and
    ``["decoder"]`` those of self-attention. Row ``i`` of the decoder and of cross-attention has target piece ``i - 1``
    as its input (BOS in row 0) and predicts piece ``i`` (EOS in the last row).

    Attributes:
        queries: for each kind the pieces along the rows; ``⟨s⟩`` is BOS, ``⟨/s⟩`` EOS.
        keys: for each kind the pieces along the columns.
        source_words: the source's words.
        target_words: the target's words.
        loss: nats for each target piece, EOS at the end.
        ablation: what silencing each head that was asked for changes, in the order of the question.
    """

    queries: dict[Kind, list[str]]
    keys: dict[Kind, list[str]]
    source_words: list[str]
    target_words: list[str]
    loss: NDArray[np.float32]
    ablation: list[HeadAblation]
    _weights: dict[Kind, Weights]
    source_word_pieces: list[list[int]]  # for each word its pieces
    target_word_pieces: list[list[int]]

    def __getitem__(self, kind: Kind) -> Weights:
        if kind not in self._weights:
            raise KeyError(f"expected one of {', '.join(KINDS)}, got {kind!r}")
        return self._weights[kind]

    def null(self, kind: Kind) -> NDArray[np.bool_]:
        """True where a head gives no weight at all, ``[layer, head, query]``."""
        return (self[kind] == 0).all(-1)

    def words(self, kind: Kind, shifted: bool = True) -> WordWeights:
        """The weights between words: summed over the pieces of a key word, averaged over those of a query word.

        BOS and EOS are no words. ``shifted`` takes, for a word of the target, the rows that have it as their input,
        else those that predict it; the rows of the encoder are the words themselves, and the same either way.
        """
        weights = self[kind]
        if kind == "encoder":
            merged = merge_pieces(weights, self.source_word_pieces, self.source_word_pieces, shifted=False)
            return WordWeights(merged, self.source_words, self.source_words)
        if kind == "cross":
            merged = merge_pieces(weights, self.source_word_pieces, self.target_word_pieces, shifted=shifted)
            return WordWeights(merged, self.target_words, self.source_words)
        columns = [[piece + 1 for piece in pieces] for pieces in self.target_word_pieces]  # after BOS
        merged = merge_pieces(weights, columns, self.target_word_pieces, shifted=shifted)
        return WordWeights(merged, self.target_words, self.target_words)

    def table(self, kind: Kind, layer: int, head: int, shifted: bool = True) -> str:
        """One head between words, as text: a row for each query word, ``.`` for exact zeros.

        At the end of a row stands ``null`` if the head gives no weight at all there, not even to BOS or EOS.
        """
        weights, queries, keys = self.words(kind, shifted)
        sizes = {"layer": (layer, weights.shape[0]), "head": (head, weights.shape[1])}
        for name, (number, size) in sizes.items():
            if not 0 <= number < size:
                raise ValueError(f"{name}: expected 0 to {size - 1} ({kind}, counted from 0), got {number}")
        seen = (self[kind][layer, head] != 0).any(-1, keepdims=True)  # [query, 1]; also where BOS or EOS has it all
        rows = self.source_word_pieces if kind == "encoder" else self.target_word_pieces
        active = merge_pieces(seen.astype(np.float32), [[0]], rows, shifted=shifted and kind != "encoder")[:, 0] > 0
        table = [["", *keys]]
        for word, row in zip(queries, weights[layer, head].tolist(), strict=True):
            table.append([word, *("." if weight == 0 else f"{weight:.2f}" for weight in row)])
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = [
            "  ".join([row[0].ljust(widths[0]), *(map(str.rjust, row[1:], widths[1:]))])
            + ("" if number == 0 or active[number - 1] else "  null")
            for number, row in enumerate(table)
        ]
        return "\n".join(line.rstrip() for line in lines)

    def __repr__(self) -> str:
        layers, heads, queries, keys = self["cross"].shape
        sides = f"{' '.join(self.source_words)!r}, {' '.join(self.target_words)!r}"
        return (
            f"Inspection({sides}; cross: {layers} layers, {heads} heads, {queries} queries, {keys} keys; "
            f"loss {self.loss.mean():.3f})"
        )


Heads = Sequence[tuple[Kind, int, int]]


@overload
def inspect(  # pyright: ignore[reportOverlappingOverload] (a string is also a sequence of strings)
    model: ModelLike, sources: str, targets: str, *, ablate: Heads | None = None, wording: Wording | None = None
) -> Inspection: ...
@overload
def inspect(
    model: ModelLike,
    sources: Sequence[str],
    targets: Sequence[str],
    *,
    ablate: Heads | None = None,
    wording: Wording | None = None,
) -> list[Inspection]: ...
def inspect(
    model: ModelLike,
    sources: str | Sequence[str],
    targets: str | Sequence[str],
    *,
    ablate: Heads | None = None,
    wording: Wording | None = None,
) -> Inspection | list[Inspection]:
    """Look at every weight that a model gives while it reads a source and is made to write a target.

    >>> inspection = rela.inspect("model-dir", "A dog runs.", "Ein Hund läuft.", ablate=[("cross", 0, 3)])
    >>> inspection["cross"].shape  # layer, head, query, key
    >>> inspection.ablation[0].change  # nats for each target piece

    Args:
        model: the folder of a model or of a run, a :class:`rela.Translator`, or a model with its tokenizers.
        sources: a sentence, or a list of sentences; all weights of all pairs are held in memory.
        targets: its translation, or as many of them.
        ablate: heads to silence, each alone: ``(kind, layer, head)``, counted from 0.
        wording: what the words of a line are; those of ``rela.text.words.split_words`` if it is left out.
    """
    transformer, tokenizers = _resolved(model)
    heads = [check_head(transformer, head) for head in ablate or ()]
    single = isinstance(sources, str)
    if single != isinstance(targets, str):
        raise TypeError("sources and targets: expected two strings or two lists of strings, got one of each")
    texts = [_checked_texts(name, value) for name, value in (("sources", sources), ("targets", targets))]
    if len(texts[0]) != len(texts[1]):
        raise ValueError(
            f"sources and targets: expected two lists of one length, got {len(texts[0])} and {len(texts[1])}"
        )
    numbered = ((number, *pair) for number, pair in enumerate(zip(*texts, strict=True), start=1))
    found: list[Inspection] = []
    for window in windows(encode_pairs(tokenizers, numbered, wording)):
        for pair in window:
            _check_length(transformer, pair)
        placed: dict[int, Inspection] = {}
        for places in by_length(window):
            pairs = [window[place] for place in places]
            placed.update(zip(places, _inspect_batch(transformer, tokenizers, pairs, heads), strict=True))
        found += [placed[place] for place in range(len(window))]
    return found[0] if single else found


def piece_labels(subwords: SideEncoding, ids: Sequence[int]) -> list[str]:
    """Pieces as text, without the blank that the encoding puts before the first one."""
    pieces = subwords.pieces(ids)
    return [*(piece.removeprefix(" ") for piece in pieces[:1]), *pieces[1:]]


def _inspect_batch(
    model: Seq2Seq, tokenizers: PairEncoding, pairs: Sequence[EncodedPair], heads: Sequence[Head]
) -> Iterator[Inspection]:
    seen: dict[Kind, list[Tensor]] = {kind: [] for kind in KINDS}
    handles = [
        attention.register_observer(_collector(seen[kind], len(attentions)), scores=False)
        for kind, attentions in model.attentions().items()
        for attention in attentions
    ]
    try:
        with AblatedBatch(model, PairBatch(pairs, model.projection.device)) as ablated:
            losses = ablated.losses.float().cpu().numpy()
            changes = [ablated.change(head).float().cpu().numpy() for head in heads]
    finally:
        for handle in handles:
            handle.remove()
    stacked = {kind: torch.stack(layers, 1).float().cpu().numpy() for kind, layers in seen.items()}  # [B, L, H, Q, K]
    for row, pair in enumerate(pairs):
        sizes = {"source": len(pair.source.ids) + 1, "target": len(pair.target.ids) + 1}
        sides = {"encoder": ("source", "source"), "decoder": ("target", "target"), "cross": ("target", "source")}
        weights: dict[Kind, Weights] = {
            kind: stacked[kind][row, :, :, : sizes[sides[kind][0]], : sizes[sides[kind][1]]].copy() for kind in KINDS
        }
        pieces = {
            "source": [*piece_labels(tokenizers.source, pair.source.ids), SPECIAL_PIECES[EOS]],
            "target": [SPECIAL_PIECES[BOS], *piece_labels(tokenizers.target, pair.target.ids)],
        }
        yield Inspection(
            queries={kind: pieces[sides[kind][0]] for kind in KINDS},
            keys={kind: pieces[sides[kind][1]] for kind in KINDS},
            source_words=pair.source.words,
            target_words=pair.target.words,
            loss=losses[row, : sizes["target"]].copy(),
            ablation=[
                _ablation(head, change[row, : sizes["target"]].copy(), weights)
                for head, change in zip(heads, changes, strict=True)
            ],
            _weights=weights,
            source_word_pieces=pair.source.word_pieces,
            target_word_pieces=pair.target.word_pieces,
        )


def _ablation(head: Head, change: NDArray[np.float32], weights: dict[Kind, Weights]) -> HeadAblation:
    kind, layer, number = head
    return HeadAblation(head, change, None if kind == "encoder" else (weights[kind][layer, number] == 0).all(-1))


def _collector(found: list[Tensor], layers: int) -> Any:
    """An observer that keeps the weights of the first pass, before any head is silenced."""

    def look(_: object, observation: Observation) -> None:
        if len(found) < layers:
            found.append(observation.weights)

    return look


def _check_length(model: Seq2Seq, pair: EncodedPair) -> None:
    for name, side in (("sources", pair.source), ("targets", pair.target)):
        if model.max_pieces is not None and len(side.ids) > model.max_pieces:
            raise ValueError(
                f"{name}: expected at most {model.max_pieces:,} pieces, which is what the model has positions for, got "
                f"{len(side.ids):,} as number {pair.line}; shorten it, or leave the pair out"
            )


def _resolved(model: Any) -> tuple[Seq2Seq, PairEncoding]:
    if isinstance(model, str | os.PathLike):
        opened = open_model(model)
        return opened.model, opened.tokenizers
    if isinstance(model, Translator):
        return model.model, model.tokenizers
    if isinstance(model, tuple) and len(model) >= 2:  # a LoadedModel has its languages too
        inner, tokenizers = model[:2]
        if isinstance(inner, Seq2Seq) and hasattr(tokenizers, "source"):
            return inner, tokenizers
        adapted = adapt_model(inner, tokenizers)
        if adapted is not None:
            return adapted
    raise TypeError(
        "model: expected the path of a model directory, a Translator, (Transformer, Tokenizers), or (model, tokenizer) "
        f"of transformers with rela.integrations.huggingface imported, got {model!r:.200}"
    )


def _checked_texts(name: str, value: str | Sequence[str]) -> list[str]:
    if not isinstance(value, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance] (callers may be untyped)
        raise TypeError(f"{name}: expected a string or a list of strings, got {type(value).__name__}")
    texts = [value] if isinstance(value, str) else list(value)
    for number, text in enumerate(texts, start=1):
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] (callers may be untyped)
            raise TypeError(f"{name}: expected strings, got {type(text).__name__} as number {number}")
        if not text.strip():
            raise ValueError(f"{name}: expected a sentence, got an empty one as number {number}; leave the pair out")
    return texts
