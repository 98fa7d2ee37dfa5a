"""Word links: for each target word the source word it attends to most."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from rela.alignment.weights import PiecePair, Weights, cross_weights, word_weights
from rela.model.transformer import Transformer
from rela.text.store import Tokenizers
from rela.text.subwords import Encoded
from rela.text.words import Span, pieces_of_words, split_words, word_texts

_BATCH_WEIGHTS: Final = 1 << 18
"""Places, source times target, in a batch of pairs: so many weights a head are in memory."""

Link = tuple[int, int]
"""A source word and a target word, counted from 0."""


class Choice(NamedTuple):
    """How weights link words: a decoder layer, from 0, and whether a word's row is the one that has it as its input."""

    layer: int
    shifted: bool


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
) -> Iterator[Alignment]:
    """Links of sentence pairs, from one layer's cross-attention averaged over its heads."""
    chosen = default_layer(model) if layer is None else layer
    if not 0 <= chosen < model.config.decoder_layers:
        raise ValueError(f"layer: expected 0 to {model.config.decoder_layers - 1}, got {chosen}")
    return (found for (found,) in align_by_choices(model, tokenizers, pairs, [Choice(chosen, shifted)]))


def align_by_choices(
    model: Transformer, tokenizers: Tokenizers, pairs: Sequence[tuple[str, str]], choices: Sequence[Choice]
) -> Iterator[list[Alignment]]:
    """For each pair its alignments, one for each choice. A pair goes through the model once, however many there are."""
    layers = sorted({choice.layer for choice in choices})
    encoded = ((s, t, tokenizers.source.encode_with_spans(s), tokenizers.target.encode_with_spans(t)) for s, t in pairs)
    for batch in _batches(encoded):
        all_weights = cross_weights(model, [PiecePair(s.ids, t.ids) for _, _, s, t in batch], layers)
        for (*texts, source, target), weights in zip(batch, all_weights, strict=True):
            words: tuple[list[Span], list[Span]] = (split_words(texts[0]), split_words(texts[1]))
            pieces = (pieces_of_words(source.spans, words[0]), pieces_of_words(target.spans, words[1]))
            means = {layer: of_heads.mean(axis=0) for layer, of_heads in zip(layers, weights, strict=True)}
            merged = (word_weights(means[choice.layer], *pieces, shifted=choice.shifted) for choice in choices)
            sides = (word_texts(texts[0], words[0]), word_texts(texts[1], words[1]))
            yield [Alignment(*sides, best_links(found)) for found in merged]


_EncodedPair = tuple[str, str, Encoded, Encoded]


def _batches(pairs: Iterable[_EncodedPair]) -> Iterator[list[_EncodedPair]]:
    """Neighbours together, as many as keep the padded weights within bounds."""
    batch: list[_EncodedPair] = []
    longest = (0, 0)
    for pair in pairs:
        lengths = (max(longest[0], len(pair[2].ids) + 1), max(longest[1], len(pair[3].ids) + 1))
        if batch and (len(batch) + 1) * lengths[0] * lengths[1] > _BATCH_WEIGHTS:
            yield batch
            batch, lengths = [], (len(pair[2].ids) + 1, len(pair[3].ids) + 1)
        batch.append(pair)
        longest = lengths
    if batch:
        yield batch
