"""The Transformer of the paper: post-norm, sinusoidal positions, any attention of the library in each place."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Generator
from typing import Final, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rela.attention.key_values import KeyValues
from rela.attention.multihead import MultiheadAttention
from rela.attention.spec import Kind
from rela.model.config import ModelConfig
from rela.model.dropout import Dropout
from rela.model.seq2seq import Seq2Seq
from rela.text.vocabulary import PAD

_FEWEST_POSITIONS: Final = 256  # the table of sinusoids grows from here, by doubling


class DecoderState(NamedTuple):
    """What decoding keeps between steps: projected keys and values of the memory and of all that was decoded."""

    memory: list[KeyValues]
    past: list[KeyValues | None]
    memory_padding: Tensor | None  # [B, S], True at padding
    length: int

    def select(self, sentences: Tensor, rows: Tensor) -> DecoderState:
        """These sentences, and of what was decoded these rows (several a sentence, if it has several beams)."""
        return DecoderState(
            [keys_values.select(sentences) for keys_values in self.memory],
            [None if past is None else past.select(rows) for past in self.past],
            None if self.memory_padding is None else self.memory_padding.index_select(0, sentences),
            self.length,
        )

    def select_past(self, rows: Tensor) -> DecoderState:
        """Other pasts for the same memories: beams of a sentence share theirs."""
        return self._replace(past=[None if past is None else past.select(rows) for past in self.past])


class FeedForward(nn.Module):
    """Two layers with a ReLU between them."""

    def __init__(self, dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.expand = nn.Linear(dim, hidden_dim)
        self.contract = nn.Linear(hidden_dim, dim)
        for layer in (self.expand, self.contract):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.contract(F.relu(self.expand(x), inplace=True))


def _attention(config: ModelConfig, kind: Kind) -> MultiheadAttention:
    return MultiheadAttention(
        config.dim,
        config.num_heads,
        dropout=config.attention_dropout,
        batch_first=True,
        attention=config.attention.spec(kind),
    )


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward, each added to its input and then normed."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = _attention(config, "encoder")
        self.feed_forward = FeedForward(config.dim, config.ffn_dim)
        self.self_attention_norm = nn.LayerNorm(config.dim)
        self.feed_forward_norm = nn.LayerNorm(config.dim)
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor, padding: Tensor | None) -> Tensor:
        attended, _ = self.self_attention(x, x, x, key_padding_mask=padding, need_weights=False)
        x = self.self_attention_norm(self.dropout.add(x, attended))
        return self.feed_forward_norm(self.dropout.add(x, self.feed_forward(x)))


class DecoderLayer(nn.Module):
    """Causal self-attention, attention to the memory and feed-forward, each added to its input and then normed."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = _attention(config, "decoder")
        self.cross_attention = _attention(config, "cross")
        self.feed_forward = FeedForward(config.dim, config.ffn_dim)
        self.self_attention_norm = nn.LayerNorm(config.dim)
        self.cross_attention_norm = nn.LayerNorm(config.dim)
        self.feed_forward_norm = nn.LayerNorm(config.dim)
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor, memory: Tensor, memory_padding: Tensor | None) -> Tensor:
        attended, _ = self.self_attention(x, x, x, need_weights=False, is_causal=True)
        x = self.self_attention_norm(self.dropout.add(x, attended))
        attended, _ = self.cross_attention(x, memory, memory, key_padding_mask=memory_padding, need_weights=False)
        x = self.cross_attention_norm(self.dropout.add(x, attended))
        return self.feed_forward_norm(self.dropout.add(x, self.feed_forward(x)))

    def step(
        self, x: Tensor, memory: KeyValues, past: KeyValues | None, memory_padding: Tensor | None
    ) -> tuple[Tensor, KeyValues]:
        """The same for new positions only, without dropout. ``memory`` may have one row for several of ``x``'s."""
        attended, _, past = self.self_attention.step(x, past)
        x = self.self_attention_norm(x + attended)
        rows = memory.keys.shape[0]
        grouped = x if x.shape[0] == rows else x.reshape(rows, -1, x.shape[-1])  # beams as queries of one sentence
        attended, _ = self.cross_attention.attend(grouped, memory, key_padding_mask=memory_padding)
        x = self.cross_attention_norm(x + attended.reshape(x.shape))
        return self.feed_forward_norm(x + self.feed_forward(x)), past


class Transformer(Seq2Seq):
    """Encoder and decoder. Hidden states come out; :meth:`logits` or the loss turn them into words.

    Padding is ``PAD``. No argument of the forward pass says where it is: the ids do.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.target_embedding = nn.Embedding(config.target_vocabulary, config.dim, padding_idx=PAD)
        if config.tied == "all":
            self.source_embedding = self.target_embedding
        else:
            self.source_embedding = nn.Embedding(config.source_vocabulary, config.dim, padding_idx=PAD)
        self.output_weight = (
            nn.Parameter(torch.empty(config.target_vocabulary, config.dim)) if config.tied == "none" else None
        )
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        self.dropout = Dropout(config.dropout)
        self.register_buffer("_positions", torch.empty(0, config.dim), persistent=False)  # grows when it is used
        # In a fixed order: with the same seed, the same numbers.
        for table in dict.fromkeys((self.target_embedding, self.source_embedding)):
            nn.init.normal_(table.weight, std=config.dim**-0.5)
            with torch.no_grad():
                table.weight[PAD].zero_()
        if self.output_weight is not None:
            nn.init.normal_(self.output_weight, std=config.dim**-0.5)

    @property
    def projection(self) -> Tensor:
        return self.target_embedding.weight if self.output_weight is None else self.output_weight

    def encode(self, source: Tensor, padding: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        padding = source.eq(PAD) if padding is None else padding
        mask = padding if bool(padding.any()) else None
        x = self._embed(self.source_embedding, source, 0)
        for layer in self.encoder:
            x = layer(x, mask)
        return x, mask

    def decode(self, target_in: Tensor, memory: Tensor, memory_padding: Tensor | None) -> Tensor:
        x = self._embed(self.target_embedding, target_in, 0)
        for layer in self.decoder:
            x = layer(x, memory, memory_padding)
        return x

    def start(self, source: Tensor) -> DecoderState:
        """Encode a source and get ready to decode from it."""
        memory, padding = self.encode(source)
        projected = [layer.cross_attention.project_keys_values(memory) for layer in self._decoder_layers()]
        return DecoderState(projected, [None] * len(projected), padding, 0)

    def step(self, tokens: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """One more token for each row, ``[N]``, to hidden states ``[N, d]``. N is a multiple of the memories."""
        x = self._embed(self.target_embedding, tokens.unsqueeze(1), state.length)
        pasts: list[KeyValues | None] = []
        for layer, memory, past in zip(self._decoder_layers(), state.memory, state.past, strict=True):
            x, longer = layer.step(x, memory, past, state.memory_padding)
            pasts.append(longer)
        return x.squeeze(1), state._replace(past=pasts, length=state.length + 1)

    def attentions(self) -> dict[Kind, list[MultiheadAttention]]:
        return {
            "encoder": [layer.self_attention for layer in self.encoder],  # pyright: ignore[reportReturnType]
            "decoder": [layer.self_attention for layer in self._decoder_layers()],
            "cross": [layer.cross_attention for layer in self._decoder_layers()],
        }

    def _decoder_layers(self) -> list[DecoderLayer]:
        return list(self.decoder)  # pyright: ignore[reportReturnType]

    def embed_target(self, ids: Tensor, start: int) -> Tensor:
        """Target ids ``[B, T]`` at positions from ``start`` on."""
        return self._embed(self.target_embedding, ids, start)

    def _embed(self, table: nn.Embedding, ids: Tensor, start: int) -> Tensor:
        end = start + ids.shape[1]
        if end > self._positions.shape[0]:
            size = max(_FEWEST_POSITIONS, 2 ** math.ceil(math.log2(end)))
            with torch.inference_mode(False):  # training may use the table later
                self._positions = sinusoids(size, self.config.dim).to(self._positions)
        embedded = F.embedding(ids, table.weight, PAD) * math.sqrt(self.config.dim) + self._positions[start:end]
        return self.dropout(embedded)


@contextlib.contextmanager
def evaluating(model: nn.Module) -> Generator[None]:
    """Without dropout inside; afterwards each module is in the mode in which it was."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, was_training in modes:
            module.training = was_training


def sinusoids(length: int, dim: int) -> Tensor:
    """Positions as sines and cosines of falling frequency, ``[length, dim]``: sines first, then cosines."""
    angle = torch.arange(length, dtype=torch.float64)[:, None] * frequencies(dim)
    return torch.cat([angle.sin(), angle.cos()], dim=1).float()


def frequencies(dim: int) -> Tensor:
    """Of the sinusoids, ``[dim / 2]``."""
    return torch.exp(torch.arange(dim // 2, dtype=torch.float64) * (-math.log(10_000.0) / max(dim // 2 - 1, 1)))
