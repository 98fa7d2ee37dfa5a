"""Word weights and links of a whole batch at once. ``naive.py`` says the same in loops."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

import torch
from torch import Tensor

from rela.alignment.pairs import PairBatch

Shift = Literal["normal", "shifted"]
Rule = Literal["merged", "any"]

SHIFTS: Final[tuple[Shift, ...]] = ("normal", "shifted")
"""Whose row is a target piece's: the one that predicts it, or the one that has it as its input."""

RULES: Final[tuple[Rule, ...]] = ("merged", "any")
"""Words are linked by the largest weight between words, or if any of their pieces are."""


def word_weights(weights: Tensor, batch: PairBatch, shift: Shift) -> Tensor:
    """Cross weights ``[B, H, T, S]`` to weights between words ``[B, H, target words, source words]``.

    Summed over the pieces of a source word, averaged over those of a target word; EOS is no word. Words that are
    padding, or have no pieces, have no weight.
    """
    rows, target_words = _rows(weights, batch, shift)
    columns = rows @ batch.source_words.to(weights.dtype).unsqueeze(1)  # [B, H, T, Ws]
    words = target_words.to(weights.dtype).transpose(1, 2).unsqueeze(1)  # [B, 1, Wt, T]
    return (words @ columns) / words.sum(-1, keepdim=True).clamp(min=1)


def link_words(weights: Tensor, batch: PairBatch, shift: Shift, rule: Rule) -> Tensor:
    """Cross weights ``[B, H, T, S]`` to links, True where target word and source word ``[B, H, Wt, Ws]`` are linked.

    A row whose largest weight is not above 0 links nothing; of equal weights, the first links.
    """
    if rule == "merged":
        return _largest(word_weights(weights, batch, shift))
    rows, target_words = _rows(weights, batch, shift)
    links = _largest(_without_ends(rows, batch)).float()  # [B, H, T, S]
    return target_words.transpose(1, 2).unsqueeze(1) @ links @ batch.source_words.unsqueeze(1) > 0


def link_words_in_all_ways(weights: Tensor, batch: PairBatch) -> Iterator[tuple[Shift, Rule, Tensor]]:
    """What :func:`link_words` gives for every shift and rule, with what they share worked out once."""
    columns = weights @ batch.source_words.to(weights.dtype).unsqueeze(1)  # [B, H, T, Ws]
    values, best = _without_ends(weights, batch).max(-1)  # [B, H, T]
    owners = batch.source_words.unsqueeze(1).expand(-1, weights.shape[1], -1, -1)
    places = best.unsqueeze(-1).expand(-1, -1, -1, owners.shape[-1])
    linked = owners.gather(2, places) * (values > 0).unsqueeze(-1)  # [B, H, T, Ws]: the words of each row's best piece
    for shift in SHIFTS:
        rows, target_words = _rows(columns, batch, shift)
        words = target_words.transpose(1, 2).unsqueeze(1)
        yield shift, "merged", _largest(words.to(rows.dtype) @ rows)  # a mean is largest where the sum is
        yield shift, "any", words @ _rows(linked, batch, shift)[0] > 0


def _without_ends(weights: Tensor, batch: PairBatch) -> Tensor:
    """The weights with zeros at EOS and padding."""
    places = torch.arange(weights.shape[-1], device=weights.device)
    beyond = places >= (batch.source_lengths - 1)[:, None]  # [B, S]
    return weights.masked_fill(beyond[:, None, None], 0)


def _rows(weights: Tensor, batch: PairBatch, shift: Shift) -> tuple[Tensor, Tensor]:
    """The rows of target pieces ``[B, H, T', S]``, and the words of these pieces ``[B, T', words]``."""
    if shift == "shifted":
        return weights[:, :, 1:], batch.target_words[:, :-1]
    return weights, batch.target_words


def _largest(weights: Tensor) -> Tensor:
    """True at the largest place of each row, if it is above 0."""
    if weights.shape[-1] == 0:
        return torch.zeros_like(weights, dtype=torch.bool)
    values, places = weights.max(-1, keepdim=True)
    return torch.zeros_like(weights, dtype=torch.bool).scatter_(-1, places, values > 0)
