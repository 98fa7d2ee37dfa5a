"""Maps: from scores to weights, exactly zero wherever a place is not allowed.

Pointwise maps are masked after the map (a masked score may not leak through a bias, a threshold or a GeLU); row maps
are masked before it, and a row without a valid key is all zeros, never NaN and never uniform.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
import torch.nn.functional as F
from entmax.activations import Entmax15Function, SparsemaxFunction
from entmax.root_finding import EntmaxBisectFunction
from torch import Tensor

from rela.attention import kernels
from rela.attention.masks import Mask
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
        weights = weights if allowed is None else _zeroed(weights, ~allowed)
        if spec.length_power != 0:
            num_valid = Mask(allowed).num_valid(scores.shape[-2], scores.shape[-1], scores.device)
            weights = weights * length_factor(spec.length_power, num_valid, scores.dtype)
        return weights
    if scores.shape[-1] == 0:
        return scores
    if spec.map == "softmax":
        return masked_softmax(scores, allowed)
    if spec.map == "topk":
        return masked_softmax(scores, _largest(scores, allowed, spec.topk))
    return _entmax_family(spec.map, scores, allowed, alpha)


def length_factor(power: float, num_valid: Tensor | int, dtype: torch.dtype) -> Tensor | float:
    """``n ** -power``, ``n`` the number of valid keys of a query."""
    if isinstance(num_valid, Tensor):
        return num_valid.clamp_min(1).to(dtype).pow(-power)
    return max(num_valid, 1) ** -power


def masked_softmax(scores: Tensor, allowed: Tensor | None) -> Tensor:
    """Softmax over the allowed keys; all zeros where there are none."""
    if allowed is None:
        return scores.softmax(-1)
    forbidden = ~allowed
    return _zeroed(scores.masked_fill(forbidden, torch.finfo(scores.dtype).min).softmax(-1), forbidden)


def _zeroed(weights: Tensor, forbidden: Tensor) -> Tensor:
    """Zeros where forbidden, in new weights that nobody else has: autograd does not need them in inference mode."""
    in_place = not torch.compiler.is_compiling() and torch.is_inference_mode_enabled()
    return weights.masked_fill_(forbidden, 0.0) if in_place else weights.masked_fill(forbidden, 0.0)


def alpha_from_logit(logit: Tensor) -> Tensor:
    """The learned alpha of ``entmax``, between ``ALPHA_MIN`` (nearly softmax) and 2 (sparsemax)."""
    return ALPHA_MIN + (2.0 - ALPHA_MIN) * logit.sigmoid()


def _largest(scores: Tensor, allowed: Tensor | None, k: int) -> Tensor | None:
    """Where a score is among the row's ``k`` largest allowed ones; ties with the last are all in."""
    filled = scores if allowed is None else scores.masked_fill(~allowed, -torch.inf)
    # Padded rather than asked for its length: torch.export then leaves the length open.
    smallest = F.pad(filled.detach(), (0, k), value=-torch.inf).topk(k, dim=-1).values[..., -1:]
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
        weights = _Entmax.apply(name, shifted, _like(alpha, shifted))  # pyright: ignore[reportAssignmentType]
    return weights if allowed is None else weights.masked_fill(~allowed, 0.0)


class _Entmax(torch.autograd.Function):
    """The entmax package, which computes NaN for second derivatives; those come from the formula below instead."""

    @staticmethod
    def forward(ctx: Any, name: MapName, scores: Tensor, alpha: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        weights = _package_weights(name, scores, alpha)
        ctx.save_for_backward(scores, alpha, weights)
        ctx.name = name
        return weights

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        scores, alpha, weights = ctx.saved_tensors
        if torch.is_grad_enabled():
            output = _entmax_by_formula(ctx.name, scores, alpha)
            wanted = [t for t in (scores, alpha) if t.requires_grad]
            found = iter(torch.autograd.grad(output, wanted, grad_outputs[0], create_graph=True))
            return (None, *(next(found) if t.requires_grad else None for t in (scores, alpha)))
        notes = _Notes(weights, alpha, ctx.needs_input_grad[2])
        if ctx.name == "sparsemax":
            notes.save_for_backward((weights > 0).sum(-1, keepdim=True), weights)
            return None, SparsemaxFunction.backward(notes, grad_outputs[0])[0], None
        if ctx.name == "entmax15":
            return None, Entmax15Function.backward(notes, grad_outputs[0])[0], None
        d_scores, d_alpha = EntmaxBisectFunction.backward(notes, grad_outputs[0])[:2]
        return None, d_scores, None if d_alpha is None else d_alpha.sum_to_size(alpha.shape)


def _package_weights(name: MapName, scores: Tensor, alpha: Tensor) -> Tensor:
    """The package's forward pass, which unlike its autograd functions can be traced."""
    if name == "sparsemax":
        return SparsemaxFunction.forward(_Notes(), scores, -1, None)
    if name == "entmax15":
        return Entmax15Function.forward(_Notes(), scores, -1, None)
    exponent = alpha.expand(*scores.shape[:-1], 1)
    return EntmaxBisectFunction.forward(_Notes(), scores, exponent, -1)  # pyright: ignore[reportArgumentType]


def _entmax_by_formula(name: MapName, scores: Tensor, alpha: Tensor) -> Tensor:
    """The package's weights, with derivatives of first and second order that compilers and transforms can follow.

    Weights are ``[(alpha - 1) s - tau]_+ ^ (1 / (alpha - 1))``. The package finds tau, here without a gradient; Newton
    steps on "the weights sum to 1" leave its value where it is and give it its derivatives: one step the first, a
    second step the second.
    """
    power = 1.0 / (alpha - 1.0)
    scaled = (alpha - 1.0) * scores
    with torch.no_grad():
        found = _package_weights(name, scores, alpha)
        support = found > 0
        tau = scaled.amax(-1, keepdim=True) - found.amax(-1, keepdim=True).pow(alpha - 1.0)
        above = torch.where(support, scaled - tau, 1.0).clamp_min(torch.finfo(scores.dtype).tiny)
        slope = torch.where(support, power * above.pow(power - 1.0), 0.0).sum(-1, keepdim=True)
    tau, slope = tau.detach(), slope.detach()

    def weights(tau: Tensor) -> Tensor:
        return torch.where(support, torch.where(support, scaled - tau, 1.0).clamp_min(0.0).pow(power), 0.0)

    for _ in range(2):
        tau = tau + (weights(tau).sum(-1, keepdim=True) - 1.0) / slope
    return weights(tau)


class _Notes:
    """The ``ctx`` that the package's passes write on and read from."""

    def __init__(self, weights: Tensor | None = None, alpha: Tensor | None = None, wants_alpha: bool = False) -> None:
        self.saved_tensors = () if weights is None else (weights,)
        self.alpha = alpha
        self.dim = -1
        self.needs_input_grad = (True, wants_alpha)

    def save_for_backward(self, *tensors: Tensor) -> None:
        """Keep them for the backward pass."""
        self.saved_tensors = tensors


def _like(value: Tensor | float, other: Tensor) -> Tensor:
    return value.to(other.dtype) if isinstance(value, Tensor) else other.new_full((1,), value)


_POINTWISE: Final[dict[MapName, Callable[[Tensor, AttentionSpec], Tensor]]] = {
    "relu": lambda scores, _: scores.relu(),
    "relu2": lambda scores, _: scores.relu().square(),
    "gelu": lambda scores, _: F.gelu(scores),
    "leaky": lambda scores, spec: F.leaky_relu(scores, spec.negative_slope),
    "sigmoid": lambda scores, _: scores.sigmoid(),
}
