"""Maps: from scores to weights, exactly zero wherever a place is not allowed.

Pointwise maps are masked after the map (a masked score may not leak through a bias, a threshold or a GeLU); row maps
are masked before it, and a row without a valid key is all zeros, never NaN and never uniform.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch
import torch.nn.functional as F
from torch import Tensor

from rela.attention import kernels
from rela.attention.spec import AttentionSpec, MapName

# alpha = ALPHA_MIN + (2 - ALPHA_MIN) * sigmoid(logit): near 1 the bisection divides by alpha - 1.
ALPHA_MIN: Final = 1.01


def map_scores(
    spec: AttentionSpec,
    scores: Tensor,
    allowed: Tensor | None,
    *,
    threshold: Tensor | float = 0.0,
    alpha: Tensor | float = 1.5,
) -> Tensor:
    """Weights of ``scores`` ``[..., Tq, Tk]`` by the map of ``spec``, zero where not ``allowed``.

    ``threshold`` and ``alpha`` are numbers, or tensors that broadcast against the scores (``[H, 1, 1]``).
    """
    if spec.is_pointwise:
        if isinstance(threshold, Tensor) or threshold != 0:
            scores = scores - threshold
        weights = _POINTWISE[spec.map](scores, spec)
        weights = weights if allowed is None else weights.masked_fill(~allowed, 0.0)
        if spec.length_power != 0:
            weights = weights * length_factor(spec.length_power, scores.shape[-1], allowed, scores)
        return weights
    if scores.shape[-1] == 0:
        return scores
    if spec.map == "softmax":
        return masked_softmax(scores, allowed)
    if spec.map == "topk":
        return masked_softmax(scores, _largest(scores, allowed, spec.topk))
    return _entmax_family(spec.map, scores, allowed, alpha)


def length_factor(power: float, num_keys: int, allowed: Tensor | None, like: Tensor) -> Tensor | float:
    """``n ** -power`` for each query, ``n`` its number of valid keys: a number, or ``[..., Tq, 1]``."""
    if allowed is None:
        return max(num_keys, 1) ** -power
    num_valid = allowed.expand(*allowed.shape[:-1], num_keys).sum(-1, keepdim=True)
    return num_valid.clamp_min(1).to(like.dtype).pow(-power)


def masked_softmax(scores: Tensor, allowed: Tensor | None) -> Tensor:
    """Softmax over the allowed keys; all zeros where there are none."""
    if allowed is None:
        return scores.softmax(-1)
    filled = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)
    return filled.softmax(-1).masked_fill(~allowed, 0.0)


def alpha_from_logit(logit: Tensor) -> Tensor:
    """The learned alpha of ``entmax``, between ``ALPHA_MIN`` (nearly softmax) and 2 (sparsemax)."""
    return ALPHA_MIN + (2.0 - ALPHA_MIN) * logit.sigmoid()


def _largest(scores: Tensor, allowed: Tensor | None, k: int) -> Tensor | None:
    """Where a score is among the row's ``k`` largest allowed ones; ties with the last are all in."""
    if k >= scores.shape[-1]:
        return allowed
    filled = scores if allowed is None else scores.masked_fill(~allowed, -torch.inf)
    smallest = filled.detach().topk(k, dim=-1).values[..., -1:]
    largest = filled >= smallest
    return largest if allowed is None else largest & allowed


def _entmax_family(name: MapName, scores: Tensor, allowed: Tensor | None, alpha: Tensor | float) -> Tensor:
    """The entmax package, kept away from the rows it cannot do.

    It raises on rows of -inf and makes rows of finfo.min uniform. A score more than ``1 / (alpha - 1)`` below the
    row's largest has weight 0 whatever its value, so forbidden scores go just below that: nothing infinite is left.
    """
    if name == "sparsemax":
        alpha = 2.0
    elif name == "entmax15":
        alpha = 1.5
    floor = -(1.0 / (alpha - 1.0) + 1.0)
    lowest = torch.finfo(scores.dtype).min
    filled = scores if allowed is None else scores.masked_fill(~allowed, lowest)
    shifted = filled - filled.detach().amax(-1, keepdim=True)
    if allowed is not None:
        shifted = shifted.masked_fill(~allowed, lowest)
    shifted = torch.maximum(shifted, _like(floor, shifted))
    if kernels.traced_or_transformed():
        weights = _entmax_by_formula(name, shifted, _like(alpha, shifted))
    else:
        weights = _entmax_by_package(name, shifted, _like(alpha, shifted))
    return weights if allowed is None else weights.masked_fill(~allowed, 0.0)


def _entmax_by_package(name: MapName, scores: Tensor, alpha: Tensor) -> Tensor:
    import entmax  # loading it takes a while, and most attentions never need it

    if name == "sparsemax":
        return entmax.sparsemax(scores, dim=-1)
    if name == "entmax15":
        return entmax.entmax15(scores, dim=-1)
    exponent = alpha.expand(*scores.shape[:-1], 1)
    return entmax.entmax_bisect(scores, exponent, dim=-1)  # pyright: ignore[reportArgumentType]


def _entmax_by_formula(name: MapName, scores: Tensor, alpha: Tensor) -> Tensor:
    """The package's weights, with gradients that compilers and transforms can follow.

    Weights are ``[(alpha - 1) s - tau]_+ ^ (1 / (alpha - 1))``. The package's autograd functions cannot be traced, but
    their forward passes can: tau comes from there without a gradient, and one Newton step on "the weights sum to 1",
    which leaves its value where it is, gives it the right derivatives with respect to scores and alpha.
    """
    from entmax.activations import Entmax15Function, SparsemaxFunction
    from entmax.root_finding import EntmaxBisectFunction

    power = 1.0 / (alpha - 1.0)
    scaled = (alpha - 1.0) * scores
    with torch.no_grad():
        if name == "sparsemax":
            found = SparsemaxFunction.forward(_Context(), scores, -1, None)
        elif name == "entmax15":
            found = Entmax15Function.forward(_Context(), scores, -1, None)
        else:
            exponent = alpha.expand(*scores.shape[:-1], 1)
            found = EntmaxBisectFunction.forward(_Context(), scores, exponent, -1)  # pyright: ignore[reportArgumentType]
        support = found > 0
        largest = found.amax(-1, keepdim=True)
        tau = scaled.amax(-1, keepdim=True) - largest.pow(alpha - 1.0)
        above = torch.where(support, scaled - tau, 1.0).clamp_min(torch.finfo(scores.dtype).tiny)
        slope = torch.where(support, power * above.pow(power - 1.0), 0.0).sum(-1, keepdim=True)
    tau = tau.detach()
    excess = torch.where(support, torch.where(support, scaled - tau, 1.0).clamp_min(0.0).pow(power), 0.0)
    tau = tau + (excess.sum(-1, keepdim=True) - 1.0) / slope.detach()
    above = torch.where(support, scaled - tau, 1.0).clamp_min(0.0)
    return torch.where(support, above.pow(power), 0.0)


class _Context:
    """What a forward pass of the entmax package writes its notes on; nobody reads them."""

    def save_for_backward(self, *tensors: Tensor) -> None:
        """Forget them."""


def _like(value: Tensor | float, other: Tensor) -> Tensor:
    return value.to(other.dtype) if isinstance(value, Tensor) else other.new_full((1,), value)


_POINTWISE: Final[dict[MapName, Callable[[Tensor, AttentionSpec], Tensor]]] = {
    "relu": lambda scores, _: scores.relu(),
    "relu2": lambda scores, _: scores.relu().square(),
    "gelu": lambda scores, _: F.gelu(scores),
    "leaky": lambda scores, spec: F.leaky_relu(scores, spec.negative_slope),
    "sigmoid": lambda scores, _: scores.sigmoid(),
}
