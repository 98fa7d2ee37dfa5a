"""What forced decoding needs of a model, whoever made it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from rela.attention.heads import Heads
from rela.attention.spec import Kind
from rela.model.config import ModelConfig


class Seq2Seq(nn.Module):
    """An encoder and a decoder whose attentions can be watched: our Transformer, or another library's model behind it.

    Ids are those of :mod:`rela.text.vocabulary`; padding is where they say it.
    """

    config: ModelConfig
    max_pieces: int | None = None
    """The most pieces of a side that it has positions for, beside BOS or EOS; None: any number."""

    @property
    def projection(self) -> Tensor:
        """The matrix from hidden states to the target vocabulary, ``[V, d]``."""
        raise NotImplementedError

    def encode(self, source: Tensor, padding: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """The memory ``[B, S, d]`` of a source ``[B, S]``, and where its padding is (None: nowhere).

        ``padding`` ``[B, S]``, True at padding, is where the ids do not say it.
        """
        raise NotImplementedError

    def decode(self, target_in: Tensor, memory: Tensor, memory_padding: Tensor | None) -> Tensor:
        """Hidden states ``[B, T, d]`` of all target positions at once."""
        raise NotImplementedError

    def attentions(self) -> Mapping[Kind, Sequence[Heads]]:
        """The attention modules of each kind, layer by layer."""
        raise NotImplementedError

    def forward(self, source: Tensor, target_in: Tensor) -> Tensor:
        """Ids ``[B, S]`` and ``[B, T]`` to hidden states ``[B, T, d]``."""
        memory, padding = self.encode(source)
        return self.decode(target_in, memory, padding)

    def logits(self, hidden: Tensor) -> Tensor:
        """Hidden states to scores of the target vocabulary."""
        return F.linear(hidden, self.projection)

    def num_parameters(self) -> int:
        """How many numbers are trained; shared ones count once."""
        return sum(parameter.numel() for parameter in self.parameters())
