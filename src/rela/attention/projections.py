"""The parameters of torch's multi-head attention, and the projections into heads and out of them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear

from rela.attention import kernels
from rela.attention.checks import check_module_sizes, check_placement
from rela.attention.key_values import KeyValues
from rela.attention.masks import Mask
from rela.attention.norms import GatedRMSNorm, LayerNorm, RMSNorm
from rela.attention.precision import autocast_enabled, float32_linear, projected_dtype
from rela.attention.spec import AttentionSpec


class Projections(nn.Module):
    """What :class:`rela.MultiheadAttention` has in common with torch's module, whatever attention is between."""

    in_proj_weight: nn.Parameter | None
    in_proj_bias: nn.Parameter | None
    q_proj_weight: nn.Parameter | None
    k_proj_weight: nn.Parameter | None
    v_proj_weight: nn.Parameter | None
    bias_k: nn.Parameter | None
    bias_v: nn.Parameter | None
    norm: RMSNorm | GatedRMSNorm | LayerNorm | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        attention: AttentionSpec,
        *,
        bias: bool,
        add_bias_kv: bool,
        add_zero_attn: bool,
        kdim: int | None,
        vdim: int | None,
        batch_first: bool,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ) -> None:
        super().__init__()
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        check_module_sizes(embed_dim, num_heads, self.kdim, self.vdim)
        if dtype is not None and not dtype.is_floating_point:
            raise ValueError(f"dtype: expected a float dtype, got {dtype}; leave it out for torch's default")
        self.attention = attention
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.batch_first = batch_first
        self.add_zero_attn = add_zero_attn

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

    def _linear(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """A projection; in float32 where half precision would overflow, forward or backward."""
        if self._needs_float32(projected_dtype(x)):
            return float32_linear(x, weight, bias)
        return F.linear(x, weight, bias)

    def _project_out(self, hidden: Tensor, dtype: torch.dtype) -> Tensor:
        out = self.out_proj
        if self._needs_float32(dtype) and type(out) is NonDynamicallyQuantizableLinear and not has_hooks(out):
            return float32_linear(hidden, out.weight, out.bias).to(dtype)
        return out(hidden.to(dtype))

    def _needs_float32(self, dtype: torch.dtype) -> bool:
        """Heads of pointwise maps have no bound, and without a norm behind them nothing brings them back."""
        return self.norm is None and self.attention.is_pointwise and dtype in (torch.float16, torch.bfloat16)

    def _project(
        self, query: Tensor, key: Tensor, value: Tensor, *, whole: bool
    ) -> tuple[Tensor, KeyValues, Tensor | None]:
        """Queries, keys and values as heads, by as few products as the inputs' identity allows.

        And the bias ``[3, H, d]``, if it is still to be added: as a pass of its own over the packed heads it costs some
        percent of the whole sublayer, so a kernel that can adds it while it reads them,
        unless the heads are wanted ``whole``.
        """
        if query is key and key is value and self.in_proj_weight is not None:
            bias, shifts = self.in_proj_bias, None
            if bias is not None and not whole and self._shifts_fit(query, bias):
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
        plain = self.attention.map == "relu" and not adds_keys and not autocast_enabled(x.device)
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


def has_hooks(module: nn.Module) -> bool:
    """True if someone may look at the module's input after the call."""
    after, before = nn.modules.module._global_forward_hooks, nn.modules.module._global_forward_pre_hooks  # pyright: ignore[reportPrivateUsage]
    return bool(module._forward_hooks or module._forward_pre_hooks or after or before)  # pyright: ignore[reportPrivateUsage]
