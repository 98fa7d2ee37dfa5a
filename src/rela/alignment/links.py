"""Word links: for each target word the source word it attends to most."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rela.alignment.weights import PiecePair, Weights, cross_weights, word_weights
from rela.model.transformer import Transformer
from rela.text.store import Tokenizers
from rela.text.words import Span, pieces_of_words, split_words, word_texts

Link = tuple[int, int]
"""A source word and a target word, counted from 0."""


class Alignment(NamedTuple):
    """The words of a pair, and the links between them."""

    source_words: list[str]
    target_words: list[str]
    links: list[Link]


def best_links(weights: Weights) -> list[Link]:
    """From weights ``[target words, source words]``: the largest of each row; a row without weight links nothing."""
    if weights.shape[1] == 0:
        return []
    best = weights.argmax(axis=1)
    return [(int(best[row]), row) for row in range(len(best)) if weights[row, best[row]] > 0]


def default_layer(model: Transformer) -> int:
    """The layer in the middle of the decoder, from 0: where the paper found the best alignments."""
    return model.config.decoder_layers // 2


def align(
    model: Transformer,
    tokenizers: Tokenizers,
    pairs: Sequence[tuple[str, str]],
    *,
    layer: int | None = None,
    shifted: bool = True,
    batch_size: int = 32,
) -> Iterator[Alignment]:
    """Links of sentence pairs, from one layer's cross-attention averaged over its heads."""
    chosen = default_layer(model) if layer is None else layer
    if not 0 <= chosen < model.config.decoder_layers:
        raise ValueError(f"layer: expected 0 to {model.config.decoder_layers - 1}, got {chosen}")
    for start in range(0, len(pairs), batch_size):
        batch = pairs[start : start + batch_size]
        encoded = [(tokenizers.source.encode_with_spans(s), tokenizers.target.encode_with_spans(t)) for s, t in batch]
        all_weights = cross_weights(model, [PiecePair(s.ids, t.ids) for s, t in encoded])
        for texts, (source, target), weights in zip(batch, encoded, all_weights, strict=True):
            words: tuple[list[Span], list[Span]] = (split_words(texts[0]), split_words(texts[1]))
            merged = word_weights(
                weights[chosen].mean(axis=0),
                pieces_of_words(source.spans, words[0]),
                pieces_of_words(target.spans, words[1]),
                shifted=shifted,
            )
            yield Alignment(word_texts(texts[0], words[0]), word_texts(texts[1], words[1]), best_links(merged))
