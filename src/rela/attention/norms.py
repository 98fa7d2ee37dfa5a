"""Norms over the concatenated heads: what keeps rectified attention steady.

Statistics are computed in float32 at least. A null row (all zeros) comes out of the RMS norms as zeros, with
finite gradients.
"""

from __future__ import annotations

import math
import numbers
from typing import Literal

import torch
from torch import Tensor, nn

from rela.attention import kernels
from rela.attention.spec import AttentionSpec

Init = Literal["ones", "xavier"]


def rms_norm(x: Tensor, weight: Tensor, eps: float = 1e-6, *, inplace: bool = False) -> Tensor:
    """``x / sqrt(mean(x^2) + eps) * weight`` over the last dimension.

    ``inplace`` allows to overwrite x, which saves memory; it is refused where gradients are recorded.
    """
    wide = _checked(x, eps, weight, inplace=inplace)
    kernel = kernels.norm_kernel(wide, weight)
    if kernel is not None:
        return kernel.norm(wide, weight, None, eps, formula=_rms_norm, inplace=inplace).to(x.dtype)
    return _rms_norm(wide, weight, None, eps).to(x.dtype)


def gated_rms_norm(x: Tensor, weight: Tensor, gate: Tensor, eps: float = 1e-6, *, inplace: bool = False) -> Tensor:
    """``sigmoid(gate * x) * rms_norm(x, weight)``: the gate reads ``x`` before it is normalised.

    ``inplace`` allows to overwrite x, which saves memory; it is refused where gradients are recorded.
    """
    wide = _checked(x, eps, weight, gate, inplace=inplace)
    kernel = kernels.norm_kernel(wide, weight, gate)
    if kernel is not None:
        return kernel.norm(wide, weight, gate, eps, formula=_rms_norm, inplace=inplace).to(x.dtype)
    return _rms_norm(wide, weight, gate, eps).to(x.dtype)


def gated_layer_norm(x: Tensor, weight: Tensor, bias: Tensor, gate: Tensor, eps: float = 1e-6) -> Tensor:
    """``sigmoid(gate * x) * layer_norm(x)``; it re-centres, so a null row does not stay zero."""
    wide = _checked(x, eps, weight, bias, gate)
    return (torch.sigmoid(gate * wide) * layer_norm(wide, weight, bias, eps)).to(x.dtype)


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-6) -> Tensor:
    """torch's LayerNorm over the last dimension, safe for rows whose squares overflow."""
    wide = _checked(x, eps, weight, bias)
    centred = wide - wide.mean(-1, keepdim=True)
    return (_unit_rms(centred, eps) * weight + bias).to(x.dtype)


def _rms_norm(x: Tensor, weight: Tensor, gate: Tensor | None, eps: float) -> Tensor:
    normed = _unit_rms(x, eps) * weight
    return normed if gate is None else torch.sigmoid(gate * x) * normed


def _unit_rms(x: Tensor, eps: float) -> Tensor:
    """``x / sqrt(mean(x^2) + eps)``, whatever the size of x: large rows are scaled down before they are squared."""
    factor = x.detach().abs().amax(-1, keepdim=True).clamp_min(1.0).reciprocal()
    small = x * factor
    return small * torch.rsqrt(small.square().mean(-1, keepdim=True) + eps * factor.square())


def _checked(x: Tensor, eps: float, *parameters: Tensor, inplace: bool = False) -> Tensor:
    """``x`` in float32 at least, after it, eps and the parameters have been checked."""
    if not isinstance(x, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"x: expected a torch.Tensor, got {type(x).__name__}; make one with torch.as_tensor")
    _check_eps(eps)
    if inplace and torch.is_grad_enabled() and any(t.requires_grad for t in (x, *parameters)):
        raise ValueError("inplace: expected a call without gradients, got one that records them; use torch.no_grad()")
    if not x.is_floating_point():
        raise ValueError(f"x: expected a float dtype, got {x.dtype}; convert it with x.float()")
    size = x.shape[-1:]
    if any(parameter.shape != size for parameter in parameters):
        shapes = ", ".join(str(tuple(parameter.shape)) for parameter in parameters)
        raise ValueError(
            f"expected a last dimension of the size of the norm's parameters, {shapes}, got x {tuple(x.shape)}; "
            "concatenate the heads before the norm"
        )
    return x if x.dtype in (torch.float32, torch.float64) else x.float()


def _check_eps(eps: float) -> None:
    if not eps >= 1e-6:
        raise ValueError(f"eps: expected at least 1e-6 (smaller ones explode gradients at null rows), got {eps}")


class _Norm(nn.Module):
    """What the norms share: a size, a gain and an eps."""

    def __init__(self, dim: int, eps: float, device: torch.device | str | None, dtype: torch.dtype | None) -> None:
        super().__init__()
        if not isinstance(dim, numbers.Integral) or dim < 1:
            raise ValueError(f"dim: expected the size of the last dimension, a whole number, at least 1, got {dim!r}")
        _check_eps(eps)
        self.dim = dim
        self.eps = eps
        self.weight = nn.Parameter(torch.empty(dim, device=device, dtype=dtype))

    def extra_repr(self) -> str:
        return f"{self.dim}, eps={self.eps}"


class RMSNorm(_Norm):
    """Root mean square norm. ``init="xavier"`` is ReLA-i's: gains from U(-sqrt(3/fan), sqrt(3/fan)), fan = dim.

    >>> rela.RMSNorm(512, init="xavier")(torch.randn(2, 7, 512))
    """

    def __init__(
        self,
        dim: int,
        *,
        init: Init = "ones",
        fan: int | None = None,
        eps: float = 1e-6,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(dim, eps, device, dtype)
        if init not in ("ones", "xavier"):
            raise ValueError(f"init: expected 'ones' or 'xavier', got {init!r}")
        if fan is not None and fan < 1:
            raise ValueError(f"fan: expected at least 1, got {fan}")
        if fan is not None and init == "ones":
            raise ValueError("fan: only init='xavier' uses it; leave it out")
        self.init = init
        self.fan = fan
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Start anew."""
        if self.init == "ones":
            nn.init.ones_(self.weight)
        else:
            xavier_vector_(self.weight, self.fan)

    def forward(self, x: Tensor, *, inplace: bool = False) -> Tensor:
        return rms_norm(x, self.weight, self.eps, inplace=inplace)


class GatedRMSNorm(_Norm):
    """ReLA-g's norm: ``sigmoid(gate * x) * RMSNorm(x)``. Gains start at 1, the gate near 0.5."""

    def __init__(
        self,
        dim: int,
        *,
        eps: float = 1e-6,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(dim, eps, device, dtype)
        self.gate = nn.Parameter(torch.empty(dim, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Start anew."""
        nn.init.ones_(self.weight)
        xavier_vector_(self.gate)

    def forward(self, x: Tensor, *, inplace: bool = False) -> Tensor:
        return gated_rms_norm(x, self.weight, self.gate, self.eps, inplace=inplace)


class LayerNorm(_Norm):
    """Layer norm with bias, optionally gated like ReLA-g (the paper's row 8)."""

    def __init__(
        self,
        dim: int,
        *,
        gated: bool = False,
        eps: float = 1e-6,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(dim, eps, device, dtype)
        self.bias = nn.Parameter(torch.empty(dim, device=device, dtype=dtype))
        self.gate = nn.Parameter(torch.empty(dim, device=device, dtype=dtype)) if gated else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Start anew."""
        nn.init.ones_(self.weight)
        nn.init.zeros_(self.bias)
        if self.gate is not None:
            xavier_vector_(self.gate)

    def forward(self, x: Tensor) -> Tensor:
        if self.gate is None:
            return layer_norm(x, self.weight, self.bias, self.eps)
        return gated_layer_norm(x, self.weight, self.bias, self.gate, self.eps)


def build_norm(
    spec: AttentionSpec,
    dim: int,
    head_dim: int,
    *,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> RMSNorm | GatedRMSNorm | LayerNorm | None:
    """The norm that ``spec`` names, over ``dim`` = all heads together; None for the softmax family."""
    match spec.norm:
        case "none":
            return None
        case "rmsnorm":
            return RMSNorm(dim, eps=spec.eps, device=device, dtype=dtype)
        case "rmsnorm-xavier":
            fan = head_dim if spec.xavier_fan == "head" else dim
            return RMSNorm(dim, init="xavier", fan=fan, eps=spec.eps, device=device, dtype=dtype)
        case "gated-rmsnorm":
            return GatedRMSNorm(dim, eps=spec.eps, device=device, dtype=dtype)
        case "layernorm" | "gated-layernorm":
            gated = spec.norm == "gated-layernorm"
            return LayerNorm(dim, gated=gated, eps=spec.eps, device=device, dtype=dtype)


def xavier_vector_(vector: Tensor, fan: int | None = None) -> Tensor:
    """Xavier's uniform start for a vector, fan in = fan out = its size (or ``fan``)."""
    bound = math.sqrt(3.0 / (fan or vector.numel()))
    return nn.init.uniform_(vector, -bound, bound)
