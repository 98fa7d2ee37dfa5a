"""Multi-head attention: torch's module, with any attention inside. The only attention module of the project."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor

from rela._warn import warn
from rela.attention import nested
from rela.attention.checks import (
    check_batched,
    check_device,
    check_memory,
    check_probability,
    check_query,
    check_sizes,
    check_tensors,
    check_unbatched_padding,
)
from rela.attention.heads import Heads
from rela.attention.key_values import KeyValues
from rela.attention.masks import Causal, Mask, module_mask
from rela.attention.precision import projected_dtype
from rela.attention.projections import Projections
from rela.attention.spec import AttentionSpec, resolve

_SAVED_OWN: Final = "rela_own_parameters"  # in a state dict's metadata: what it had of them when it was saved


class MultiheadAttention(Heads, Projections):
    """``torch.nn.MultiheadAttention`` with a choice of attention: arguments, returns and state-dict names are torch's.

    New are ``attention`` (a preset's name, ``map+norm``, or an :class:`AttentionSpec`), the parameters that it brings
    (``norm.*``, ``threshold``, ``alpha_logit``), and the forms that decoding needs: :meth:`project_keys_values` once
    for a memory, :meth:`attend` to it any number of times, :meth:`step` with a cache that grows.

    Different from torch on purpose: returned weights are those before dropout; a query without a valid key gives
    zeros where torch may give NaN; ``is_causal=True`` needs no ``attn_mask`` and, if there is one, both apply; every
    query sees the extra keys of ``add_bias_kv`` and ``add_zero_attn``, causal or not.

    >>> attention = rela.MultiheadAttention(512, 8, attention="rela-g", batch_first=True)
    >>> output, weights = attention(x, x, x)
    """

    # nn.TransformerEncoderLayer asks this before it takes its fused softmax path, which would never call us.
    _qkv_same_embed_dim: bool = False

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        attention: str | AttentionSpec = "rela-g",
    ) -> None:
        check_probability("dropout", dropout)
        super().__init__(
            embed_dim,
            num_heads,
            resolve(attention),
            bias=bias,
            add_bias_kv=add_bias_kv,
            add_zero_attn=add_zero_attn,
            kdim=kdim,
            vdim=vdim,
            batch_first=batch_first,
            device=device,
            dtype=dtype,
        )
        self.dropout = dropout
        self._make_own_parameters(num_heads, self.head_dim, device, dtype)

    def reset_parameters(self) -> None:
        """Start anew: the projections as torch's module does, then what the attention brings."""
        self.out_proj.reset_parameters()
        self._reset_torch_parameters()
        self.reset_own_parameters()

    def extra_repr(self) -> str:
        return f"{self.embed_dim}, {self.num_heads}, attention={self.attention.name!r}, dropout={self.dropout}"

    # ------------------------------------------------------------------ the drop-in form

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: Causal = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from ``query`` to ``key``: ``(output, weights or None)``.

        Shapes as in torch: ``[T, B, E]``, with batch_first ``[B, T, E]``, unbatched ``[T, E]``; nested tensors with
        batch_first. ``key_padding_mask`` ``[B, Tk]`` and ``attn_mask`` ``[Tq, Tk]`` or ``[B*H, Tq, Tk]`` are True
        where attention is *not* allowed, or floats that are added to the scores. ``is_causal`` is True (from the top
        left, as in torch) or ``"bottom-right"`` (the last query sees every key).
        """
        check_tensors(query=query, key=key, value=value)
        if query.is_nested or key.is_nested or value.is_nested:
            return self._forward_nested(query, key, value, key_padding_mask, need_weights, attn_mask, is_causal)
        check_batched(query, key, value)
        self._check_placement(query=query, key=key, value=value)
        batched = query.dim() == 3
        query, key, value = self._to_batch_first(query, key, value, batched)
        check_sizes(query, key, value, (self.embed_dim, self.kdim, self.vdim), self.batch_first)
        projected, new, shifts = self._project(query, key, value, whole=need_weights or self._watches_scores())
        if not batched and key_padding_mask is not None:
            check_unbatched_padding(key_padding_mask, key.shape[1])
            key_padding_mask = key_padding_mask.unsqueeze(0)
        mask = self._mask(key_padding_mask, attn_mask, is_causal, query, key.shape[1])
        output, weights = self._attend(projected, new, mask, need_weights, projected_dtype(query), shifts)
        if weights is not None:
            weights = weights.mean(1) if average_attn_weights else weights
        if not batched:
            return output.squeeze(0), None if weights is None else weights.squeeze(0)
        return output if self.batch_first else output.transpose(0, 1), weights

    # ------------------------------------------------------------------ the forms for decoding, always batch first

    def project_keys_values(self, key: Tensor, value: Tensor | None = None) -> KeyValues:
        """Project a memory ``[B, Tk, E]`` once, to :meth:`attend` to it many times."""
        value = key if value is None else value
        check_tensors(key=key, value=value)
        self._check_placement(key=key, value=value)
        if (
            key.dim() != 3
            or key.shape[:2] != value.shape[:2]
            or (key.shape[-1], value.shape[-1]) != (self.kdim, self.vdim)
        ):
            raise ValueError(
                f"expected key [B, T, {self.kdim}] and value [B, T, {self.vdim}], got {tuple(key.shape)} and "
                f"{tuple(value.shape)}; here the batch comes first, whatever batch_first says"
            )
        return self._keys_values(key, value)

    def attend(
        self,
        query: Tensor,
        memory: KeyValues,
        key_padding_mask: Tensor | None = None,
        attn_mask: Tensor | None = None,
        is_causal: Causal = False,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from ``query`` ``[B, Tq, E]`` to keys and values that are projected already.

        Masks as in :meth:`forward`; the weights, on request, of every head: ``[B, H, Tq, Tk]``.
        """
        check_query(query, self.embed_dim)
        self._check_placement(query=query)
        check_memory(memory, query, self.num_heads, self.head_dim)
        weights, biases = self._in_projections()
        heads = self._split_heads(self._linear(query, weights[0], biases[0]))
        mask = self._mask(key_padding_mask, attn_mask, is_causal, query, memory.length)
        return self._attend(heads, memory, mask, need_weights, projected_dtype(query))

    def step(
        self,
        query: Tensor,
        cache: KeyValues | None = None,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None, KeyValues]:
        """Causal self-attention of new positions ``[B, T, E]`` to themselves and all that are in the cache.

        Returns output, weights on request, and the longer cache. Feeding a sentence in pieces equals one causal
        forward pass over the whole.
        """
        if (self.kdim, self.vdim) != (self.embed_dim, self.embed_dim):
            raise ValueError(
                f"step: expected kdim = vdim = embed_dim = {self.embed_dim}, since it is self-attention, got "
                f"{self.kdim} and {self.vdim}; for a memory of another size use project_keys_values and attend"
            )
        check_query(query, self.embed_dim)
        self._check_placement(query=query)
        if cache is not None:
            check_memory(cache, query, self.num_heads, self.head_dim)
        new = self.project_keys_values(query)
        memory = new if cache is None else cache.append(new)
        output, weights = self.attend(
            query, memory, key_padding_mask, is_causal="bottom-right", need_weights=need_weights
        )
        return output, weights, memory

    # ------------------------------------------------------------------ inside

    def _attend(
        self,
        query: Tensor,
        memory: KeyValues,
        mask: Mask,
        need_weights: bool,
        dtype: torch.dtype,
        shifts: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """From heads, to which ``shifts`` are still to be added, to the projected output of ``dtype``."""
        memory, mask = self._with_extra_keys(memory, mask, query)
        dropout_p = self.dropout if self.training else 0.0
        hidden, weights = self._attend_heads(query, memory, mask, dropout_p, need_weights, shifts)
        return self._project_out(hidden, dtype), None if weights is None else weights.to(dtype)

    def _mask(
        self, key_padding_mask: Tensor | None, attn_mask: Tensor | None, is_causal: Causal, query: Tensor, num_keys: int
    ) -> Mask:
        for name, mask in (("key_padding_mask", key_padding_mask), ("attn_mask", attn_mask)):
            if mask is not None:
                check_device(name, mask, query)
        sizes = (query.shape[0], self.num_heads, query.shape[1], num_keys)
        return module_mask(key_padding_mask, attn_mask, is_causal, sizes)

    def _forward_nested(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None,
        need_weights: bool,
        attn_mask: Tensor | None,
        is_causal: Causal,
    ) -> tuple[Tensor, None]:
        """Nested tensors say by themselves where their padding would be."""
        if not self.batch_first or not (query.is_nested and key.is_nested and value.is_nested):
            raise ValueError("nested tensors: expected batch_first=True and query, key and value all nested")
        if key_padding_mask is not None or attn_mask is not None or need_weights:
            raise ValueError(
                "nested tensors: expected no key_padding_mask, no attn_mask and need_weights=False; pass padded "
                "tensors (torch.nested.to_padded_tensor) to use them"
            )
        return nested.run_padded(self.forward, query, key, value, is_causal, self.num_heads), None

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        metadata = getattr(destination, "_metadata", {}).get(prefix[:-1])
        if metadata is not None:
            metadata[_SAVED_OWN] = list(self.own_parameters())

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """A state dict of torch's module has none of our own parameters: they stay as they are, and we say so.

        One of ours that has lost them is not that: strict loading refuses it.
        """
        own = {f"{prefix}{name}": parameter.detach() for name, parameter in self.own_parameters().items()}
        is_attention = f"{prefix}out_proj.weight" in state_dict
        if own and is_attention and not local_metadata.get(_SAVED_OWN) and not own.keys() & state_dict.keys():
            names = ", ".join(key.removeprefix(prefix) for key in own)
            warn(
                f"the state dict has no {names} for {type(self).__name__}, as if it were one of "
                "torch.nn.MultiheadAttention; they keep their present values"
            )
            state_dict.update(own)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )
