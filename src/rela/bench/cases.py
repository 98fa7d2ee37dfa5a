"""The situations in which ReLU attention is timed beside torch's own, and the speed that is asked for in each.

Heads have 64 dimensions and lie as the projections leave them: strided views of one packed tensor. Queries and keys are
normal random numbers but for their last coordinate, which is ``a`` in every query and ``-a`` in every key: it moves all
scores by the same ``-a * a / 8`` and so sets the share of positive ones, without a threshold and without a change of
their spread. Density 0.5 needs ``a = 0``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Final, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from rela.attention import functional

Mode = Literal["forward", "forward+backward"]
Variant = Literal["plain", "causal", "padding", "cross", "gqa", "dropout"]
MODES: Final[tuple[Mode, ...]] = get_args(Mode)
VARIANTS: Final[tuple[Variant, ...]] = get_args(Variant)

HEAD_DIM: Final = 64
DENSITIES: Final = (0.5, 0.15)
LENGTHS: Final = (32, 64, 128, 512, 1024, 2048, 4096, 8192)
DROPOUT: Final = 0.1
_HEADS: Final = 8  # of one sentence
_MANY_HEADS: Final = 64  # of all sentences of a batch of short ones
_SHORT: Final = 128
_LONG: Final = 512
_VARIANT_LENGTHS: Final = (32, 128, 512, 2048)
_SEEN_QUERIES: Final = 256

_TARGETS: Final[dict[Mode, dict[str, float]]] = {
    "forward": {"short": 1.3, "0.5": 1.15, "0.15": 1.6},
    "forward+backward": {"short": 1.2, "0.5": 1.3, "0.15": 2.5},
}
NEVER_UNDER: Final = 1.0
"""What is asked for with masks, other lengths of keys, and queries, keys and values of a trained model."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One situation. ``rows`` is the batch times the heads; ``density`` the share of positive scores."""

    length: int
    rows: int = _HEADS
    density: float = 0.5
    variant: Variant = "plain"

    @property
    def label(self) -> str:
        """Its name in results."""
        return f"{self.variant} T={self.length} BH={self.rows} density={self.density:g}"

    def target(self, mode: Mode) -> float | None:
        """What is asked for; None: nothing for lengths between short and long, or other densities."""
        if self.variant != "plain":
            return NEVER_UNDER
        if self.length <= _SHORT:
            return _TARGETS[mode]["short"]
        return _TARGETS[mode].get(f"{self.density:g}") if self.length >= _LONG else None


def cases(lengths: Sequence[int]) -> list[Case]:
    """All situations at these lengths: plain ones at both densities, and the variants at some."""
    found = [
        Case(length=length, rows=rows, density=density)
        for length in lengths
        for rows in ((_HEADS, _MANY_HEADS) if length <= _SHORT else (_HEADS,))
        for density in DENSITIES
    ]
    near = [length for length in lengths if length in _VARIANT_LENGTHS] or list(lengths[:1])
    # Masks of padding need a sentence that is shorter than another.
    found += [
        Case(length=length, rows=2 * _HEADS if variant == "padding" else _HEADS, variant=variant)
        for length in near
        for variant in VARIANTS
        if variant != "plain"
    ]
    return found


@dataclass(frozen=True, kw_only=True)
class Call:
    """What both functions are called with: queries, keys, values, and options by torch's names."""

    query: Tensor
    key: Tensor
    value: Tensor
    options: dict[str, Any]

    def ours(self) -> Tensor:
        """ReLU attention."""
        return functional.relu_attention(self.query, self.key, self.value, **self.options)

    def torchs(self) -> Tensor:
        """torch's softmax attention."""
        return F.scaled_dot_product_attention(self.query, self.key, self.value, **self.options)

    def inputs(self) -> list[Tensor]:
        """What gradients are asked for."""
        return [self.query, self.key, self.value]


def make_call(case: Case, *, gradients: bool, seed: int = 0) -> Call:
    """Random queries, keys and values of a case."""
    generator = torch.Generator().manual_seed(seed)
    heads = min(case.rows, _HEADS)
    batch = case.rows // heads
    groups = 2 if case.variant == "gqa" else heads
    num_queries = max(1, case.length // 2) if case.variant == "cross" else case.length

    def make(length: int, parts: int, num_heads: int) -> list[Tensor]:
        packed = torch.randn(batch, length, parts, num_heads, HEAD_DIM, generator=generator)
        return list(packed.permute(2, 0, 3, 1, 4).unbind(0))

    if num_queries == case.length and groups == heads:
        query, key, value = make(case.length, 3, heads)
    else:
        (query,), (key, value) = make(num_queries, 1, heads), make(case.length, 2, groups)
    _set_density(query, key, case.density)
    for tensor in (query, key, value):
        tensor.requires_grad_(gradients)
    return Call(query=query, key=key, value=value, options=_options(case, batch))


def _set_density(query: Tensor, key: Tensor, density: float) -> None:
    """Move all scores so that this share is positive: without the last coordinate they have this deviation."""
    deviation = math.sqrt((HEAD_DIM - 1) / HEAD_DIM)
    shift = NormalDist(0, deviation).inv_cdf(1 - density)  # scores have to fall by so much
    size = math.sqrt(abs(shift) * math.sqrt(HEAD_DIM))
    query[..., -1] = size
    key[..., -1] = -size if shift > 0 else size


def _options(case: Case, batch: int) -> dict[str, Any]:
    if case.variant == "causal":
        return {"is_causal": True}
    if case.variant == "dropout":
        return {"dropout_p": DROPOUT}
    if case.variant == "gqa":
        return {"enable_gqa": True}
    if case.variant == "padding":  # the first sentence is whole, the last one half as long
        lengths = torch.linspace(case.length, case.length / 2, batch).int()
        return {"attn_mask": (torch.arange(case.length) < lengths[:, None])[:, None, None, :]}
    return {}


@torch.no_grad()
def density_of(call: Call) -> float:
    """The share of allowed weights that are not zero, seen at some hundred queries of each head."""
    picked = torch.linspace(0, call.query.shape[-2] - 1, min(_SEEN_QUERIES, call.query.shape[-2])).long()
    key = call.key
    if key.shape[1] != call.query.shape[1]:
        key = key.repeat_interleave(call.query.shape[1] // key.shape[1], dim=1)
    positive = (call.query[..., picked, :] @ key.transpose(-2, -1)) > 0
    allowed = call.options.get("attn_mask")
    if call.options.get("is_causal"):
        allowed = torch.arange(key.shape[-2]) <= picked[:, None]
    if allowed is None:
        return float(positive.float().mean())
    allowed = allowed.expand(positive.shape)
    return float((positive & allowed).sum() / allowed.sum())


def runner(calls: Sequence[Callable[[], Tensor]], inputs: Sequence[Sequence[Tensor]], mode: Mode) -> Callable[[], None]:
    """Forward alone, or forward and the gradients of all inputs, of some calls in turn."""
    if mode == "forward":

        def forward() -> None:
            with torch.no_grad():
                for call in calls:
                    call()

        return forward

    grads = [torch.randn_like(call().detach()) for call in calls]

    def both() -> None:
        for call, wanted, grad in zip(calls, inputs, grads, strict=True):
            torch.autograd.grad(call(), list(wanted), grad)

    return both
