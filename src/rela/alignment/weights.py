"""Cross-attention weights of sentence pairs, under forced decoding."""

from __future__ import annotations

from collections.abc import Callable, Collection

import torch
from torch import Tensor

from rela.alignment.pairs import PairBatch
from rela.attention.heads import Heads, Observation, Observer
from rela.model.seq2seq import Seq2Seq
from rela.model.transformer import evaluating

Visit = Callable[[int, Tensor], None]


class _SeenAll(Exception):  # noqa: N818 (it is no error)
    """Ends a forward pass: nobody needs what is above the last layer that is watched."""


@torch.inference_mode()
def visit_cross_weights(model: Seq2Seq, batch: PairBatch, layers: Collection[int], visit: Visit) -> None:
    """Call ``visit(layer, weights)`` for these layers, from 0, in rising order; weights are ``[B, H, T, S]``.

    Row ``i`` predicts target piece ``i`` and has piece ``i - 1`` as its input (BOS for row 0); the last row of a pair
    predicts EOS. The last column of a pair is the source's EOS. Of the model, only what these weights need is computed.
    """
    if not layers:
        return
    last = max(layers)

    def watch(layer: int) -> Observer:
        def look(_: Heads, observation: Observation) -> None:
            visit(layer, observation.weights)
            if layer == last:
                raise _SeenAll

        return look

    attentions = model.attentions()["cross"]
    handles = [attentions[layer].register_observer(watch(layer), scores=False) for layer in layers]
    try:
        with evaluating(model):
            model(batch.source, batch.target_in)
    except _SeenAll:
        pass
    finally:
        for handle in handles:
            handle.remove()
