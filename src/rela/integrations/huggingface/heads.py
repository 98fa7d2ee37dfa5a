"""The attention function that transformers calls, and the module that keeps what a converted attention brings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import torch
from torch import Tensor, nn
from transformers.utils import output_capturing

from rela.attention.checks import checked_mask
from rela.attention.functional import attend
from rela.attention.heads import Heads
from rela.attention.key_values import KeyValues
from rela.attention.masks import Causal, Mask
from rela.attention.spec import PRESETS, AttentionSpec, resolve
from rela.integrations.huggingface.internals import internal
from rela.model.directory import CONVERTED_KEY

ATTRIBUTE: Final = "rela"
"""Under this name an attention module of transformers has its `ConvertedHeads`; so do its weights in checkpoints."""

NAMES: Final = frozenset({ATTRIBUTE, *(name.replace("-", "_") for name in PRESETS if name != "softmax")})
"""Values of attn_implementation: ``rela`` takes whatever each module was converted to."""

IMPLEMENTATION: Final = ATTRIBUTE
"""The attn_implementation of converted models."""

_SOFTMAX: Final = resolve("softmax")
_REFUSED: Final = {
    "softcap": "a soft cap on scores",
    "s_aux": "attention sinks",
    "sinks": "attention sinks",
    "indices": "a choice of keys",
    "block_indices": "a choice of keys",
    "cache": "paged attention",
}


def attention_by_name(name: str | None) -> AttentionSpec | None:
    """What an attn_implementation computes wherever it stands; None for `rela`, and for those of transformers."""
    return PRESETS[name.replace("_", "-")] if name in NAMES and name != IMPLEMENTATION else None


def is_converted(config: object) -> bool:
    """Whether a config is of a converted model, or of a part of one."""
    return getattr(config, CONVERTED_KEY, None) is not None


class ConvertedHeads(Heads):
    """What lies between the projections of an attention of transformers, once it is converted."""

    def __init__(
        self,
        attention: AttentionSpec,
        num_heads: int,
        head_dim: int,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.attention = attention
        self.num_heads = num_heads
        self.head_dim = head_dim
        self._make_own_parameters(num_heads, head_dim, device, dtype)

    def extra_repr(self) -> str:
        return f"{self.num_heads}, {self.head_dim}, attention={self.attention.name!r}"

    def forward(
        self,
        query: Tensor,
        memory: KeyValues,
        mask: Mask,
        *,
        dropout_p: float = 0.0,
        scale: float | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Heads ``[B, H, Tq, d]`` to ``[B, Tq, H * d]``, and the weights on request."""
        hidden, weights = self._attend_heads(query, memory, mask, dropout_p, need_weights, scale=scale)
        return hidden.to(query.dtype), None if weights is None else weights.to(query.dtype)


def forward_function(spec: AttentionSpec | None) -> Callable[..., tuple[Tensor, Tensor | None]]:
    """For transformers' AttentionInterface. None: whatever each module was converted to, softmax where it was not."""

    def forward(
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,
        scaling: float | None = None,
        dropout: float = 0.0,
        is_causal: bool | None = None,
        position_bias: Tensor | None = None,
        **others: Any,
    ) -> tuple[Tensor, Tensor | None]:
        for name, what in _REFUSED.items():
            if others.get(name) is not None:
                raise ValueError(f"{name}: expected an attention without {what}, which ReLA does not have")
        causal = _causality(module, query, attention_mask, is_causal)
        mask = checked_mask(query, key, value, _with_bias(attention_mask, position_bias), causal, True)
        need_weights = bool(others.get("output_attentions")) or _weights_are_collected()
        heads = getattr(module, ATTRIBUTE, None)
        if heads is not None:
            if spec is not None and heads.attention != spec:
                raise ValueError(
                    f"expected a model converted to {spec.name}, as attn_implementation says, got {heads.attention}; "
                    f"use model.set_attn_implementation({ATTRIBUTE!r}), which takes whatever a model was converted to"
                )
            hidden, weights = heads(
                query, KeyValues(key, value), mask, dropout_p=dropout, scale=scaling, need_weights=need_weights
            )
            return hidden.unflatten(-1, (query.shape[1], -1)), weights
        if spec is None and not is_converted(getattr(module, "config", None)):
            raise ValueError(
                f"attn_implementation: expected a model that was converted for {IMPLEMENTATION!r}, got "
                f"{type(module).__name__} of one that was not, which would compute softmax; use "
                'rela.integrations.huggingface.convert(model, "rela-g"), or leave attn_implementation out'
            )
        return _bare(module, spec or _SOFTMAX, query, key, value, mask, scaling, dropout, need_weights)

    return forward


def _bare(
    module: nn.Module,
    spec: AttentionSpec,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Mask,
    scaling: float | None,
    dropout: float,
    need_weights: bool,
) -> tuple[Tensor, Tensor | None]:
    """In a module that was not converted: only what brings no parameters."""
    if spec.norm != "none" or spec.learn_threshold or spec.map == "entmax":
        raise ValueError(
            f"{type(module).__name__}: expected the parameters that {spec.name} brings, got none; make them with "
            f'rela.integrations.huggingface.convert(model, "{spec.name}"), not with attn_implementation alone'
        )
    scaled = spec if scaling is None else replace(spec, scale=scaling)
    attended = attend(query, key, value, scaled, mask, dropout_p=dropout, need_weights=need_weights)
    weights = attended.weights if need_weights else None
    return (
        attended.output.transpose(1, 2).contiguous().to(query.dtype),
        None if weights is None else weights.to(query.dtype),
    )


def _causality(module: nn.Module, query: Tensor, mask: Tensor | None, is_causal: bool | None) -> Causal:
    """Masks say where a query may look. Where there is none, an attention that is causal by itself stays so."""
    if mask is not None or query.shape[2] == 1:
        return False
    causal = bool(getattr(module, "is_causal", False)) if is_causal is None else is_causal
    return "bottom-right" if causal else False


def _with_bias(mask: Tensor | None, bias: Tensor | None) -> Tensor | None:
    """Masks are booleans, True where a key may be seen, or floats to be added; T5 has a bias as well."""
    if bias is None or mask is None:
        return mask if bias is None else bias
    if mask.dtype == torch.bool:
        return bias.masked_fill(~mask, -torch.inf)
    return bias + mask  # what forbids is so low that no bias changes it


def _weights_are_collected() -> bool:
    """Whether the model was called with output_attentions: transformers collects them by hooks."""
    found = internal(output_capturing, "_active_collector", "which says whether weights are asked for").get()
    return bool(found) and any("attentions" in key for key in found)
