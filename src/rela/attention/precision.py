"""Half precision and autocast: what is computed in which dtype."""

from __future__ import annotations

import contextlib

import torch
import torch.nn.functional as F
from torch import Tensor


def at_least_float32(x: Tensor) -> Tensor:
    """Half precision in float32; float32 and float64 as they are."""
    return x if x.dtype in (torch.float32, torch.float64) else x.float()


def autocast_enabled(device: torch.device) -> bool:
    """True inside torch.autocast for this kind of device."""
    return torch.amp.is_autocast_available(device.type) and torch.is_autocast_enabled(device.type)


def without_autocast(device: torch.device) -> contextlib.AbstractContextManager[object]:
    """Autocast would turn float32 products back into half precision."""
    if autocast_enabled(device):
        return torch.autocast(device.type, enabled=False)
    return contextlib.nullcontext()


def projected_dtype(x: Tensor) -> torch.dtype:
    """The dtype of what a projection of ``x`` gives: autocast changes it."""
    if x.dtype != torch.float64 and autocast_enabled(x.device):
        return torch.get_autocast_dtype(x.device.type)
    return x.dtype


def float32_linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """``F.linear`` in float32, whatever the dtypes and autocast say."""
    with without_autocast(x.device):
        return F.linear(x.float(), weight.float(), None if bias is None else bias.float())
