"""Multi-head attention: torch's module, with any attention inside. The only attention module of the project."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

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
from rela.attention.functional import Attended, attend, concat_heads
from rela.attention.key_values import KeyValues
from rela.attention.maps import ALPHA_MIN, alpha_from_logit
from rela.attention.masks import Causal, Mask, module_mask
from rela.attention.norms import GatedRMSNorm, RMSNorm, build_norm
from rela.attention.precision import projected_dtype
from rela.attention.projections import Projections, has_hooks
from rela.attention.spec import AttentionSpec, resolve

_OWN: Final = ("norm.", "threshold", "alpha_logit")
_SAVED_OWN: Final = "rela_own_parameters"  # in a state dict's metadata: what it had of them when it was saved
_IN_PLACE_NORMS: Final = (RMSNorm, GatedRMSNorm)
_ALPHA_START: Final = 1.5
_ALPHA_LOGIT_START: Final = math.log((_ALPHA_START - ALPHA_MIN) / (2.0 - _ALPHA_START))


class Observation(NamedTuple):
    """What an observer sees of one forward pass: all ``[B, H, Tq, Tk]``, ``allowed`` merely broadcasts to it.

    Observers that do not ask for the scores may find none.
    """

    scores: Tensor | None
    weights: Tensor
    allowed: Tensor | None


Observer = Callable[["MultiheadAttention", Observation], None]


class _Watcher(NamedTuple):
    """An observer, and whether it wants the scores."""

    observer: Observer
    scores: bool


class MultiheadAttention(Projections):
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

    threshold: nn.Parameter | None
    alpha_logit: nn.Parameter | None

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
        self._observers: OrderedDict[int, _Watcher] = OrderedDict()  # handles hold it weakly: not a plain dict
        self.norm = build_norm(self.attention, embed_dim, self.head_dim, device=device, dtype=dtype)

        def by_head() -> nn.Parameter:
            return nn.Parameter(torch.empty(num_heads, device=device, dtype=dtype))

        self.threshold = by_head() if self.attention.learn_threshold else None
        self.alpha_logit = by_head() if self.attention.map == "entmax" else None
        self._reset_by_head()

    def reset_parameters(self) -> None:
        """Start anew: the projections as torch's module does, then what the attention brings."""
        self.out_proj.reset_parameters()
        self._reset_torch_parameters()
        self.reset_own_parameters()

    def reset_own_parameters(self, device: torch.device | None = None) -> None:
        """Start the parameters that torch's module does not have anew, on ``device`` if they are to move."""
        if self.norm is not None:
            if device is not None:
                self.norm.to_empty(device=device)
            self.norm.reset_parameters()
        for name in ("threshold", "alpha_logit"):
            parameter = getattr(self, name)
            if parameter is not None and device is not None:
                setattr(self, name, nn.Parameter(torch.empty_like(parameter, device=device)))
        self._reset_by_head()

    def _reset_by_head(self) -> None:
        if self.threshold is not None:
            nn.init.constant_(self.threshold, self.attention.threshold)
        if self.alpha_logit is not None:
            nn.init.constant_(self.alpha_logit, _ALPHA_LOGIT_START)

    def own_parameters(self) -> dict[str, nn.Parameter]:
        """The parameters that torch's module does not have, by name."""
        return {name: p for name, p in self.named_parameters() if name.startswith(_OWN)}

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

    # ------------------------------------------------------------------ looking in

    def register_observer(self, observer: Observer, *, scores: bool = True) -> RemovableHandle:
        """Call ``observer(module, Observation(scores, weights, allowed))`` in every forward pass from now on.

        While there are observers the weights are computed in full. Without ``scores``, kernels that can show the
        weights may go on working, which is faster. The handle's ``remove()`` ends it.
        """
        handle = RemovableHandle(self._observers)
        self._observers[handle.id] = _Watcher(observer, scores)
        return handle

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles have no observers: those watch this module, and may hold graphs that cannot be copied."""
        return {**self.__dict__, "_observers": OrderedDict()}

    def share_observers(self, other: MultiheadAttention) -> None:
        """Have the same observers as another module; their handles remove from both."""
        self._observers = other._observers

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
        threshold = self.attention.threshold if self.threshold is None else self.threshold
        observed = bool(self._observers)
        attended = attend(
            query,
            memory.keys,
            memory.values,
            self.attention,
            mask,
            dropout_p=self.dropout if self.training else 0.0,
            threshold=threshold,
            alpha=_ALPHA_START if self.alpha_logit is None else alpha_from_logit(self.alpha_logit),
            need_weights=need_weights or observed,
            need_scores=self._watches_scores(),
            shifts=shifts,
        )
        if observed:
            self._notify(attended, mask, query, memory)
        hidden = concat_heads(attended.output)  # [B, Tq, E]
        if self.norm is not None:
            in_place = type(self.norm) in _IN_PLACE_NORMS and not torch.is_grad_enabled() and not has_hooks(self.norm)
            hidden = self.norm(hidden, inplace=True) if in_place else self.norm(hidden)  # nobody else has it
        output = self._project_out(hidden, dtype)
        weights = attended.weights if need_weights else None
        return output, None if weights is None else weights.to(dtype)

    def _notify(self, attended: Attended, mask: Mask, query: Tensor, memory: KeyValues) -> None:
        assert attended.weights is not None
        allowed = mask.all_allowed(query.shape[-2], memory.length, query.device)
        for watcher in tuple(self._observers.values()):
            watcher.observer(self, Observation(attended.scores, attended.weights, allowed))

    def _watches_scores(self) -> bool:
        return any(watcher.scores for watcher in self._observers.values())

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
