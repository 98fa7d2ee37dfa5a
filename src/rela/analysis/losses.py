"""The loss of each target piece, for those who want more than the sum."""

from __future__ import annotations

from typing import Final

import torch
import torch.nn.functional as F
from torch import Tensor

from rela.model.seq2seq import Seq2Seq
from rela.text.vocabulary import PAD

_CHUNK_SCORES: Final = 2**21
"""Scores of the vocabulary that exist at a time: 8 MiB."""


def piece_losses(model: Seq2Seq, hidden: Tensor, target_out: Tensor) -> Tensor:
    """Nats for each target piece ``[B, T]``, EOS among them, of hidden states ``[B, T, d]``; 0 at padding."""
    rows, targets = hidden.flatten(0, 1), target_out.flatten()
    size = max(1, _CHUNK_SCORES // model.projection.shape[0])
    chunks = [
        F.cross_entropy(model.logits(chunk), ids, ignore_index=PAD, reduction="none")
        for chunk, ids in zip(rows.split(size), targets.split(size), strict=True)
    ]
    return torch.cat(chunks).view_as(target_out)
