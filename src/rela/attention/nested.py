"""Nested tensors in and out of padded computation."""

from __future__ import annotations

import torch
from torch import Tensor


def lengths(x: Tensor) -> Tensor:
    """How many positions each row of a nested ``[B, T*, E]`` has."""
    if x.layout == torch.jagged:
        return x.offsets().diff()  # pyright: ignore[reportAttributeAccessIssue]
    return torch.tensor([row.shape[0] for row in x.unbind()], device=x.device)


def padding_mask(x: Tensor) -> Tensor:
    """True where the padded form of ``x`` is padding: ``[B, T]``."""
    length = lengths(x)
    longest = int(length.max().item()) if length.numel() else 0
    return torch.arange(longest, device=x.device) >= length.unsqueeze(-1)


def pad_together(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Padded forms; inputs that are one object stay one object."""
    padded: dict[int, Tensor] = {id(x): torch.nested.to_padded_tensor(x, 0.0) for x in tensors}
    return tuple(padded[id(x)] for x in tensors)


def restore(padded: Tensor, like: Tensor) -> Tensor:
    """``padded`` ``[B, T, E]`` as a nested tensor of the lengths and layout of ``like``."""
    valid = ~padding_mask(like)
    if like.layout == torch.jagged:
        return torch.nested.nested_tensor_from_jagged(padded[valid], offsets=like.offsets())  # pyright: ignore[reportAttributeAccessIssue]
    rows = padded[valid].split(lengths(like).tolist())
    return torch.nested.as_nested_tensor(list(rows), layout=torch.strided)
