"""Which kernel runs, and why."""

from __future__ import annotations

import math
import os
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.utils._python_dispatch import _get_current_dispatch_mode  # pyright: ignore[reportPrivateUsage]

from rela.attention.kernels import build, gpu, native
from rela.attention.kernels.blocked import BlockedKernel
from rela.attention.kernels.native import MAX_HEAD_DIM, NativeKernel, NativeNorm
from rela.attention.kernels.relu import Kernel
from rela.attention.kernels.rms import ChunkedNorm, NormKernel

_VARIABLE: Final = "RELA_KERNEL"
# os.environ takes a microsecond to find that a variable is not set; the dictionary inside it a tenth of that.
_VARIABLES: Final[Any] = getattr(os.environ, "_data", None)
_KEY: Final[Any] = os.environ.encodekey(_VARIABLE)
_PLAIN: Final = (Tensor, nn.Parameter)
_NATIVE_DTYPES: Final = (torch.float32, torch.bfloat16)
_KERNELS: Final[dict[str, str]] = {
    "native": "compiled for this CPU at first use; ReLU attention in tiles, zeros skipped, memory O(T), and fused "
    "norms; float32 and bfloat16 CPU tensors, also under torch.compile, heads up to 128",
    "blocked": "PyTorch operations in cache-sized blocks, memory O(T); float32 and float64 CPU tensors in eager mode",
    "triton": "for GPUs; ReLU attention in blocks, memory O(T); CUDA tensors in eager mode, heads up to 128; its speed "
    "was never measured",
    "naive": "the plain formulas, with the whole weight matrix; any device, torch.compile, torch.func, half precision",
}


class KernelChoice(NamedTuple):
    """One kernel, whether it can run here (None: not tried), whether it would, and why."""

    name: str
    available: bool | None
    chosen: bool
    reason: str


def forced_kernel() -> str | None:
    """The kernel that the environment asks for; None leaves the choice to us."""
    if _VARIABLES is not None and _KEY not in _VARIABLES:
        return None
    name = os.environ.get(_VARIABLE) or None
    if name is not None and name not in _KERNELS:
        raise ValueError(f"{_VARIABLE}: expected one of {', '.join(_KERNELS)}, or unset; got {name!r}")
    return name


def describe() -> list[KernelChoice]:
    """All kernels, and which of them a float32 CPU call in eager mode would use."""
    forced = forced_kernel()
    built = native.load() if forced in (None, "native") else None
    has_native = built is not None and built.library is not None
    if forced == "native" and not has_native:
        raise ValueError(_unfit(native.load().reason))
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
            {"native": has_native if built else None, "triton": has_triton}.get(name, True),
            name == chosen,
            f"{states.get(name, what)}{f' ({why})' if name == chosen else ''}",
        )
        for name, what in _KERNELS.items()
    ]


def attention_kernel(query: Tensor, key: Tensor, value: Tensor) -> Kernel | None:
    """The kernel for ReLU attention of ``[B, H, T, d]`` tensors; None: the plain formulas.

    The native kernel reads bfloat16 as it is, and gives float32; and it takes fewer heads of keys than of queries.
    """
    if query.dim() != 4 or query.numel() == 0 or key.numel() == 0 or value.numel() == 0:
        return None
    if not query.dtype == key.dtype == value.dtype:
        return None
    native_fits = query.dtype in _NATIVE_DTYPES and max(key.shape[-1], value.shape[-1]) <= MAX_HEAD_DIM
    if torch.compiler.is_compiling():
        fits = native_fits and query.device.type == "cpu" and not torch.compiler.is_exporting() and _is_compiled_in()
        return NativeKernel() if fits and query.shape[1] % key.shape[1] == 0 else None
    if traced_or_transformed() or query.shape[1] % key.shape[1] != 0:
        return None
    on_gpu = gpu.attention_kernel(query, key, value, forced_kernel())
    if on_gpu is not None or not _eager_cpu(query, key, value):
        return on_gpu
    if native_fits and _has_native():
        return NativeKernel()
    return None if query.shape[1] != key.shape[1] or query.dtype == torch.bfloat16 else BlockedKernel()


def quick_relu_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
    threshold: float,
) -> Tensor | None:
    """ReLU attention by the native kernel if everything is as plain as it mostly is; None: go the long way.

    Short sequences are over in tens of microseconds, which is what looking at every special case takes as well.
    """
    if type(query) not in _PLAIN or type(key) not in _PLAIN or type(value) not in _PLAIN:
        return None
    if attn_mask is not None and (type(attn_mask) is not Tensor or not attn_mask.is_cpu):
        return None
    if not (query.is_cpu and key.is_cpu and value.is_cpu):
        return None
    if traced_or_transformed() or torch.is_autocast_enabled("cpu") or not _has_native():
        return None
    if attn_mask is None and dropout_p == threshold == 0.0 and not is_causal and not enable_gqa:
        return native.plain_relu_attention(query, key, value, scale)
    if query.dtype is not torch.float32 or query.dim() != 4 or key.dim() != 4:
        return None
    if not (0.0 <= dropout_p <= 1.0 and -math.inf < threshold < math.inf):
        return None
    num_heads, head_dim = query.shape[1::2]
    if head_dim == 0 or not (enable_gqa or num_heads == key.shape[1]):
        return None
    factor = 1.0 / math.sqrt(head_dim) if scale is None else scale
    if not -math.inf < factor < math.inf:
        return None
    if dropout_p > 0:  # whatever may go the long way goes before a seed is drawn: it draws one itself
        as_it_is = attn_mask is None or (attn_mask.dtype is torch.bool and attn_mask.dim() == 4)
        same_batch = query.shape[0] == key.shape[0] and key.shape[:2] == value.shape[:2]
        if not (as_it_is and same_batch and isinstance(attention_kernel(query, key, value), NativeKernel)):
            return None
    seed = torch.randint(2**62, ()) if dropout_p > 0 else None
    return native.quick_relu_attention(query, key, value, attn_mask, seed, factor, threshold, is_causal, dropout_p)


def takes_shifts(x: Tensor, bias: Tensor, head_dim: int) -> bool:
    """True if the kernel for heads that are projected from ``x`` would add the projection's ``bias`` itself."""
    fits = x.dtype == bias.dtype == torch.float32 and head_dim <= MAX_HEAD_DIM
    return fits and not torch.is_grad_enabled() and _eager_cpu(x, bias) and _has_native()


def norm_kernel(x: Tensor, *parameters: Tensor) -> NormKernel | None:
    """The kernel for RMSNorm, plain or gated; None: the plain formula."""
    if x.numel() == 0 or not _eager_cpu(x, *parameters) or any(parameter.dtype != x.dtype for parameter in parameters):
        return None
    return NativeNorm() if x.dtype == torch.float32 and _has_native() else ChunkedNorm()


def dropout_fits(*tensors: Tensor) -> bool:
    """True if there is a kernel for dropout on residual connections; else torch's own must do."""
    return all(tensor.dtype == torch.float32 for tensor in tensors) and _eager_cpu(*tensors) and _has_native()


def _unfit(reason: str, name: str = "native") -> str:
    return f"{_VARIABLE}={name}: {reason}; mend that, or unset {_VARIABLE}"


def _has_native() -> bool:
    forced = forced_kernel()
    if forced not in (None, "native"):
        return False
    built = native.load()
    if built.library is None:
        if forced == "native":
            raise ValueError(_unfit(built.reason))
        build.notice()
    return built.library is not None


def _is_compiled_in() -> bool:
    """True if code that torch.compile makes may call the native operator."""
    return _has_native()


# One constant for the compiler. torch.compiler.assume_constant_result says this too, and imports the compiler for it.
_is_compiled_in._dynamo_marked_constant = True  # pyright: ignore[reportFunctionMemberAccess]


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
        type(tensor) in _PLAIN
        and tensor.device.type == "cpu"
        and tensor.dtype in (torch.float32, torch.float64, torch.bfloat16)
        and not tensor.is_neg()
        and not tensor._is_zerotensor()
    )
