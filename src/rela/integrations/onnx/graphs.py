"""What is exported of a Transformer: its encoder, and one step of its decoder with a cache."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim

from rela.attention.heads import Heads, Observation
from rela.attention.key_values import KeyValues
from rela.model.transformer import DecoderLayer, Transformer, frequencies
from rela.text.vocabulary import PAD

_OPEN: Final = Dim.DYNAMIC
_BATCH: Final = 3
_BEAM: Final = 2
_SOURCE: Final = 7
_PAST: Final = 5
"""Sizes of the example that is traced; all of them stay open."""


class Graph(NamedTuple):
    """A module to export: what it is called with, and which sizes may differ from call to call."""

    module: nn.Module
    example: tuple[Tensor, ...]
    open_sizes: dict[str, dict[int, object]]
    outputs: tuple[str, ...]


class EncoderGraph(nn.Module):
    """Ids ``[B, S]`` to what the decoder needs of a source: keys and values of each of its layers."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, source: Tensor) -> tuple[Tensor, Tensor]:
        model = self.model
        padding = source.eq(PAD)
        x = _embed(model, model.source_embedding, source, 0)
        for layer in model.encoder:
            x = layer(x, padding)
        projected = [layer.cross_attention.project_keys_values(x) for layer in _decoder_layers(model)]
        return torch.stack([one.keys for one in projected]), torch.stack([one.values for one in projected])


class DecoderGraph(nn.Module):
    """A token more for each beam ``[B, K]``, with the keys and values of those before, ``[L, B*K, H, T, d]``.

    Gives log-probabilities ``[B*K, V]``, the longer keys and values, and the weights of cross-attention
    ``[L, B, H, K, S]``, which take no time where nobody asks for them. ``own_projection`` is for rounded weights: a
    matrix that is a table of embeddings too cannot be rounded in one of its places alone.
    """

    def __init__(self, model: Transformer, *, own_projection: bool) -> None:
        super().__init__()
        self.model = model
        self.projection = model.projection.detach().t().clone() if own_projection else None

    def forward(
        self,
        tokens: Tensor,
        source: Tensor,
        memory_keys: Tensor,
        memory_values: Tensor,
        past_keys: Tensor,
        past_values: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        model = self.model
        padding = source.eq(PAD)
        x = _embed(model, model.target_embedding, tokens.reshape(-1, 1), past_keys.shape[3])
        longer: list[KeyValues] = []
        weights: list[Tensor] = []

        def look(_: Heads, seen: Observation) -> None:
            weights.append(seen.weights)

        for number, layer in enumerate(_decoder_layers(model)):
            handle = layer.cross_attention.register_observer(look, scores=False)
            memory = KeyValues(memory_keys[number], memory_values[number])
            x, past = layer.step(x, memory, KeyValues(past_keys[number], past_values[number]), padding)
            handle.remove()
            longer.append(past)
        hidden = x.squeeze(1)
        logits = model.logits(hidden) if self.projection is None else hidden @ self.projection
        keys, values = (torch.stack(parts) for parts in zip(*longer, strict=True))
        return torch.log_softmax(logits, dim=-1), keys, values, torch.stack(weights)


def encoder_graph(model: Transformer) -> Graph:
    """The encoder, ready to be exported."""
    return Graph(
        EncoderGraph(model).eval(),
        (_example_source(model),),
        {"source": {0: _OPEN, 1: _OPEN}},
        ("memory_keys", "memory_values"),
    )


def decoder_graph(model: Transformer, *, own_projection: bool) -> Graph:
    """The decoder's step, ready to be exported."""
    config = model.config
    source = _example_source(model)
    heads = config.num_heads, config.dim // config.num_heads
    memory = [torch.randn(config.decoder_layers, _BATCH, heads[0], _SOURCE, heads[1]) for _ in range(2)]
    past = [torch.randn(config.decoder_layers, _BATCH * _BEAM, heads[0], _PAST, heads[1]) for _ in range(2)]
    tokens = torch.arange(_BATCH * _BEAM).reshape(_BATCH, _BEAM) % config.target_vocabulary
    return Graph(
        DecoderGraph(model, own_projection=own_projection).eval(),
        (tokens, source, *memory, *past),
        {
            **{name: {0: _OPEN, 1: _OPEN} for name in ("tokens", "source")},
            **{name: {1: _OPEN, 3: _OPEN} for name in ("memory_keys", "memory_values", "past_keys", "past_values")},
        },
        ("log_probabilities", "new_keys", "new_values", "cross_attention"),
    )


def _example_source(model: Transformer) -> Tensor:
    source = torch.arange(1, _BATCH * _SOURCE + 1).reshape(_BATCH, _SOURCE) % model.config.source_vocabulary
    source[0, -2:] = PAD
    return source


def _embed(model: Transformer, table: nn.Embedding, ids: Tensor, start: int) -> Tensor:
    """As the model does, with positions that are computed: a table would have an end."""
    places = (torch.arange(ids.shape[1]) + start).double()[:, None]
    angles = places * frequencies(model.config.dim)
    positions = torch.cat([angles.sin(), angles.cos()], dim=1).float()
    return F.embedding(ids, table.weight) * math.sqrt(model.config.dim) + positions


def _decoder_layers(model: Transformer) -> list[DecoderLayer]:
    return list(model.decoder)  # pyright: ignore[reportReturnType]
