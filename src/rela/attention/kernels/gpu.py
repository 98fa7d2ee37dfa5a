"""Whether the Triton kernels can run here, and whether they take a call. Imports triton only where it is wanted."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn

from rela._machine import installed_version
from rela._warn import warn
from rela.attention.kernels.relu import Inputs, Kernel, Options, Passes

_ASK_FOR_INTERPRETER: Final = "TRITON_INTERPRET=1, set before Python starts, runs them on the CPU, slowly"
# Of the largest number of a result; float32 products are exact to about 1e-6, those of half precision to about 1e-2.
_TOLERANCES: Final = {torch.float32: 1e-4, torch.bfloat16: 3e-2, torch.float16: 1e-2}


class Found(NamedTuple):
    """The module with the kernels, and what is to be said of it; or None and the reason."""

    module: ModuleType | None
    reason: str


@functools.cache
def load() -> Found:
    """The kernels, if triton can be imported."""
    try:
        from rela.attention.kernels import triton_relu
    except ModuleNotFoundError as error:
        if error.name != "triton":
            raise
        return Found(None, "triton is not installed: pip install triton, on Linux")
    except (ImportError, OSError, RuntimeError) as error:
        return Found(None, f"triton cannot be imported: {error}")
    if triton_relu.MIXED:
        return Found(None, "TRITON_INTERPRET was changed after triton was imported: set it before Python starts")
    return Found(triton_relu, f"triton {installed_version('triton')}")


def state() -> tuple[bool, str]:
    """Whether the kernels can run on this machine, and why."""
    found = load()
    if found.module is None:
        return False, found.reason
    if found.module.INTERPRETED:
        return True, f"{found.reason} in its interpreter, on the CPU"
    if torch.cuda.is_available():
        return True, f"{found.reason}, for tensors on {torch.cuda.get_device_name()}"
    return False, f"{found.reason}, but torch sees no GPU; {_ASK_FOR_INTERPRETER}"


def attention_kernel(query: Tensor, key: Tensor, value: Tensor, wanted: str | None) -> Kernel | None:
    """The kernel for these ``[B, H, T, d]`` tensors outside of tracing and transforms; None if it does not take them.

    ``wanted`` is the kernel that the user asks for; if that is this one and it cannot run, it is an error.
    """
    forced, device = wanted == "triton", query.device
    if not forced and (wanted is not None or device.type != "cuda"):
        return None
    if device.type not in ("cuda", "cpu") or not all(_is_plain(tensor, device) for tensor in (query, key, value)):
        return None
    found, on_gpu = load(), device.type == "cuda"
    module = found.module
    if module is None:
        if forced:
            raise ValueError(f"RELA_KERNEL=triton: {found.reason}; or unset RELA_KERNEL")
        return None
    if not module.fits(query, key, value):
        return None
    if not on_gpu and not module.INTERPRETED:
        raise ValueError(
            "RELA_KERNEL=triton: expected tensors on a GPU, got tensors on the CPU; move them, or unset RELA_KERNEL "
            f"({_ASK_FOR_INTERPRETER})"
        )
    kernel: Any = module.TritonKernel(grouped=query.shape[1] != key.shape[1])
    wide = max(key.shape[-1], value.shape[-1]) > module.NARROW
    return kernel if forced or proves_itself(kernel, device, query.dtype, wide) else None


def proves_itself(kernel: Passes, device: torch.device, dtype: torch.dtype, wide: bool) -> bool:
    """True if a small call on this device gives what the formulas give; asked once, and said if not.

    The kernels were tested in Triton's interpreter only: no GPU has vouched for its compiler and driver yet.
    """
    key = (device, dtype, wide)
    if key not in _PROVEN:
        try:
            problem = _difference(kernel, device, dtype, 96 if wide else 48)
        except Exception as error:  # compilers, drivers and memory fail in their own ways
            problem = f"{type(error).__name__}: {error}"
        _PROVEN[key] = problem is None
        if problem is not None:
            warn(
                f"rela: the Triton kernels do not work on {device} in {dtype} ({problem}); the plain formulas are "
                "used. RELA_KERNEL=naive silences this."
            )
    return _PROVEN[key]


_PROVEN: Final[dict[tuple[torch.device, torch.dtype, bool], bool]] = {}


def _difference(kernel: Passes, device: torch.device, dtype: torch.dtype, dim: int) -> str | None:
    """What differs in a small causal call, if anything does."""
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(4, 1, 2, 130, dim, generator=generator).to(device, dtype)
    query, key, value, grad = drawn.unbind(0)
    options = Options(dim**-0.5, 0.1, 0, 0.0, None)
    inputs = Inputs(query, key, value, None, None, None)
    found = [kernel.forward(inputs, options), *kernel.backward(grad.float(), inputs, options)[:3]]
    q, k, v, g = drawn.double().unbind(0)
    weights = (q @ k.mT * options.scale - options.threshold).relu().tril()
    d_scores = g @ v.mT * (weights > 0) * options.scale
    wanted = [weights @ v, d_scores @ k, d_scores.mT @ q, weights.mT @ g]
    for name, a, b in zip(("output", "d_query", "d_key", "d_value"), found, wanted, strict=True):
        error = float((a - b).abs().max() / b.abs().max())
        if not error <= _TOLERANCES[dtype]:  # NaN is a difference too
            return f"{name}: expected at most {_TOLERANCES[dtype]:.0e} of difference to the formulas, got {error:.0e}"
    return None


def _is_plain(tensor: Tensor, device: torch.device) -> bool:
    return (
        type(tensor) in (Tensor, nn.Parameter)
        and tensor.device == device
        and not tensor.is_neg()
        and not tensor._is_zerotensor()
    )
