"""What is summed over the rows of one layer in one batch. Two ways to the same numbers: compiled, and in torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import torch
from torch import Tensor

from rela.analysis.frame import Frame

FARTHEST: Final = 10
"""Distances from query to key are told apart up to here; what is farther counts as this far."""

BY_HEAD: Final = ("nonzero", "null", "mass", "entropy", "first", "last", "unit_nonzero", "unit_null")
BY_LAYER: Final = ("layer_nonzero", "layer_null", "places", "rows", "unit_places", "unit_rows")


class Sums(NamedTuple):
    """Sums in float64, and which rows are null.

    ``taus`` are the exponents that make distributions of weights; where weights are that already, ``diversity`` has
    one column.
    """

    by_head: Tensor  # [H, BY_HEAD]
    by_layer: Tensor  # [BY_LAYER]
    distances: Tensor  # [H, 2 * FARTHEST + 1]
    diversity: Tensor  # [2, taus]: between pieces, between units
    null: Tensor  # [B, H, Tq], bool; False at padding


def plain_sums(weights: Tensor, frame: Frame, taus: Sequence[float]) -> Sums:
    """In torch's own operations, on any device: several passes over ``weights`` ``[B, H, Tq, Tk]``."""
    device = weights.device
    valid = frame.valid_queries
    rows = valid[:, None]  # [B, 1, Tq]
    counts = torch.arange(1, frame.num_queries + 1, device=device)
    num_allowed = (counts if frame.is_causal else frame.key_lengths[:, None]) * valid  # [B, Tq]
    sizes = weights.abs() * rows[..., None]
    nonzero = (sizes != 0).sum(-1)
    null = (nonzero == 0) & rows
    mass = sizes.sum(-1)
    entropy = torch.special.entr(sizes / torch.where(mass == 0, 1, mass)[..., None]).sum(-1)
    last = (num_allowed - 1).clamp_min(0)[:, None, :, None].expand(-1, weights.shape[1], -1, -1)
    layer = (weights.sum(1) != 0).sum(-1) * valid  # [B, Tq]

    query_map, key_map = frame.query_units.maps(frame.num_queries), frame.key_units.maps(frame.num_keys)
    query_map, key_map = query_map.to(weights), key_map.to(weights)
    num_pieces = query_map.sum(1)  # [B, units]
    has_pieces = num_pieces > 0
    merged = query_map.mT[:, None] @ weights @ key_map[:, None]  # [B, H, units, units]
    unit_allowed = _allowed_units(frame, merged)
    merged = merged.masked_fill(~unit_allowed[:, None], 0.0)
    unit_nonzero = (merged != 0).sum(-1)  # sums, not yet means: the least of numbers has no third
    merged = merged / num_pieces.clamp_min(1)[:, None, :, None]

    allowed = torch.arange(frame.num_keys, device=device) < num_allowed[..., None]
    levels = ((weights, allowed, valid), (merged, unit_allowed, has_pieces))
    return Sums(
        torch.stack(
            [
                _total(nonzero),
                _total(null),
                _total(mass),
                _total(entropy),
                _total(sizes[..., 0]),
                _total(sizes.gather(-1, last).squeeze(-1)),
                _total(unit_nonzero),
                _total((unit_nonzero == 0) & has_pieces[:, None]),
            ],
            dim=1,
        ).cpu(),
        torch.stack(
            [
                layer.sum(),
                ((layer == 0) & valid).sum(),
                num_allowed.sum(),
                valid.sum(),
                (unit_allowed & has_pieces[..., None]).sum(),
                has_pieces.sum(),
            ]
        )
        .double()
        .cpu(),
        _by_distance(sizes).cpu(),
        torch.stack([_diversity(level, taus) for level in levels]).cpu(),
        null,
    )


def _total(values: Tensor) -> Tensor:
    """``[B, H, Tq]`` to ``[H]``."""
    return values.sum((0, 2), dtype=torch.float64)


def _allowed_units(frame: Frame, merged: Tensor) -> Tensor:
    """``[B, units, units]``: a word sees all words of the source, or itself and what is before it."""
    num_queries, num_keys = merged.shape[-2:]
    if frame.is_causal:
        square = torch.ones(num_queries, num_keys, dtype=torch.bool, device=merged.device)
        return square.tril().expand(len(merged), -1, -1)
    counts = torch.from_numpy(frame.key_units.units).diff().to(merged.device)
    return (torch.arange(num_keys, device=merged.device) < counts[:, None, None]).expand(-1, num_queries, -1)


def _by_distance(sizes: Tensor) -> Tensor:
    queries, keys = (torch.arange(size, device=sizes.device) for size in sizes.shape[-2:])
    groups = (keys - queries[:, None]).clamp(-FARTHEST, FARTHEST) + FARTHEST
    sums = torch.zeros(sizes.shape[1], 2 * FARTHEST + 1, dtype=torch.float64, device=sizes.device)
    return sums.index_add_(1, groups.flatten(), sizes.sum(0, dtype=torch.float64).flatten(1))


def _diversity(level: tuple[Tensor, Tensor, Tensor], taus: Sequence[float]) -> Tensor:
    weights, allowed, valid = level
    found = divergence_of_powers(weights, allowed, taus) if taus else divergence(weights)[None]
    return (found * valid).sum((1, 2), dtype=torch.float64)


def divergence(weights: Tensor) -> Tensor:
    """How much heads disagree, for distributions ``[B, H, Tq, Tk]``: that of each query, ``[B, Tq]``.

    The generalised Jensen-Shannon divergence: the entropy of the heads' mean distribution, less the mean of their
    entropies. It is 0 if all heads look at the same places, and ln H if no two of them share one.
    """
    mean_entropy = torch.special.entr(weights).sum(-1).mean(1)
    return (torch.special.entr(weights.mean(1)).sum(-1) - mean_entropy).clamp_min(0)


def divergence_of_powers(weights: Tensor, allowed: Tensor, taus: Sequence[float]) -> Tensor:
    """For each tau that of the distributions softmax(weights ** tau) over the allowed places: ``[taus, B, Tq]``.

    A head that attends to nothing is sure of one extra place, where no other head has any weight. Negative weights keep
    their sign.
    """
    null = (weights == 0).all(-1, keepdim=True)  # [B, H, Tq, 1]
    extra = torch.special.entr(null.squeeze(-1).to(weights.dtype).mean(1))  # [B, Tq]
    found: list[Tensor] = []
    for tau in taus:
        powers = weights if tau == 1 else weights.abs().pow(tau) * weights.sign()
        each = powers.masked_fill(~allowed[:, None], -torch.inf).softmax(-1).masked_fill(null, 0.0)
        inner = torch.special.entr(each).sum(-1).mean(1)
        found.append(torch.special.entr(each.mean(1)).sum(-1) + extra - inner)
    sees_none = ~allowed.any(-1)  # padding
    return torch.stack(found).masked_fill(sees_none, 0.0).clamp_min(0)
