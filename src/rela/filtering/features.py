"""What a forced-decoding forward pass tells about sentence pairs: losses of pieces, and weights of cross-attention.

Everything is computed for a batch at once. A row of cross-attention is that of a decoder input: BOS, then each target
piece; so a target of n pieces has n + 1 rows, and predicts n pieces and EOS.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rela.analysis.losses import piece_losses
from rela.attention.heads import Observer
from rela.filtering.encoding import PaddedBatch
from rela.model.transformer import Transformer, evaluating
from rela.text.vocabulary import PAD

Floats = NDArray[np.float64]

SPAN: Final = 4
"""Pieces side by side whose mean loss, or whose mean coverage, is looked at."""


class Forced(NamedTuple):
    """One batch after forced decoding. Numbers at padding are 0."""

    losses: Tensor  # [B, T] nats of each target piece, EOS among them
    null: Tensor  # [B, L, H, T] whether a row of cross-attention has no weight but 0
    largest: Tensor  # [B, L, H, S] the largest weight that each source piece, or EOS, gets from any row
    target_lengths: Tensor  # [B] rows: pieces and one more
    source_lengths: Tensor  # [B] pieces and EOS


@dataclass
class CrossWatch:
    """Collects what cross-attention does in a forward pass, layer by layer; ``more`` sees the weights too."""

    more: Callable[[int, Tensor], None] | None = None
    rows: Tensor | None = None  # [B, T], whether a row is none of padding
    null: list[Tensor] = field(default_factory=list[Tensor])
    largest: list[Tensor] = field(default_factory=list[Tensor])

    def see(self, layer: int, weights: Tensor) -> None:
        """The weights ``[B, H, T, S]`` of one layer."""
        assert self.rows is not None
        if self.more is not None:
            self.more(layer, weights)
        inside = self.rows[:, None]  # [B, 1, T]
        sizes = weights.abs()  # leaky and GeLU have negative ones
        self.null.append((sizes.amax(-1) == 0) & inside)
        self.largest.append((sizes * inside[..., None]).amax(-2))


def force(model: Transformer, batch: PaddedBatch, more: Callable[[int, Tensor], None] | None = None) -> Forced:
    """Forced decoding of a batch, watched."""
    device = model.projection.device
    source, target_in, target_out = (torch.from_numpy(ids).to(device) for ids in batch[1:4])
    inside = target_out.ne(PAD)
    watch = CrossWatch(more, inside)
    with ExitStack() as stack:
        stack.enter_context(evaluating(model))
        stack.enter_context(torch.inference_mode())
        for layer, attention in enumerate(model.attentions()["cross"]):
            handle = attention.register_observer(_observer(watch, layer), scores=False)
            stack.callback(handle.remove)
        losses = piece_losses(model, model(source, target_in), target_out)
    return Forced(
        losses, torch.stack(watch.null, 1), torch.stack(watch.largest, 1), inside.sum(1), source.ne(PAD).sum(1)
    )


def force_bare(model: Transformer, batch: PaddedBatch) -> Tensor:
    """The same losses and nothing else: what scoring is measured against."""
    device = model.projection.device
    source, target_in, target_out = (torch.from_numpy(ids).to(device) for ids in batch[1:4])
    with evaluating(model), torch.inference_mode():
        return piece_losses(model, model(source, target_in), target_out)


def _observer(watch: CrossWatch, layer: int) -> Observer:
    return lambda _, observation: watch.see(layer, observation.weights)


class BatchFeatures(NamedTuple):
    """Of each pair of a batch; nothing here depends on which pairs it shares the batch with."""

    cross_entropy: Floats  # [B] mean loss of a piece, EOS among them
    surprise: Floats  # [B] the largest mean loss of SPAN pieces side by side
    spread: Floats  # [B] standard deviation of the losses
    end: Floats  # [B] the loss of EOS
    null: Floats  # [B, L, H] share of null rows
    coverage: Floats  # [B, L, H] mean over source pieces of the largest weight that they get
    gap: Floats  # [B, L, H] the same for the SPAN pieces side by side that get least


def batch_features(forced: Forced) -> BatchFeatures:
    """From what forced decoding found."""
    losses, rows = forced.losses.double(), forced.target_lengths
    count = rows.double()
    mean = losses.sum(1) / count
    inside = torch.arange(losses.shape[1], device=losses.device) < rows[:, None]
    spread = (((losses - mean[:, None]) * inside).square().sum(1) / count).sqrt()
    end = losses.gather(1, rows[:, None] - 1).squeeze(1)
    pieces = forced.source_lengths - 1  # EOS is no word
    largest = forced.largest.double()
    words = torch.arange(largest.shape[-1], device=losses.device) < pieces[:, None]  # [B, S]
    covered = largest * words[:, None, None]
    least = -_highest_mean(-covered, pieces[:, None, None])
    found = (
        mean,
        _highest_mean(losses, rows),
        spread,
        end,
        forced.null.sum(-1).double() / count[:, None, None],
        covered.sum(-1) / pieces[:, None, None],
        least,
    )
    return BatchFeatures(*(values.cpu().numpy() for values in found))


def _highest_mean(values: Tensor, lengths: Tensor) -> Tensor:
    """The highest mean over SPAN neighbours of ``values`` ``[..., N]`` that lie inside; of all, if there are fewer."""
    size = min(SPAN, values.shape[-1])
    sums = values.cumsum(-1)
    sums = torch.nn.functional.pad(sums, (1, 0))
    means = (sums[..., size:] - sums[..., :-size]) / size  # [..., N - size + 1]
    starts = torch.arange(means.shape[-1], device=values.device)
    highest = means.masked_fill(starts + size > lengths[..., None], -torch.inf).amax(-1)
    whole = sums[..., -1] / lengths  # outside there is nothing but 0
    return torch.where(lengths < size, whole, highest)


def null_words(forced: Forced, batch: PaddedBatch, heads: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """``[B, words]``: whether all rows of a word, in all of these heads ``[L, H]``, attend to nothing.

    The rows of a word are those that have its pieces as inputs. A word without pieces is not null.
    """
    chosen = torch.from_numpy(heads).to(forced.null.device)
    rows = forced.null[:, chosen].all(1).cpu().numpy()  # [B, T]
    return by_word(rows, batch, np.logical_and, empty=False).astype(np.bool_)


def by_word(values: NDArray[np.generic], batch: PaddedBatch, combine: np.ufunc, *, empty: float) -> NDArray[np.generic]:
    """Values of target inputs ``[B, T]`` combined to values of words ``[B, words]``; ``empty`` where there is none."""
    width = max(1, int(batch.num_words.max(initial=0)))
    found = np.full((len(values), width), empty, values.dtype)
    inside = batch.words >= 0
    sentences = np.broadcast_to(np.arange(len(values))[:, None], inside.shape)[inside]
    places, taken = sentences * width + batch.words[inside], values[inside]
    if len(places):
        firsts = np.flatnonzero(np.diff(places, prepend=-1))
        found.reshape(-1)[places[firsts]] = combine.reduceat(taken, firsts)
    return found


def longest_run(flags: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The longest run of True in each row ``[B, N]``."""
    if not flags.size:
        return np.zeros(len(flags), np.int64)
    counts = np.cumsum(flags, axis=1)
    before = np.maximum.accumulate(np.where(flags, 0, counts), axis=1)
    return (counts - before).max(axis=1)


def area_under_curve(low: Sequence[float] | Floats, high: Sequence[float] | Floats) -> float:
    """How often a value of ``high`` is above one of ``low``, equal ones counting half."""
    low, high = np.sort(np.asarray(low, np.float64)), np.asarray(high, np.float64)
    below, until = np.searchsorted(low, high, "left"), np.searchsorted(low, high, "right")
    return float((below + until).mean() / 2 / len(low))
