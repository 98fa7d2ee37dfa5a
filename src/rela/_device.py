"""Devices that torch computes on."""

from __future__ import annotations

import torch


def checked_device(text: str | torch.device) -> torch.device:
    """The device of this name, if torch can compute on it here; else a ValueError that says why not."""
    if not isinstance(text, str | torch.device):  # pyright: ignore[reportUnnecessaryIsInstance] (callers may be untyped)
        raise TypeError(f"device: expected a name such as 'cpu' or a torch.device, got {text!r}")
    try:
        wanted = torch.device(text)
    except RuntimeError:
        wanted = torch.device("meta")
    if wanted.type == "meta":  # which computes nothing
        raise ValueError(f"device: expected cpu, cuda or cuda:1, got {str(text)!r}; use cpu if in doubt")
    try:
        return torch.empty(0, device=wanted).device
    except (RuntimeError, AssertionError, NotImplementedError) as error:  # by kind of device and build of torch
        reason = str(error).partition("\n")[0].rstrip(".")
        raise ValueError(f"device: expected one that is here, got {str(text)!r} ({reason}); use cpu") from None
