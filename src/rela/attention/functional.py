"""Attention as pure functions, with the signature and the mask conventions of F.scaled_dot_product_attention.

Queries, keys and values are ``[..., H, T, d]`` with any leading batch dimensions, which broadcast; a single head may be
``[T, d]``. A boolean mask is True where a key may be seen; a float mask is added to the scores (-inf, or at most half
the dtype's minimum, forbids). ``is_causal=True`` is torch's: query ``i`` sees the keys up to ``i``;
``is_causal="bottom-right"`` lets the last query see all keys, as decoding with a cache needs. Causal and given masks
may be combined.

Half precision is computed in float32 inside; a row without a valid key gives zeros.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from rela.attention import kernels
from rela.attention.checks import by_head, check_alpha, check_probability, checked_mask
from rela.attention.maps import length_factor, map_scores
from rela.attention.masks import Causal, Mask
from rela.attention.norms import gated_layer_norm, gated_rms_norm, layer_norm, rms_norm
from rela.attention.precision import at_least_float32, without_autocast
from rela.attention.rates import null_rate, sparsity_rate
from rela.attention.spec import AttentionSpec, MapName

__all__ = [
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


# Up to here a float32 score is rounded by less than 1e-3, and so is the weight that is made from it again.
_LARGEST_SDPA_SCORE: Final = 1e4


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
    plain_numbers = type(dropout_p) is float and (scale is None or type(scale) is float) and length_power == 0
    if plain_numbers and isinstance(threshold, float) and (is_causal is False or is_causal is True):
        quick = kernels.quick_relu_attention(
            query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, threshold
        )
        if quick is not None:
            return quick
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
    mask = checked_mask(query, key, value, attn_mask, is_causal, enable_gqa)
    if not callable(norm):
        raise TypeError(f"norm: expected a function or module such as rela.GatedRMSNorm(H * d), got {norm!r}")
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

    ``threshold`` (pointwise maps) and ``alpha`` (``entmax``) may be tensors with one number for each head, ``[H]``;
    ``alpha``, ``topk`` and ``negative_slope`` are read by the maps ``entmax``, ``topk`` and ``leaky`` alone.
    """
    by_tensor = isinstance(threshold, Tensor)
    spec = AttentionSpec(
        map=map,
        scale=scale,
        threshold=0.0 if by_tensor else threshold,
        learn_threshold=by_tensor,
        length_power=length_power,
        topk=topk,
        negative_slope=negative_slope,
    )
    check_alpha(alpha)
    mask = checked_mask(query, key, value, attn_mask, is_causal, enable_gqa)
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
    shifts: Tensor | None = None,
) -> Attended:
    """The core of every attention here, from checked inputs to the heads' outputs, before norm and concatenation.

    Half-precision inputs give float32 outputs: the norm behind wants them unrounded. ``spec.norm``,
    ``spec.threshold`` and ``spec.learn_threshold`` are the caller's business. ``shifts`` ``[3, H, d]``, only without
    gradients, are added to query, key and value: the bias of their projection, which a kernel may add as it reads.
    """
    check_probability("dropout_p", dropout_p)
    scale = spec.scale if spec.scale is not None else 1.0 / math.sqrt(max(query.shape[-1], 1))
    threshold, alpha = by_head("threshold", threshold, query), by_head("alpha", alpha, query)
    with without_autocast(query.device):
        only_output = not need_weights and not need_scores
        may_show = not need_scores and not torch.is_grad_enabled()  # a kernel may show the weights it had, by the way
        fits = spec.map == "relu" and (only_output or may_show)
        kernel = _relu_kernel(query, key, value, mask, threshold) if fits else None
        if kernel is None:  # another may take them once they are wide, and of one number of heads
            query, key, value = (at_least_float32(t) for t in (query, key, value))
            key, value = (_repeat_heads(t, query) for t in (key, value))
            kernel = _relu_kernel(query, key, value, mask, threshold) if fits else None
        if kernel is not None and need_weights and not kernel.gives_weights:
            kernel = None
        if mask.bias is not None:
            mask = mask._replace(bias=at_least_float32(mask.bias) if kernel else mask.bias.to(query.dtype))
        if shifts is not None and (kernel is None or not kernel.takes_shifts):
            query, key, value = (t + shift.unsqueeze(1) for t, shift in zip((query, key, value), shifts, strict=True))
            shifts = None
        if kernel is not None:
            output, weights = kernels.relu_attention(
                kernel,
                query,
                key,
                value,
                mask,
                scale=scale,
                threshold=threshold,
                dropout_p=dropout_p,
                shifts=shifts,
                need_weights=need_weights,
            )
            if spec.length_power != 0:
                num_valid = mask.num_valid(query.shape[-2], key.shape[-2], query.device)
                factor = length_factor(spec.length_power, num_valid, output.dtype)
                output, weights = output * factor, None if weights is None else weights * factor
            return Attended(output, weights, None)
        if only_output and spec.map == "softmax" and _sdpa_fits(query, key, value, scale):
            return Attended(_softmax_output(query, key, value, mask, scale, dropout_p), None, None)
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
    assert attn_mask is not None
    attn_mask = attn_mask[(None,) * (2 - attn_mask.dim())]
    output = F.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, scale=scale)
    if allowed is None:
        return output
    return output.masked_fill(~allowed.any(-1, keepdim=True), 0.0)


def _sdpa_fits(query: Tensor, key: Tensor, value: Tensor, scale: float) -> bool:
    """torch's own attention works in eager mode and under torch.compile, but not under every transform.

    Its backward pass on the CPU makes the weights again as ``exp(score - log of the row's sum)``, where the rounding of
    a large score goes through exp: at inputs of 1e4 gradients are NaN, or wrong by any factor.
    """
    if torch.compiler.is_compiling():
        return True
    if kernels.traced_or_transformed():
        return False
    wants_gradients = torch.is_grad_enabled() and any(t.requires_grad for t in (query, key, value))
    if not wants_gradients or query.device.type != "cpu" or query.numel() == 0 or key.numel() == 0:
        return True
    with torch.no_grad():
        largest = query.abs().amax() * key.abs().amax() * (query.shape[-1] * abs(scale))
        return bool(largest <= _LARGEST_SDPA_SCORE)


def _relu_kernel(
    query: Tensor, key: Tensor, value: Tensor, mask: Mask, threshold: float | Tensor
) -> kernels.Kernel | None:
    """A kernel that takes this call; None: the plain formulas do."""
    if query.dim() != 4:
        return None
    learned_bias = mask.bias is not None and mask.bias.requires_grad and torch.is_grad_enabled()
    same_batch = query.shape[0] == key.shape[0] and key.shape[:2] == value.shape[:2]
    by_head = not isinstance(threshold, Tensor) or threshold.shape == (query.shape[1], 1, 1)
    if learned_bias or not same_batch or not by_head:
        return None
    return kernels.attention_kernel(query, key, value)


def _repeat_heads(tensor: Tensor, query: Tensor) -> Tensor:
    """Grouped-query attention: each key head serves a group of neighbouring query heads."""
    if query.dim() < 3 or tensor.shape[-3] == query.shape[-3] or query.shape[-3] == 1:
        return tensor
    return tensor.repeat_interleave(query.shape[-3] // tensor.shape[-3], dim=-3)
