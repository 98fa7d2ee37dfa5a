"""Which kernel runs, and why."""

from __future__ import annotations

import ctypes
import os
from typing import Final, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.utils._python_dispatch import _get_current_dispatch_mode  # pyright: ignore[reportPrivateUsage]

from rela.attention.kernels import build, gpu
from rela.attention.kernels.blocked import BlockedKernel
from rela.attention.kernels.dropout import DropoutKernel
from rela.attention.kernels.native import MAX_HEAD_DIM, NativeDropout, NativeKernel, NativeNorm
from rela.attention.kernels.relu import Kernel
from rela.attention.kernels.rms import ChunkedNorm, NormKernel

_VARIABLE: Final = "RELA_KERNEL"
_KERNELS: Final[dict[str, str]] = {
    "native": "compiled for this CPU at first use; ReLU attention in tiles, memory O(T), and fused norms; "
    "float32 CPU tensors in eager mode, heads up to 128",
    "blocked": "PyTorch operations in cache-sized blocks, memory O(T); float32 and float64 CPU tensors in eager mode",
    "triton": "for GPUs; ReLU attention in blocks, memory O(T); CUDA tensors in eager mode, heads up to 128; its speed "
    "was never measured",
    "naive": "the plain formulas, with the whole weight matrix; any device, torch.compile, torch.func, half precision",
}


class KernelChoice(NamedTuple):
    """One kernel, whether it can run here, whether it would, and why."""

    name: str
    available: bool
    chosen: bool
    reason: str


def forced_kernel() -> str | None:
    """The kernel that the environment asks for; None leaves the choice to us."""
    name = os.environ.get(_VARIABLE) or None
    if name is not None and name not in _KERNELS:
        raise ValueError(f"{_VARIABLE}: expected one of {', '.join(_KERNELS)}, or unset; got {name!r}")
    return name


def describe() -> list[KernelChoice]:
    """All kernels, and which of them a float32 CPU call in eager mode would use."""
    forced = forced_kernel()
    built = build.load() if forced in (None, "native") else None
    has_native = built is not None and built.library is not None
    if forced == "native" and not has_native:
        raise ValueError(_unfit(build.load().reason))
    has_triton, triton_state = gpu.state()
    if forced == "triton" and not has_triton:
        raise ValueError(_unfit(triton_state, "triton"))
    chosen = forced or ("native" if has_native else "blocked")
    why = f"forced by {_VARIABLE}={forced}" if forced == chosen else "the fastest that works here"
    native_state = f"{_KERNELS['native']}; {built.reason if built else f'not tried, since {_VARIABLE}={forced}'}"
    states = {"native": native_state, "triton": f"{_KERNELS['triton']}; {triton_state}"}
    return [
        KernelChoice(
            name,
            {"native": has_native, "triton": has_triton}.get(name, True),
            name == chosen,
            f"{states.get(name, what)}{f' ({why})' if name == chosen else ''}",
        )
        for name, what in _KERNELS.items()
    ]


def attention_kernel(query: Tensor, key: Tensor, value: Tensor) -> Kernel | None:
    """The kernel for ReLU attention of ``[B, H, T, d]`` tensors; None: the plain formulas."""
    if query.dim() != 4 or query.numel() == 0 or key.numel() == 0 or value.numel() == 0:
        return None
    if traced_or_transformed():
        return None
    on_gpu = gpu.attention_kernel(query, key, value, forced_kernel())
    if on_gpu is not None or not _eager_cpu(query, key, value):
        return on_gpu
    if not query.dtype == key.dtype == value.dtype:
        return None
    fits = query.dtype == torch.float32 and max(key.shape[-1], value.shape[-1]) <= MAX_HEAD_DIM
    library = _native_library() if fits else None
    return BlockedKernel() if library is None else NativeKernel(library)


def takes_shifts(x: Tensor, bias: Tensor, head_dim: int) -> bool:
    """True if the kernel for heads that are projected from ``x`` would add the projection's ``bias`` itself."""
    fits = x.dtype == bias.dtype == torch.float32 and head_dim <= MAX_HEAD_DIM
    return fits and not torch.is_grad_enabled() and _eager_cpu(x, bias) and _native_library() is not None


def norm_kernel(x: Tensor, *parameters: Tensor) -> NormKernel | None:
    """The kernel for RMSNorm, plain or gated; None: the plain formula."""
    if not _eager_cpu(x, *parameters) or any(parameter.dtype != x.dtype for parameter in parameters):
        return None
    library = _native_library() if x.dtype == torch.float32 else None
    return ChunkedNorm() if library is None else NativeNorm(library)


def dropout_kernel(*tensors: Tensor) -> DropoutKernel | None:
    """The kernel for dropout on residual connections; None: torch's own."""
    if not all(tensor.dtype == torch.float32 for tensor in tensors) or not _eager_cpu(*tensors):
        return None
    library = _native_library()
    return None if library is None else NativeDropout(library)


def _unfit(reason: str, name: str = "native") -> str:
    return f"{_VARIABLE}={name}: {reason}; mend that, or unset {_VARIABLE}"


def _native_library() -> ctypes.CDLL | None:
    forced = forced_kernel()
    if forced == "blocked":
        return None
    built = build.load()
    if built.library is None:
        if forced == "native":
            raise ValueError(_unfit(built.reason))
        build.notice()
    return built.library


def traced_or_transformed() -> bool:
    """True inside torch.compile, torch.export, torch.jit.trace, make_fx, flop counters, torch.func and forward mode.

    There only formulas made of torch's own operations work: the compiler fuses them itself, and the transforms must
    see through them.
    """
    if torch.compiler.is_compiling() or torch._C._is_tracing() or _dispatch_mode_active():  # pyright: ignore[reportPrivateUsage]
        return True
    in_functorch: bool = torch._C._are_functorch_transforms_active()  # pyright: ignore[reportPrivateUsage]
    in_forward_mode: bool = forward_ad._current_level >= 0  # pyright: ignore[reportPrivateUsage]
    return in_functorch or in_forward_mode


def _dispatch_mode_active() -> bool:
    """True if somebody looks at every operation; ours would be invisible to them."""
    return _get_current_dispatch_mode() is not None


def _eager_cpu(*tensors: Tensor) -> bool:
    """True where hand-written autograd functions may run: plain CPU tensors outside tracing and transforms."""
    return not traced_or_transformed() and forced_kernel() != "naive" and all(_is_plain(tensor) for tensor in tensors)


def _is_plain(tensor: Tensor) -> bool:
    return (
        type(tensor) in (Tensor, nn.Parameter)
        and tensor.device.type == "cpu"
        and tensor.dtype in (torch.float32, torch.float64)
        and not tensor.is_neg()
        and not tensor._is_zerotensor()
    )
