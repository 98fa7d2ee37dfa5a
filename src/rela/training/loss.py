"""Label-smoothed cross-entropy straight from hidden states, a chunk of rows at a time.

The scores of the vocabulary are the largest tensor of a step. Here they exist for one chunk only, and their gradient
takes their place while they are still in the cache; what is kept is the gradient of the hidden states and of the
projection.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from rela.attention.penalty import SparsityPenalty
from rela.model.transformer import Transformer
from rela.text.vocabulary import PAD
from rela.training.spoiling import NullLoss

_CHUNK_NUMBERS: Final = 2**21
"""Scores in a chunk: 8 MiB, which stay in the cache of most machines."""


class Loss(NamedTuple):
    """Sums over all target tokens: the label-smoothed loss, which is trained, and the plain one, in nats."""

    smoothed: Tensor
    plain: Tensor


class TrainingLoss(NamedTuple):
    """What an update is made of: the loss of words, and what else a model is to learn, if anything."""

    smoothed: Tensor
    plain: Tensor
    null: Tensor | None
    sparsity: Tensor | None


def token_loss(hidden: Tensor, projection: Tensor, targets: Tensor, smoothing: float) -> Loss:
    """The summed loss of hidden states ``[..., d]`` for targets ``[...]``; padding does not count.

    The smoothed target gives the true word ``1 - smoothing`` and every word of the vocabulary an equal share of the
    rest, as ``F.cross_entropy(label_smoothing=...)`` does.
    """
    rows = hidden.reshape(-1, hidden.shape[-1])
    flat = targets.reshape(-1)
    real = flat.ne(PAD).nonzero().squeeze(1)
    if len(real) < len(flat):
        rows, flat = rows.index_select(0, real), flat.index_select(0, real)
    smoothed, plain = _TokenLoss.apply(rows, projection, flat, smoothing)  # pyright: ignore[reportGeneralTypeIssues]
    return Loss(smoothed, plain)


class _TokenLoss(torch.autograd.Function):
    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, rows: Tensor, projection: Tensor, targets: Tensor, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        wanted = ctx.needs_input_grad[0] or ctx.needs_input_grad[1]
        size = max(1, _CHUNK_NUMBERS // projection.shape[0])
        d_rows = torch.empty_like(rows) if wanted else None
        d_projection = torch.zeros_like(projection) if wanted else None
        smoothed = torch.zeros((), dtype=torch.float64, device=rows.device)
        plain = torch.zeros((), dtype=torch.float64, device=rows.device)
        for start in range(0, len(rows), size):
            chunk, ids = rows[start : start + size], targets[start : start + size, None]
            log_p = F.log_softmax(chunk @ projection.t(), dim=-1)
            true = -log_p.gather(1, ids).sum(dtype=torch.float64)
            plain += true
            smoothed += (1 - smoothing) * true
            if smoothing > 0:
                smoothed -= smoothing * log_p.mean(1).sum(dtype=torch.float64)
            if d_rows is not None and d_projection is not None:
                d_scores = log_p.exp_().sub_(smoothing / projection.shape[0])
                d_scores.scatter_add_(1, ids, d_scores.new_full(ids.shape, smoothing - 1))
                torch.mm(d_scores, projection, out=d_rows[start : start + size])
                d_projection.addmm_(d_scores.t(), chunk)
        ctx.save_for_backward(d_rows, d_projection)
        ctx.mark_non_differentiable(plain)
        return smoothed, plain

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, *grads: Tensor
    ) -> tuple[Tensor | None, Tensor | None, None, None]:
        d_rows, d_projection = ctx.saved_tensors
        factor = grads[0].to(d_rows.dtype)
        return d_rows * factor, d_projection * factor, None, None


def naive_token_loss(hidden: Tensor, projection: Tensor, targets: Tensor, smoothing: float) -> Loss:
    """The same by the definition, all scores at once."""
    scores = F.linear(hidden, projection).flatten(0, -2)
    flat = targets.reshape(-1)
    smoothed = F.cross_entropy(scores, flat, ignore_index=PAD, reduction="sum", label_smoothing=smoothing)
    return Loss(smoothed, F.cross_entropy(scores, flat, ignore_index=PAD, reduction="sum"))


class Criterion(nn.Module):
    """Model and loss in one module, so that several processes share its gradients."""

    def __init__(
        self,
        model: Transformer,
        smoothing: float,
        null_loss: NullLoss | None = None,
        sparsity: SparsityPenalty | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.smoothing = smoothing
        self.null_loss = null_loss
        self.sparsity = sparsity

    def forward(
        self, source: Tensor, target_in: Tensor, target_out: Tensor, null_rows: Tensor | None = None
    ) -> TrainingLoss:
        """The loss of words; that of ``null_rows`` ``[B, T]``, which should attend to nothing; that of sparsity."""
        if self.null_loss is not None:
            self.null_loss.rows = null_rows
        found = token_loss(self.model(source, target_in), self.model.projection, target_out, self.smoothing)
        return TrainingLoss(
            *found,
            None if self.null_loss is None else self.null_loss(),
            None if self.sparsity is None else self.sparsity(),
        )
