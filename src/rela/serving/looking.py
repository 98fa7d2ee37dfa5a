"""Weights of heads on a text and its translation. Of each layer only what was asked for is kept."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from rela.alignment.merging import Weights, merge_pieces
from rela.alignment.pairs import EncodedPair, PairBatch, Side, cut_side, encode_pairs
from rela.attention.heads import Observation
from rela.attention.spec import Kind
from rela.decoding.search import SearchOptions
from rela.decoding.translator import Translator
from rela.model.transformer import evaluating
from rela.serving.schemas import HeadChoice, HeadWeights

MOST_PIECES: Final = 1024
"""Of a text that is translated or looked at. What is beyond is cut, and the answer says so."""


class Looked(NamedTuple):
    """What was asked for: the share of null rows of cross-attention, ``[layer][head]``, and chosen heads."""

    null_rates: list[list[float]] | None
    attention: list[HeadWeights]


def most_weights(pieces: int, *, heads: bool, choices: Collection[HeadChoice]) -> int:
    """How many weights may be looked at for a source of so many pieces, EOS among them, whatever its translation is."""
    target = _most_target(pieces - 1) + 1
    sizes: dict[Kind, int] = {"encoder": pieces * pieces, "decoder": target * target, "cross": target * pieces}
    return sizes["cross"] * heads + sum(sizes[choice.kind] for choice in choices)


@torch.inference_mode()
def look(translator: Translator, source: str, target: str, *, heads: bool, choices: Sequence[HeadChoice]) -> Looked:
    """Look at one pair under forced decoding. Words that are cut have no rows and no columns."""
    model = translator.model
    [pair] = encode_pairs(translator.tokenizers, [(1, source, target)])
    most = _most_target(len(pair.source.ids))
    pair = EncodedPair(pair.line, _within(pair.source, MOST_PIECES), _within(pair.target, most))
    rates: list[list[float]] = []
    found: dict[tuple[Kind, int, int], HeadWeights] = {}

    def observer(kind: Kind, layer: int, chosen: Collection[int], rated: bool) -> Any:
        def observe(_: object, observation: Observation) -> None:
            weights = observation.weights[0]  # [H, queries, keys]
            null = (weights == 0).all(-1).cpu().numpy()
            if rated:
                rates.append(np.round(null.mean(-1), 4).tolist())
            for head in chosen:
                found[kind, layer, head] = _head(
                    kind, layer, head, weights[head].float().cpu().numpy(), null[head], pair
                )

        return observe

    handles: list[Any] = []
    try:
        for kind, attentions in model.attentions().items():
            for layer, attention in enumerate(attentions, start=1):
                chosen = {one.head for one in choices if (one.kind, one.layer) == (kind, layer)}
                rated = heads and kind == "cross"
                if chosen or rated:
                    observe = observer(kind, layer, chosen, rated)
                    handles.append(attention.register_observer(observe, scores=False))
        batch = PairBatch([pair], model.projection.device)
        with evaluating(model):
            model(batch.source, batch.target_in)
    finally:
        for handle in handles:
            handle.remove()
    return Looked(rates if heads else None, [found[one.kind, one.layer, one.head] for one in choices])


def _most_target(pieces: int) -> int:
    """Most pieces of a translation that are looked at: a search does not find more."""
    return min(SearchOptions().longest(min(pieces, MOST_PIECES)), MOST_PIECES)


def _within(side: Side, most: int) -> Side:
    """The first pieces, and the words up to the last one that has any of them."""
    cut = cut_side(side, most)
    count = max((number for number, pieces in enumerate(cut.word_pieces, start=1) if pieces), default=0)
    return Side(cut.words[:count], cut.ids, cut.word_pieces[:count])


def _head(
    kind: Kind, layer: int, head: int, weights: Weights, null: NDArray[np.bool_], pair: EncodedPair
) -> HeadWeights:
    """Weights ``[queries, keys]`` between words. A word of the target has the rows that have it as their input."""
    queries = pair.source if kind == "encoder" else pair.target
    keys = pair.target if kind == "decoder" else pair.source
    shift = int(kind != "encoder")
    columns = [[piece + int(kind == "decoder") for piece in pieces] for pieces in keys.word_pieces]  # after BOS
    merged = merge_pieces(weights, columns, queries.word_pieces, shifted=bool(shift))
    return HeadWeights(
        kind=kind,
        layer=layer,
        head=head,
        queries=queries.words,
        keys=keys.words,
        weights=np.round(merged.astype(np.float64), 5).tolist(),
        null=[bool(null[[piece + shift for piece in pieces]].all()) for pieces in queries.word_pieces],
    )
