"""Cross-attention weights of sentence pairs, under forced decoding: first between pieces, then between words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from rela.attention.multihead import MultiheadAttention, Observation
from rela.model.transformer import Transformer, evaluating
from rela.text.batches import pad_rows
from rela.text.vocabulary import BOS, EOS

Weights = NDArray[np.float32]


class PiecePair(NamedTuple):
    """Ids of a source and a target, without BOS and EOS."""

    source: Sequence[int]
    target: Sequence[int]


@torch.inference_mode()
def cross_weights(model: Transformer, pairs: Sequence[PiecePair], layers: Sequence[int] | None = None) -> list[Weights]:
    """For each pair the weights ``[layer, head, target pieces + 1, source pieces + 1]`` of cross-attention.

    Of all layers, or of those with these numbers (from 0, in rising order).

    Row ``i`` predicts target piece ``i`` and has piece ``i - 1`` as its input (BOS for row 0); the last row predicts
    EOS. The last column is the source's EOS.
    """
    if not pairs:
        return []
    seen: list[torch.Tensor] = []

    def look(_: MultiheadAttention, observation: Observation) -> None:
        seen.append(observation.weights)

    device = model.projection.device
    source = pad_rows([np.array(pair.source, np.int64) for pair in pairs], after=EOS)
    target = pad_rows([np.array(pair.target, np.int64) for pair in pairs], before=BOS)
    attentions = model.attentions()["cross"]
    watched = attentions if layers is None else [attentions[layer] for layer in layers]
    handles = [attention.register_observer(look) for attention in watched]
    try:
        with evaluating(model):
            model(torch.from_numpy(source).to(device), torch.from_numpy(target).to(device))
    finally:
        for handle in handles:
            handle.remove()
    stacked = torch.stack(seen, dim=1).float().cpu().numpy()  # [B, L, H, T, S]
    return [stacked[place, :, :, : len(pair.target) + 1, : len(pair.source) + 1] for place, pair in enumerate(pairs)]


def word_weights(
    weights: Weights, source_pieces: Sequence[Sequence[int]], target_pieces: Sequence[Sequence[int]], *, shifted: bool
) -> Weights:
    """Weights between words ``[..., target words, source words]`` from those between pieces.

    Summed over the pieces of a source word, averaged over those of a target word; EOS is no word. ``shifted`` takes
    the row whose input is the piece, else the row that predicts it.
    """
    columns = np.zeros((weights.shape[-1], len(source_pieces)), weights.dtype)
    for word, pieces in enumerate(source_pieces):
        columns[list(pieces), word] = 1
    rows = np.zeros((len(target_pieces), weights.shape[-2]), weights.dtype)
    for word, pieces in enumerate(target_pieces):
        for piece in pieces:
            rows[word, piece + int(shifted)] = 1 / len(pieces)
    return (rows @ weights @ columns).astype(np.float32)
