"""Word links, and soft weights between words, of sentence pairs: batch by batch, in the order they came."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from rela.alignment.batched import link_words, word_weights
from rela.alignment.choice import Choice, default_choice
from rela.alignment.errors import Link
from rela.alignment.pairs import EncodedPair, PairBatch, by_length, encode_pairs, windows
from rela.alignment.weights import visit_cross_weights
from rela.model.seq2seq import Seq2Seq
from rela.text.subwords import PairEncoding
from rela.text.worded import Wording

T = TypeVar("T")


class Alignment(NamedTuple):
    """The words of a pair, and the links between them."""

    source_words: list[str]
    target_words: list[str]
    links: list[Link]


class SoftAlignment(NamedTuple):
    """The words of a pair, and the weights between them, ``[target words, source words]``."""

    source_words: list[str]
    target_words: list[str]
    weights: NDArray[np.float32]


def align(
    model: Seq2Seq,
    tokenizers: PairEncoding,
    pairs: Iterable[tuple[str, str]],
    choice: Choice | None = None,
    wording: Wording | None = None,
) -> Iterator[Alignment]:
    """Links of sentence pairs (source, target), read and given out as they are asked for.

    ``choice`` says which weights link, by default :func:`default_choice`; ``wording`` what the words of a line are.
    """
    return align_encoded(model, _encoded(tokenizers, pairs, wording), choice)


def align_softly(
    model: Seq2Seq,
    tokenizers: PairEncoding,
    pairs: Iterable[tuple[str, str]],
    choice: Choice | None = None,
    wording: Wording | None = None,
) -> Iterator[SoftAlignment]:
    """Weights between the words of sentence pairs (source, target), before any rule makes links of them."""
    return weigh_encoded(model, _encoded(tokenizers, pairs, wording), choice)


def align_encoded(model: Seq2Seq, pairs: Iterable[EncodedPair], choice: Choice | None = None) -> Iterator[Alignment]:
    """The same as :func:`align`, of pairs that have their pieces already."""
    chosen = default_choice(model) if choice is None else choice

    def finish(weights: Tensor, batch: PairBatch) -> list[list[Link]]:
        return _links(link_words(weights, batch, chosen.shift, chosen.rule), len(batch.pairs))

    for pair, links in _by_batches(model, pairs, chosen, finish):
        yield Alignment(pair.source.words, pair.target.words, links)


def weigh_encoded(
    model: Seq2Seq, pairs: Iterable[EncodedPair], choice: Choice | None = None
) -> Iterator[SoftAlignment]:
    """The same as :func:`align_softly`, of pairs that have their pieces already."""
    chosen = default_choice(model) if choice is None else choice

    def finish(weights: Tensor, batch: PairBatch) -> list[NDArray[np.float32]]:
        found = word_weights(weights.float(), batch, chosen.shift)[:, 0].cpu().numpy()
        return [found[row, : len(pair.target.words), : len(pair.source.words)] for row, pair in enumerate(batch.pairs)]

    for pair, weights in _by_batches(model, pairs, chosen, finish):
        yield SoftAlignment(pair.source.words, pair.target.words, weights)


def _encoded(
    tokenizers: PairEncoding, pairs: Iterable[tuple[str, str]], wording: Wording | None
) -> Iterator[EncodedPair]:
    numbered = ((line, source, target) for line, (source, target) in enumerate(pairs, start=1))
    return encode_pairs(tokenizers, numbered, wording)


def _by_batches(
    model: Seq2Seq,
    pairs: Iterable[EncodedPair],
    choice: Choice,
    finish: Callable[[Tensor, PairBatch], list[T]],
) -> Iterator[tuple[EncodedPair, T]]:
    """Each pair with what ``finish`` makes of the chosen weights ``[B, 1, T, S]`` of its batch."""
    choice.check(model)
    for window in windows(pairs):
        found: dict[int, T] = {}
        for places in by_length(window):
            batch = PairBatch([window[place] for place in places], model.projection.device)
            weights = _chosen_weights(model, batch, choice)
            found.update(zip(places, finish(weights, batch), strict=True))
        yield from ((pair, found[place]) for place, pair in enumerate(window))


def _chosen_weights(model: Seq2Seq, batch: PairBatch, choice: Choice) -> Tensor:
    """Of the chosen head, or the mean over all: ``[B, 1, T, S]``."""
    seen: list[Tensor] = []
    visit_cross_weights(model, batch, [choice.layer], lambda _, weights: seen.append(weights))
    return seen[0].mean(1, keepdim=True) if choice.head is None else seen[0][:, choice.head : choice.head + 1]


def _links(linked: Tensor, count: int) -> list[list[Link]]:
    """Of ``[B, 1, Wt, Ws]``: the links of each pair, by target word and then by source word."""
    links: list[list[Link]] = [[] for _ in range(count)]
    for row, target, source in linked[:, 0].nonzero().tolist():
        links[row].append((source, target))
    return links
