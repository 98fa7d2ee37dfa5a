"""Multi-head attention: torch's module, with any attention inside. The only attention module of the project."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear
from torch.utils.hooks import RemovableHandle

from rela._warn import warn
from rela.attention import kernels, nested
from rela.attention.checks import (
    check_batched,
    check_device,
    check_memory,
    check_module_sizes,
    check_placement,
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
from rela.attention.precision import autocast_enabled, float32_linear, projected_dtype
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


class MultiheadAttention(nn.Module):
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

    in_proj_weight: nn.Parameter | None
    in_proj_bias: nn.Parameter | None
    q_proj_weight: nn.Parameter | None
    k_proj_weight: nn.Parameter | None
    v_proj_weight: nn.Parameter | None
    bias_k: nn.Parameter | None
    bias_v: nn.Parameter | None
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
        super().__init__()
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        check_module_sizes(embed_dim, num_heads, self.kdim, self.vdim)
        check_probability("dropout", dropout)
        if dtype is not None and not dtype.is_floating_point:
            raise ValueError(f"dtype: expected a float dtype, got {dtype}; leave it out for torch's default")
        self.attention = resolve(attention)
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.add_zero_attn = add_zero_attn
        self._observers: OrderedDict[int, _Watcher] = OrderedDict()  # handles hold it weakly: not a plain dict

        def parameter(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(shape, device=device, dtype=dtype))

        packed = self.kdim == embed_dim and self.vdim == embed_dim
        self.in_proj_weight = parameter(3 * embed_dim, embed_dim) if packed else None
        self.q_proj_weight = None if packed else parameter(embed_dim, embed_dim)
        self.k_proj_weight = None if packed else parameter(embed_dim, self.kdim)
        self.v_proj_weight = None if packed else parameter(embed_dim, self.vdim)
        self.in_proj_bias = parameter(3 * embed_dim) if bias else None
        # torch's module has the same: quantize_dynamic leaves it alone.
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        self.bias_k = parameter(1, 1, embed_dim) if add_bias_kv else None
        self.bias_v = parameter(1, 1, embed_dim) if add_bias_kv else None
        self._reset_torch_parameters()
        self.norm = build_norm(self.attention, embed_dim, self.head_dim, device=device, dtype=dtype)
        self.threshold = parameter(num_heads) if self.attention.learn_threshold else None
        self.alpha_logit = parameter(num_heads) if self.attention.map == "entmax" else None
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

    def _reset_torch_parameters(self) -> None:
        """In torch's order: with the same seed our projections start where torch's do."""
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                nn.init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            nn.init.zeros_(self.in_proj_bias)
            nn.init.zeros_(self.out_proj.bias)
        for extra in (self.bias_k, self.bias_v):
            if extra is not None:
                nn.init.xavier_normal_(extra)

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
        projected, new, shifts = self._project(query, key, value, need_weights)
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
            in_place = type(self.norm) in _IN_PLACE_NORMS and not torch.is_grad_enabled() and not _has_hooks(self.norm)
            hidden = self.norm(hidden, inplace=True) if in_place else self.norm(hidden)  # nobody else has it
        output = self._project_out(hidden, dtype)
        weights = attended.weights if need_weights else None
        return output, None if weights is None else weights.to(dtype)

    def _linear(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """A projection; in float32 where half precision would overflow, forward or backward."""
        if self._needs_float32(projected_dtype(x)):
            return float32_linear(x, weight, bias)
        return F.linear(x, weight, bias)

    def _project_out(self, hidden: Tensor, dtype: torch.dtype) -> Tensor:
        out = self.out_proj
        if self._needs_float32(dtype) and type(out) is NonDynamicallyQuantizableLinear and not _has_hooks(out):
            return float32_linear(hidden, out.weight, out.bias).to(dtype)
        return out(hidden.to(dtype))

    def _needs_float32(self, dtype: torch.dtype) -> bool:
        """Heads of pointwise maps have no bound, and without a norm behind them nothing brings them back."""
        return self.norm is None and self.attention.is_pointwise and dtype in (torch.float16, torch.bfloat16)

    def _notify(self, attended: Attended, mask: Mask, query: Tensor, memory: KeyValues) -> None:
        assert attended.weights is not None
        allowed = mask.all_allowed(query.shape[-2], memory.length, query.device)
        for watcher in tuple(self._observers.values()):
            watcher.observer(self, Observation(attended.scores, attended.weights, allowed))

    def _watches_scores(self) -> bool:
        return any(watcher.scores for watcher in self._observers.values())

    def _project(
        self, query: Tensor, key: Tensor, value: Tensor, need_weights: bool
    ) -> tuple[Tensor, KeyValues, Tensor | None]:
        """Queries, keys and values as heads, by as few products as the inputs' identity allows.

        And the bias ``[3, H, d]``, if it is still to be added: as a pass of its own over the packed heads it costs some
        percent of the whole sublayer, so a kernel that can adds it while it reads them.
        """
        if query is key and key is value and self.in_proj_weight is not None:
            bias, shifts = self.in_proj_bias, None
            if bias is not None and not need_weights and self._shifts_fit(query, bias):
                bias, shifts = None, bias.view(3, self.num_heads, self.head_dim)
            packed = self._linear(query, self.in_proj_weight, bias)
            heads = packed.unflatten(-1, (3, self.num_heads, self.head_dim)).permute(2, 0, 3, 1, 4)
            queries, keys, values = heads.unbind(0)
            return queries, KeyValues(keys, values), shifts
        weights, biases = self._in_projections()
        queries = self._split_heads(self._linear(query, weights[0], biases[0]))
        return queries, self._keys_values(key, value), None

    def _keys_values(self, key: Tensor, value: Tensor) -> KeyValues:
        if value is key and self.in_proj_weight is not None:
            bias = None if self.in_proj_bias is None else self.in_proj_bias[self.embed_dim :]
            both = self._linear(key, self.in_proj_weight[self.embed_dim :], bias)
            return KeyValues(*(self._split_heads(part) for part in both.chunk(2, dim=-1)))
        weights, biases = self._in_projections()
        return KeyValues(
            self._split_heads(self._linear(key, weights[1], biases[1])),
            self._split_heads(self._linear(value, weights[2], biases[2])),
        )

    def _shifts_fit(self, x: Tensor, bias: Tensor) -> bool:
        adds_keys = self.bias_k is not None or self.add_zero_attn
        plain = (
            self.attention.map == "relu"
            and not adds_keys
            and not self._watches_scores()
            and not autocast_enabled(x.device)
        )
        return plain and kernels.takes_shifts(x, bias, self.head_dim)

    def _in_projections(self) -> tuple[tuple[Tensor, ...], tuple[Tensor | None, ...]]:
        if self.in_proj_weight is not None:
            weights = self.in_proj_weight.chunk(3)
        else:
            assert self.q_proj_weight is not None
            assert self.k_proj_weight is not None
            assert self.v_proj_weight is not None
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        biases = (None, None, None) if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        return weights, biases

    def _split_heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)

    def _with_extra_keys(self, memory: KeyValues, mask: Mask, query: Tensor) -> tuple[KeyValues, Mask]:
        """Add the learned key of ``add_bias_kv`` and the zero key of ``add_zero_attn``, which every query may see."""
        num_extra = (self.bias_k is not None) + self.add_zero_attn
        if num_extra == 0:
            return memory, mask
        allowed = mask.all_allowed(query.shape[-2], memory.length, query.device)
        rows = memory.keys.shape[0]
        if self.bias_k is not None and self.bias_v is not None:
            extra = (self._split_heads(p.expand(rows, 1, -1)).to(query.dtype) for p in (self.bias_k, self.bias_v))
            memory = memory.append(KeyValues(*extra))
        if self.add_zero_attn:
            zero = memory.keys.new_zeros(rows, self.num_heads, 1, self.head_dim)
            memory = memory.append(KeyValues(zero, zero))
        return memory, Mask(
            None if allowed is None else F.pad(allowed, (0, num_extra), value=True),
            None if mask.bias is None else F.pad(mask.bias, (0, num_extra)),
        )

    def _mask(
        self, key_padding_mask: Tensor | None, attn_mask: Tensor | None, is_causal: Causal, query: Tensor, num_keys: int
    ) -> Mask:
        for name, mask in (("key_padding_mask", key_padding_mask), ("attn_mask", attn_mask)):
            if mask is not None:
                check_device(name, mask, query)
        sizes = (query.shape[0], self.num_heads, query.shape[1], num_keys)
        return module_mask(key_padding_mask, attn_mask, is_causal, sizes)

    def _to_batch_first(
        self, query: Tensor, key: Tensor, value: Tensor, batched: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        """``[B, T, E]`` views; inputs that are one object stay one object."""
        if batched and self.batch_first:
            return query, key, value

        def turn(x: Tensor) -> Tensor:
            return x.transpose(0, 1) if batched else x.unsqueeze(0)

        turned_query = turn(query)
        turned_key = turned_query if key is query else turn(key)
        return turned_query, turned_key, turned_key if value is key else turn(value)

    def _check_placement(self, **inputs: Tensor) -> None:
        weight = self.q_proj_weight if self.in_proj_weight is None else self.in_proj_weight
        assert weight is not None
        check_placement(weight, inputs)

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


def _has_hooks(module: nn.Module) -> bool:
    """True if someone may look at the module's input after the call."""
    after, before = nn.modules.module._global_forward_hooks, nn.modules.module._global_forward_pre_hooks  # pyright: ignore[reportPrivateUsage]
    return bool(module._forward_hooks or module._forward_pre_hooks or after or before)  # pyright: ignore[reportPrivateUsage]
