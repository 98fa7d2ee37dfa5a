"""Attention as pure functions, with the signature and the mask conventions of F.scaled_dot_product_attention.

Queries, keys and values are ``[..., H, T, d]`` with any leading batch dimensions, which broadcast. A boolean mask is
True where a key may be seen; a float mask is added to the scores (-inf, or at most half the dtype's minimum, forbids).
``is_causal=True`` is torch's: query ``i`` sees the keys up to ``i``; ``is_causal="bottom-right"`` lets the last query
see all keys, as decoding with a cache needs. Causal and given masks may be combined.

Half precision is computed in float32 inside; a row without a valid key gives zeros.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from rela.attention import kernels
from rela.attention.maps import length_factor, map_scores
from rela.attention.masks import Causal, Mask, causal_offset, split_mask
from rela.attention.norms import gated_layer_norm, gated_rms_norm, layer_norm, rms_norm
from rela.attention.rates import null_rate, sparsity_rate
from rela.attention.spec import AttentionSpec, MapName

__all__ = [
    "Attended",
    "attend",
    "attention",
    "attention_weights",
    "concat_heads",
    "gated_layer_norm",
    "gated_rms_norm",
    "layer_norm",
    "null_rate",
    "rela_attention",
    "relu_attention",
    "rms_norm",
    "sparsity_rate",
]


class Attended(NamedTuple):
    """What :func:`attend` computed: the heads' outputs, and on request what led to them."""

    output: Tensor
    weights: Tensor | None
    scores: Tensor | None


def relu_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: Causal = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    threshold: float | Tensor = 0.0,
    length_power: float = 0.0,
) -> Tensor:
    """``relu(q k^T * scale) v``, a drop-in for ``F.scaled_dot_product_attention``.

    Without a norm behind it this is the paper's row 4, whose training loss did not decrease: use
    :func:`rela_attention`, or put a :class:`rela.GatedRMSNorm` over the concatenated heads yourself.
    """
    return attention(
        query,
        key,
        value,
        "relu",
        attn_mask=attn_mask,
        dropout_p=dropout_p,
        is_causal=is_causal,
        scale=scale,
        enable_gqa=enable_gqa,
        threshold=threshold,
        length_power=length_power,
        need_weights=False,
    )[0]


def rela_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    norm: Callable[[Tensor], Tensor],
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: Causal = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    threshold: float | Tensor = 0.0,
    length_power: float = 0.0,
) -> Tensor:
    """The paper's ReLA before the output projection: heads ``[..., H, Tq, d]`` attended by ReLU, concatenated to
    ``[..., Tq, H * d]``, and normed by ``norm`` (a :class:`rela.GatedRMSNorm` of that size, say).
    """
    spec = AttentionSpec(map="relu", scale=scale, length_power=length_power)
    mask = _checked_mask(query, key, value, attn_mask, is_causal, enable_gqa)
    heads = attend(query, key, value, spec, mask, dropout_p=dropout_p, threshold=threshold).output
    return norm(concat_heads(heads)).to(query.dtype)


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    map: MapName = "softmax",
    *,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: Causal = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    threshold: float | Tensor = 0.0,
    length_power: float = 0.0,
    alpha: float | Tensor = 1.5,
    topk: int = 8,
    negative_slope: float = 0.2,
    need_weights: bool = True,
) -> tuple[Tensor, Tensor | None]:
    """Attention by any map: ``(output, weights)``, the weights as they were before dropout.

    ``threshold`` (pointwise maps) and ``alpha`` (``entmax``) may be tensors with one number for each head, ``[H]``.
    """
    spec = AttentionSpec(map=map, scale=scale, length_power=length_power, topk=topk, negative_slope=negative_slope)
    if not spec.is_pointwise and (isinstance(threshold, Tensor) or threshold != 0):
        spec = AttentionSpec(map=map, threshold=1.0)  # raises, and says why
    mask = _checked_mask(query, key, value, attn_mask, is_causal, enable_gqa)
    attended = attend(
        query,
        key,
        value,
        spec,
        mask,
        dropout_p=dropout_p,
        threshold=threshold,
        alpha=alpha,
        need_weights=need_weights,
    )
    weights = attended.weights
    return attended.output.to(query.dtype), None if weights is None else weights.to(query.dtype)


def attention_weights(
    query: Tensor,
    key: Tensor,
    map: MapName = "softmax",
    *,
    attn_mask: Tensor | None = None,
    is_causal: Causal = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    threshold: float | Tensor = 0.0,
    length_power: float = 0.0,
    alpha: float | Tensor = 1.5,
    topk: int = 8,
    negative_slope: float = 0.2,
) -> Tensor:
    """The weights alone, ``[..., H, Tq, Tk]``."""
    weights = attention(
        query,
        key,
        key,
        map,
        attn_mask=attn_mask,
        is_causal=is_causal,
        scale=scale,
        enable_gqa=enable_gqa,
        threshold=threshold,
        length_power=length_power,
        alpha=alpha,
        topk=topk,
        negative_slope=negative_slope,
    )[1]
    assert weights is not None
    return weights


def concat_heads(heads: Tensor) -> Tensor:
    """``[..., H, T, d]`` to ``[..., T, H * d]``."""
    if heads.dim() < 3:
        raise ValueError(
            f"heads: expected [..., H, T, d], got shape {tuple(heads.shape)}; unsqueeze the head dimension"
        )
    return heads.transpose(-3, -2).flatten(-2)


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    spec: AttentionSpec,
    mask: Mask,
    *,
    dropout_p: float = 0.0,
    threshold: float | Tensor = 0.0,
    alpha: float | Tensor = 1.5,
    need_weights: bool = False,
    need_scores: bool = False,
) -> Attended:
    """The core of every attention here, from checked inputs to the heads' outputs, before norm and concatenation.

    Half-precision inputs give float32 outputs: the norm behind wants them unrounded. ``spec.norm``,
    ``spec.threshold`` and ``spec.learn_threshold`` are the caller's business.
    """
    if not 0.0 <= dropout_p <= 1.0:
        raise ValueError(f"dropout_p: expected a probability between 0 and 1, got {dropout_p}")
    scale = spec.scale if spec.scale is not None else 1.0 / math.sqrt(max(query.shape[-1], 1))
    threshold, alpha = _by_head(threshold), _by_head(alpha)
    key, value = (_repeat_heads(t, query) for t in (key, value))
    with _without_autocast(query.device):
        query, key, value = (_at_least_float32(t) for t in (query, key, value))
        if not need_weights and not need_scores:
            if spec.map == "softmax":
                return Attended(_softmax_output(query, key, value, mask, scale, dropout_p), None, None)
            kernel = _relu_kernel(query, key, value, mask, threshold) if spec.map == "relu" else None
            if kernel is not None:
                output = kernels.relu_attention(
                    kernel, query, key, value, mask, scale=scale, threshold=threshold, dropout_p=dropout_p
                )
                if spec.length_power != 0:
                    allowed = mask.all_allowed(query.shape[-2], key.shape[-2], query.device)
                    output = output * length_factor(spec.length_power, key.shape[-2], allowed, output)
                return Attended(output, None, None)
        return _plain(query, key, value, spec, mask, scale, dropout_p, threshold, alpha)


def _plain(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    spec: AttentionSpec,
    mask: Mask,
    scale: float,
    dropout_p: float,
    threshold: float | Tensor,
    alpha: float | Tensor,
) -> Attended:
    """The formulas as they stand: scores, map, mask, dropout, values."""
    scores = (query * scale) @ key.transpose(-2, -1)  # [..., H, Tq, Tk]
    if mask.bias is not None:
        scores = scores + mask.bias
    allowed = mask.all_allowed(query.shape[-2], key.shape[-2], query.device)
    weights = map_scores(spec, scores, allowed, threshold=threshold, alpha=alpha)
    dropped = F.dropout(weights, dropout_p) if dropout_p > 0 else weights
    return Attended(dropped @ value, weights, scores)


def _softmax_output(query: Tensor, key: Tensor, value: Tensor, mask: Mask, scale: float, dropout_p: float) -> Tensor:
    """torch's own kernel, and zeros for the rows that see no key."""
    if mask.causal_offset == 0 and mask.allowed is None and mask.bias is None:
        return F.scaled_dot_product_attention(query, key, value, None, dropout_p, True, scale=scale)
    allowed = mask.all_allowed(query.shape[-2], key.shape[-2], query.device)
    if allowed is None and mask.bias is None:
        return F.scaled_dot_product_attention(query, key, value, None, dropout_p, scale=scale)
    if mask.bias is None:
        attn_mask = allowed
    else:
        attn_mask = mask.bias.to(query.dtype)
        attn_mask = attn_mask if allowed is None else attn_mask.masked_fill(~allowed, -torch.inf)
    output = F.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, scale=scale)
    if allowed is None:
        return output
    return output.masked_fill(~allowed.any(-1, keepdim=True), 0.0)


def _relu_kernel(
    query: Tensor, key: Tensor, value: Tensor, mask: Mask, threshold: float | Tensor
) -> kernels.Kernel | None:
    """A kernel that takes this call; None: the plain formulas do."""
    learned_bias = mask.bias is not None and mask.bias.requires_grad and torch.is_grad_enabled()
    same_batch = query.shape[:2] == key.shape[:2] == value.shape[:2]
    by_head = not isinstance(threshold, Tensor) or threshold.shape == (query.shape[1], 1, 1)
    if learned_bias or not same_batch or not by_head:
        return None
    return kernels.attention_kernel(query, key, value)


def _checked_mask(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    is_causal: Causal,
    enable_gqa: bool,
) -> Mask:
    """The inputs' mask in our form, after everything about the inputs has been checked."""
    _check_inputs(query, key, value, enable_gqa)
    num_queries, num_keys = query.shape[-2], key.shape[-2]
    mask = split_mask(attn_mask, true_means="allowed")
    if attn_mask is not None:
        full = (*_batch_shape(query, key), num_queries, num_keys)
        try:
            fits = torch.broadcast_shapes(attn_mask.shape, full) == torch.Size(full)
        except RuntimeError:
            fits = False
        if not fits:
            raise ValueError(
                f"attn_mask: expected a shape that broadcasts to [..., H, Tq, Tk] = {full}, got "
                f"{tuple(attn_mask.shape)}"
            )
    return mask._replace(causal_offset=causal_offset(is_causal, num_queries, num_keys))


def _batch_shape(query: Tensor, key: Tensor) -> tuple[int, ...]:
    if query.dim() < 3:
        return ()
    batch = torch.broadcast_shapes(query.shape[:-3], key.shape[:-3])
    heads = query.shape[-3] if query.shape[-3] != 1 else key.shape[-3]
    return (*batch, heads)


def _check_inputs(query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool) -> None:
    shapes = f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"
    if not query.dim() == key.dim() == value.dim() or query.dim() < 2:
        raise ValueError(f"expected query, key and value [..., H, T, d] with equally many dimensions, got {shapes}")
    if not query.dtype == key.dtype == value.dtype or not query.is_floating_point():
        raise ValueError(
            f"expected query, key and value of one float dtype, got {query.dtype}, {key.dtype} and {value.dtype}; "
            "convert them with .to(query.dtype)"
        )
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(
            f"expected queries and keys of one head size, got {query.shape[-1]} and {key.shape[-1]}: {shapes}"
        )
    if key.shape[-2] != value.shape[-2]:
        raise ValueError(f"expected as many keys as values, got {key.shape[-2]} and {value.shape[-2]}: {shapes}")
    if query.dim() >= 3 and query.shape[-3] != key.shape[-3]:
        groups, rest = divmod(query.shape[-3], max(key.shape[-3], 1))
        if not enable_gqa and key.shape[-3] != 1 and query.shape[-3] != 1:
            raise ValueError(
                f"expected as many key heads as query heads, got {query.shape[-3]} and {key.shape[-3]}: {shapes}; "
                "for grouped-query attention pass enable_gqa=True"
            )
        if enable_gqa and (rest or groups == 0):
            raise ValueError(
                f"enable_gqa: expected the query heads to be a multiple of the key heads, got {query.shape[-3]} and "
                f"{key.shape[-3]}"
            )
    try:
        torch.broadcast_shapes(query.shape[:-3], key.shape[:-3], value.shape[:-3])
    except RuntimeError:
        raise ValueError(f"expected batch dimensions that broadcast, got {shapes}") from None


def _repeat_heads(tensor: Tensor, query: Tensor) -> Tensor:
    """Grouped-query attention: each key head serves a group of neighbouring query heads."""
    if query.dim() < 3 or tensor.shape[-3] == query.shape[-3] or query.shape[-3] == 1:
        return tensor
    return tensor.repeat_interleave(query.shape[-3] // tensor.shape[-3], dim=-3)


def _by_head(value: float | Tensor) -> float | Tensor:
    return value[:, None, None] if isinstance(value, Tensor) and value.dim() == 1 else value


def _at_least_float32(tensor: Tensor) -> Tensor:
    return tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.float()


def _without_autocast(device: torch.device) -> contextlib.AbstractContextManager[object]:
    """Autocast would turn our float32 products back into half precision."""
    if torch.amp.is_autocast_available(device.type) and torch.is_autocast_enabled(device.type):
        return torch.autocast(device.type, enabled=False)
    return contextlib.nullcontext()
