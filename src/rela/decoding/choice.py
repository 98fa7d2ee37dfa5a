"""Which decoder runs, and why."""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear

from rela._warn import warn
from rela.attention import kernels
from rela.attention.kernels import build
from rela.attention.multihead import MultiheadAttention
from rela.attention.norms import GatedRMSNorm, LayerNorm, RMSNorm
from rela.decoding.packing import MAPS, declared
from rela.model.dropout import Dropout
from rela.model.transformer import DecoderLayer, EncoderLayer, FeedForward, Transformer

_VARIABLE: Final = "RELA_DECODER"
_SOURCE: Final = Path(__file__).with_name("engine.cpp")
_DECODERS: Final[dict[str, str]] = {
    "native": "compiled for this CPU at first use; whole steps over packed weights, float32 or int8; "
    f"models in float32 on the CPU with the maps {', '.join(MAPS)}",
    "torch": "PyTorch operations; any device, attention and type of numbers",
}
_PLAIN_MODULES: Final = frozenset(
    {
        Transformer,
        EncoderLayer,
        DecoderLayer,
        FeedForward,
        Dropout,
        MultiheadAttention,
        RMSNorm,
        GatedRMSNorm,
        LayerNorm,
        NonDynamicallyQuantizableLinear,
        nn.Linear,
        nn.LayerNorm,
        nn.Embedding,
        nn.ModuleList,
    }
)
_HOOKS: Final = ("_forward_hooks", "_forward_pre_hooks")
_METHODS: Final = ("forward", "encode", "start", "step", "logits", "attend", "project_keys_values")


class DecoderChoice(NamedTuple):
    """One decoder, whether it can run here, whether it would, and why."""

    name: str
    available: bool
    chosen: bool
    reason: str


def forced_decoder() -> str | None:
    """The decoder that the environment asks for; None leaves the choice to us."""
    name = os.environ.get(_VARIABLE) or None
    if name is not None and name not in _DECODERS:
        raise ValueError(f"{_VARIABLE}: expected one of {', '.join(_DECODERS)}, or unset; got {name!r}")
    return name


@contextmanager
def using_decoder(name: str) -> Generator[None]:
    """Inside, the environment asks for this decoder."""
    before = os.environ.get(_VARIABLE)
    os.environ[_VARIABLE] = name
    try:
        yield
    finally:
        os.environ.pop(_VARIABLE)
        if before is not None:
            os.environ[_VARIABLE] = before


def describe() -> list[DecoderChoice]:
    """Both decoders, and which of them a float32 model on the CPU would use."""
    forced = forced_decoder()
    built = build.load(_SOURCE) if forced != "torch" else None
    has_native = built is not None and built.library is not None
    if forced == "native" and built is not None and not has_native:
        raise ValueError(_unfit(built.reason))
    chosen = "native" if has_native else "torch"
    why = f"forced by {_VARIABLE}={forced}" if forced else "the fastest that works here"
    state = built.reason if built else f"not tried, since {_VARIABLE}={forced}"
    texts = {"native": f"{_DECODERS['native']}; {state}", "torch": _DECODERS["torch"]}
    return [
        DecoderChoice(
            name, name == "torch" or has_native, name == chosen, f"{text}{f' ({why})' if name == chosen else ''}"
        )
        for name, text in texts.items()
    ]


def native_decoder(model: Transformer, source: Tensor, *, needed_for: str | None = None) -> ctypes.CDLL | None:
    """The library of the native decoder, if it can decode this; None: torch does.

    ``needed_for`` names what torch cannot do: then, or if the environment asks for it, it is an error if it cannot.
    """
    forced = forced_decoder()
    if forced == "torch":
        if needed_for is not None:
            raise ValueError(f"{needed_for}: expected the native decoder, got {_VARIABLE}=torch; unset {_VARIABLE}")
        return None
    reason = why_not(model, source)
    if reason is None:
        built = build.load(_SOURCE)
        if built.library is not None:
            return declared(built.library)
        reason = built.reason
        if forced is None and needed_for is None:
            _notice(reason)
    if needed_for is not None:
        raise ValueError(f"{needed_for}: expected a model and a machine for the native decoder, got: {reason}")
    if forced == "native":
        raise ValueError(_unfit(reason))
    return None


def why_not(model: Transformer, source: Tensor) -> str | None:
    """Why the native decoder cannot decode this; None: it can."""
    for module in model.modules():
        if type(module) not in _PLAIN_MODULES:
            return f"it does not know the module {type(module).__name__}"
        own = module.__dict__
        if any(own[hooks] for hooks in _HOOKS) or any(method in own for method in _METHODS):
            return f"somebody watches or changes the module {type(module).__name__}"
        for parameter in own["_parameters"].values():
            if parameter is not None and (reason := _odd_parameter(parameter)):
                return reason
    for modules in model.attentions().values():
        for module in modules:
            if reason := _odd_attention(module):
                return reason
    if kernels.traced_or_transformed():
        return "something looks at every operation of torch, or transforms it"
    if source.device.type != "cpu" or source.dtype != torch.int64 or source.dim() != 2 or source.numel() == 0:
        return f"it takes sources [B, S] of int64 on the CPU, got {list(source.shape)} of {source.dtype}"
    if not 0 <= int(source.min()) <= int(source.max()) < model.config.source_vocabulary:
        return "a piece of the source is not in the vocabulary"
    return None


def _odd_parameter(parameter: Tensor) -> str | None:
    if parameter.dtype != torch.float32 or parameter.device.type != "cpu":
        return f"its numbers are float32 on the CPU, got {parameter.dtype} on {parameter.device}"
    if type(parameter) is not nn.Parameter or parameter.is_inference() or not parameter.is_contiguous():
        return "it cannot follow parameters that are no plain ones, or were made in inference mode"
    return None


def _odd_attention(module: MultiheadAttention) -> str | None:
    if module.attention.map not in MAPS:
        return f"it has no attention {module.attention.name}"
    if module._observers:  # pyright: ignore[reportPrivateUsage]
        return "somebody observes the weights of an attention"
    extra = module.bias_k is not None or module.add_zero_attn
    if extra or module.in_proj_weight is None or module.in_proj_bias is None:
        return "it knows no attention with extra keys, or without a bias"
    return None


def _unfit(reason: str) -> str:
    return f"{_VARIABLE}=native: {reason}; mend that, or unset {_VARIABLE}"


@functools.cache
def _notice(reason: str) -> None:
    """Say, once in a process, why the native decoder is missing."""
    warn(
        f"rela: no native decoder ({reason}); the slower one in PyTorch is used. `rela doctor` says more; "
        f"{_VARIABLE}=torch silences this."
    )
