"""Nested tensors in and out of padded computation."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from rela.attention.masks import Causal


def lengths(x: Tensor) -> Tensor:
    """How many positions each row of a nested ``[B, T*, E]`` has."""
    if x.layout == torch.jagged:
        return x.offsets().diff()  # pyright: ignore[reportAttributeAccessIssue]
    return torch.tensor([row.shape[0] for row in x.unbind()], device=x.device)


def _padding_mask(x: Tensor) -> Tensor:
    """True where the padded form of ``x`` is padding: ``[B, T]``."""
    length = lengths(x)
    return torch.arange(_longest(length), device=x.device) >= length.unsqueeze(-1)


def run_padded(
    forward: Callable[..., tuple[Tensor, object]],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    is_causal: Causal,
    num_heads: int,
) -> Tensor:
    """A module's ``forward`` on the padded forms of nested inputs; its output is nested as the query is."""
    key_lengths = lengths(key)
    if value is not key and not torch.equal(key_lengths, lengths(value)):
        raise ValueError(
            f"nested tensors: expected as many values as keys in every row, got {lengths(value).tolist()} and "
            f"{key_lengths.tolist()}"
        )
    places = None
    if is_causal == "bottom-right":  # the corner is another one in every row
        places = _beyond_corner(lengths(query), key_lengths).repeat_interleave(num_heads, dim=0)
        is_causal = False
    output, _ = forward(
        *_pad_together(query, key, value),
        key_padding_mask=_padding_mask(key),
        attn_mask=places,
        need_weights=False,
        is_causal=is_causal,
    )
    return _restore(output, query)


def _beyond_corner(query_lengths: Tensor, key_lengths: Tensor) -> Tensor:
    """True where a key lies beyond what bottom-right causal attention lets a query see: ``[B, Tq, Tk]``."""
    queries = torch.arange(_longest(query_lengths), device=query_lengths.device).view(1, -1, 1)
    keys = torch.arange(_longest(key_lengths), device=key_lengths.device).view(1, 1, -1)
    return keys > queries + (key_lengths - query_lengths).view(-1, 1, 1)


def _pad_together(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Padded forms; inputs that are one object stay one object."""
    padded: dict[int, Tensor] = {id(x): _padded(x) for x in tensors}
    return tuple(padded[id(x)] for x in tensors)


def _padded(x: Tensor) -> Tensor:
    if x.layout == torch.strided and _longest(lengths(x)) == 0:  # torch pads jagged rows of nothing, but not these
        return torch.stack(x.unbind())
    return torch.nested.to_padded_tensor(x, 0.0)


def _longest(length: Tensor) -> int:
    return int(length.max().item()) if length.numel() else 0


def _restore(padded: Tensor, like: Tensor) -> Tensor:
    """``padded`` ``[B, T, E]`` as a nested tensor of the lengths and layout of ``like``."""
    valid = ~_padding_mask(like)
    if like.layout == torch.jagged:
        return torch.nested.nested_tensor_from_jagged(padded[valid], offsets=like.offsets())  # pyright: ignore[reportAttributeAccessIssue]
    rows = padded[valid].split(lengths(like).tolist())
    return torch.nested.as_nested_tensor(list(rows), layout=torch.strided)
