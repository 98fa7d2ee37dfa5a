"""The definitions, written for reading and for checking everything else: float64, one query at a time, no tricks.

Nothing here shares code with the fast versions.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rela.attention.spec import AttentionSpec


def naive_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    spec: AttentionSpec,
    *,
    allowed: Tensor | None = None,
    bias: Tensor | None = None,
    threshold: Tensor | None = None,
    alpha: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Outputs ``[B, H, Tq, d]`` and weights ``[B, H, Tq, Tk]`` of queries, keys and values ``[B, H, T, d]``.

    ``allowed`` and ``bias`` broadcast to the weights; ``threshold`` and ``alpha`` have one number for each head.
    """
    query, key, value = (t.double() for t in (query, key, value))
    num_batch, num_heads, num_queries, size = query.shape
    num_keys = key.shape[2]
    shape = (num_batch, num_heads, num_queries, num_keys)
    may_see = torch.ones(shape, dtype=torch.bool) if allowed is None else allowed.expand(shape)
    added = torch.zeros(shape, dtype=torch.float64) if bias is None else bias.double().expand(shape)
    scale = 1.0 / math.sqrt(size) if spec.scale is None else spec.scale
    outputs: list[Tensor] = []
    weights: list[Tensor] = []
    for b in range(num_batch):
        for h in range(num_heads):
            for i in range(num_queries):
                valid = may_see[b, h, i].nonzero()[:, 0]
                scores = (key[b, h, valid] * query[b, h, i]).sum(-1) * scale + added[b, h, i, valid]
                shift = threshold[h].double() if threshold is not None else spec.threshold
                row = naive_map(scores, spec, shift, alpha[h].double() if alpha is not None else 1.5)
                whole = torch.zeros(num_keys, dtype=torch.float64).index_put((valid,), row)
                weights.append(whole)
                outputs.append((whole[:, None] * value[b, h]).sum(0))
    size_out = value.shape[-1]
    if not outputs:
        return query.new_zeros(num_batch, num_heads, num_queries, size_out), query.new_zeros(shape)
    return (
        torch.stack(outputs).view(num_batch, num_heads, num_queries, size_out),
        torch.stack(weights).view(shape),
    )


def naive_map(scores: Tensor, spec: AttentionSpec, threshold: Tensor | float, alpha: Tensor | float) -> Tensor:
    """Weights of one query's scores to its valid keys."""
    if scores.numel() == 0:
        return scores
    match spec.map:
        case "softmax":
            return _normalised_exp(scores)
        case "sparsemax":
            return _entmax(scores, 2.0)
        case "entmax15":
            return _entmax(scores, 1.5)
        case "entmax":
            return _entmax(scores, alpha)
        case "topk":
            last = scores.sort(descending=True).values[min(spec.topk, scores.numel()) - 1]
            kept = (scores >= last).nonzero()[:, 0]
            return torch.zeros_like(scores).index_put((kept,), _normalised_exp(scores[kept]))
        case "relu":
            weights = (scores - threshold).clamp_min(0)
        case "relu2":
            weights = (scores - threshold).clamp_min(0) ** 2
        case "gelu":
            x = scores - threshold
            weights = x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))
        case "leaky":
            x = scores - threshold
            weights = torch.where(x > 0, x, spec.negative_slope * x)
        case "sigmoid":
            weights = torch.sigmoid(scores - threshold)
    return weights / scores.numel() ** spec.length_power


def naive_norm(x: Tensor, spec: AttentionSpec, parameters: dict[str, Tensor]) -> Tensor:
    """The norm of ``spec`` over the last dimension, with ``weight``, ``gate`` and ``bias`` from ``parameters``."""
    if spec.norm == "none":
        return x
    x = x.double()
    weight = parameters["weight"].double()
    if spec.norm in ("layernorm", "gated-layernorm"):
        centred = x - x.mean(-1, keepdim=True)
        y = centred / ((centred**2).mean(-1, keepdim=True) + spec.eps) ** 0.5 * weight + parameters["bias"].double()
    else:
        y = x / ((x**2).mean(-1, keepdim=True) + spec.eps) ** 0.5 * weight
    if spec.norm in ("gated-rmsnorm", "gated-layernorm"):
        y = y * torch.sigmoid(parameters["gate"].double() * x)
    return y


def _normalised_exp(scores: Tensor) -> Tensor:
    e = torch.exp(scores - scores.detach().max())
    return e / e.sum()


def _entmax(scores: Tensor, alpha: Tensor | float) -> Tensor:
    """``[(alpha-1) s - tau]_+ ^ (1/(alpha-1))``, tau by bisection, then one Newton step that carries the gradient."""
    x = (alpha - 1) * (scores - scores.detach().max())
    power = 1 / (alpha - 1)

    def total(tau: Tensor) -> Tensor:
        return ((x - tau).clamp_min(0) ** power).sum()

    with torch.no_grad():
        low, high = x.new_tensor(-1.0), x.new_tensor(0.0)
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if total(middle) >= 1 else (low, middle)
        support = x > low
        slope = (power * (x - low)[support] ** (power - 1)).sum()
    tau = low + (((x - low)[support] ** power).sum() - 1) / slope
    return torch.zeros_like(x).masked_scatter(support, (x - tau)[support].clamp_min(0) ** power)
