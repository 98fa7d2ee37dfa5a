"""Masks: one form inside, torch's forms outside.

Inside, a mask has three parts that mean "allowed", so that a kernel can treat each as cheaply as it can:
a boolean tensor, an additive bias for the allowed places, and a causal offset that needs no tensor at all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

Causal = bool | Literal["bottom-right"]


class Mask(NamedTuple):
    """Which (query, key) places are valid, and what is added to their scores.

    Attributes:
        allowed: True where a key may be seen; broadcasts to ``[..., H, Tq, Tk]``. None: everywhere.
        bias: added to the scores, finite everywhere. None: nothing is added.
        causal_offset: query ``i`` sees the keys ``j <= i + causal_offset``. None: no causal mask.
    """

    allowed: Tensor | None = None
    bias: Tensor | None = None
    causal_offset: int | None = None

    def all_allowed(self, num_queries: int, num_keys: int, device: torch.device) -> Tensor | None:
        """``allowed`` with the causal part merged in: what a computation without special cases needs."""
        if self.causal_offset is None:
            return self.allowed
        triangle = causal_mask(num_queries, num_keys, self.causal_offset, device)
        return triangle if self.allowed is None else self.allowed & triangle

    def num_valid(self, num_queries: int, num_keys: int, device: torch.device) -> Tensor | int:
        """How many keys each query may see: a number for all, or ``[..., Tq or 1, 1]``.

        Takes memory of the order of ``allowed`` itself, never of Tq x Tk for a causal or a padding mask.
        """
        if self.causal_offset is None:
            return num_keys if self.allowed is None else _count(self.allowed, num_keys)
        ends = (torch.arange(1, num_queries + 1, device=device) + self.causal_offset).clamp(0, num_keys)
        if self.allowed is None:
            return ends.unsqueeze(-1)
        if self.allowed.dim() < 2 or self.allowed.shape[-2] == 1:  # the same keys for all queries
            keys = self.allowed.expand(*self.allowed.shape[:-1], num_keys)
            counts = F.pad(keys.cumsum(-1), (1, 0)).movedim(-1, 0)[ends].movedim(0, -1)  # [..., 1, Tq]
            return counts.unsqueeze(-1) if counts.dim() < 2 else counts.transpose(-2, -1)
        allowed = self.all_allowed(num_queries, num_keys, device)
        assert allowed is not None
        return _count(allowed, num_keys)


def _count(allowed: Tensor, num_keys: int) -> Tensor:
    return allowed.expand(*allowed.shape[:-1], num_keys).sum(-1, keepdim=True)


def causal_mask(num_queries: int, num_keys: int, offset: int, device: torch.device) -> Tensor:
    """True where key ``j <= i + offset``: ``[Tq, Tk]``."""
    queries = torch.arange(num_queries, device=device).unsqueeze(-1)
    return torch.arange(num_keys, device=device) <= queries + offset


def causal_offset(is_causal: Causal, num_queries: int, num_keys: int) -> int | None:
    """torch's ``is_causal=True`` starts at the top left; ``"bottom-right"`` ends at the bottom right."""
    if is_causal is False:
        return None
    if is_causal is True:
        return 0
    if is_causal == "bottom-right":
        return num_keys - num_queries
    raise ValueError(f"is_causal: expected True, False or 'bottom-right', got {is_causal!r}")


def split_mask(mask: Tensor | None, *, true_means: Literal["allowed", "forbidden"], name: str = "attn_mask") -> Mask:
    """A boolean mask in either convention, or an additive one, in our form.

    In an additive mask -inf, and anything at or below half the dtype's minimum, forbids.
    """
    if mask is None:
        return Mask()
    if mask.dtype == torch.bool:
        return Mask(allowed=mask if true_means == "allowed" else ~mask)
    if not mask.is_floating_point():
        raise ValueError(
            f"{name}: expected dtype bool (True = {true_means}) or a float dtype (added to the scores), got "
            f"{mask.dtype}; convert it with mask.bool()"
        )
    forbidden = mask <= torch.finfo(mask.dtype).min / 2
    return Mask(allowed=~forbidden, bias=mask.masked_fill(forbidden, 0.0))


def merge_masks(first: Mask, second: Mask) -> Mask:
    """Allowed where both allow; biases add up."""
    offsets = [m.causal_offset for m in (first, second) if m.causal_offset is not None]
    return Mask(
        _combine(first.allowed, second.allowed, torch.logical_and),
        _combine(first.bias, second.bias, torch.add),
        min(offsets) if offsets else None,
    )


def module_mask(
    key_padding_mask: Tensor | None, attn_mask: Tensor | None, is_causal: Causal, sizes: tuple[int, int, int, int]
) -> Mask:
    """The two masks of torch.nn.MultiheadAttention (True = not allowed) as one; ``sizes`` are B, H, Tq and Tk."""
    batch, num_heads, num_queries, num_keys = sizes
    padding = places = Mask()
    if key_padding_mask is not None:
        if key_padding_mask.shape != (batch, num_keys):
            turned = key_padding_mask.shape == (num_keys, batch)
            raise ValueError(
                f"key_padding_mask: expected shape [B, Tk] = {(batch, num_keys)}, got {tuple(key_padding_mask.shape)}; "
                + ("transpose it" if turned else "it has a row for each sentence and a column for each key")
            )
        padding = split_mask(key_padding_mask[:, None, None, :], true_means="forbidden", name="key_padding_mask")
    if attn_mask is not None:
        whole = (batch * num_heads, num_queries, num_keys)
        if attn_mask.shape == (num_queries, num_keys):
            attn_mask = attn_mask[None, None]
        elif attn_mask.shape == whole:
            attn_mask = attn_mask.unflatten(0, (batch, num_heads))
        else:
            by_sentence = attn_mask.shape == (batch, num_queries, num_keys)
            raise ValueError(
                f"attn_mask: expected shape [Tq, Tk] = {whole[1:]} or [B*H, Tq, Tk] = {whole}, got "
                f"{tuple(attn_mask.shape)}; "
                + (
                    f"repeat it for the heads: mask.repeat_interleave({num_heads}, dim=0)"
                    if by_sentence
                    else "a mask of keys alone goes to key_padding_mask"
                )
            )
        places = split_mask(attn_mask, true_means="forbidden")
    return merge_masks(padding, places)._replace(causal_offset=causal_offset(is_causal, num_queries, num_keys))


def _combine(a: Tensor | None, b: Tensor | None, op: Callable[[Tensor, Tensor], Tensor]) -> Tensor | None:
    if a is None or b is None:
        return b if a is None else a
    return op(a, b)
