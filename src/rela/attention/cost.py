"""What an attention costs: operations by the paper's way of counting, by torch's counter, and parameters.

The paper counts the operations of map and norm alone, for one sentence of T tokens in all H heads: softmax
``3HT^2 - HT``, rela-g ``HT^2 + 10Td + T`` (its Table 4). The other entries are ours, counted the same way: every
arithmetic operation or comparison is 1, a sort of n numbers is ``n * ceil(log2 n)`` comparisons.
"""

from __future__ import annotations

import math

from rela.attention.spec import AttentionSpec, MapName, NormName

_BISECTION_STEPS = 50


def map_and_norm_operations(spec: AttentionSpec, num_heads: int, dim: int, length: int) -> int:
    """Operations between the scores and the output projection for one self-attended sentence."""
    threshold = length if spec.threshold != 0 or spec.learn_threshold else 0
    length_scale = length if spec.length_power != 0 else 0
    row = _row_operations(spec.map, length, spec.topk) + threshold + length_scale
    return num_heads * length * row + length * _norm_operations(spec.norm, dim)


def _row_operations(name: MapName, t: int, k: int) -> int:
    """One query's map over ``t`` keys."""
    exp_sum_divide = 3 * t - 1
    shift = 2 * t - 1  # the row's maximum, subtracted
    sort = t * math.ceil(math.log2(t)) if t > 1 else 0
    match name:
        case "relu":
            return t
        case "relu2" | "leaky":
            return 2 * t
        case "sigmoid":
            return 4 * t  # negate, exp, add, divide
        case "gelu":
            return 5 * t  # divide, erf, add, multiply, halve
        case "softmax":
            return exp_sum_divide
        case "topk":
            select = t * math.ceil(math.log2(k)) if 1 < k < t else 0
            return select + t + exp_sum_divide
        case "sparsemax":
            # cumulated sums, rank times value, comparison, support size, threshold, subtract and clamp
            return shift + sort + t + t + t + (t - 1) + 1 + 2 * t
        case "entmax15":
            # halve, square, two cumulated means, variance, delta, threshold, support size, subtract, clamp, square
            return shift + sort + t + t + 2 * (2 * t - 1) + 3 * t + 3 * t + 2 * t + (2 * t - 1) + 3 * t
        case "entmax":
            # multiply, then each step of the bisection: subtract, clamp, power, sum; at last sum and divide
            return shift + t + _BISECTION_STEPS * (4 * t + 1) + (2 * t - 1)


def _norm_operations(name: NormName, d: int) -> int:
    """One token's norm over ``d`` numbers."""
    rms = 4 * d + 1  # square, sum, mean, root, divide, gain
    gate = 6 * d  # multiply, sigmoid (4), multiply
    layer = rms + 3 * d  # mean, subtract, bias
    match name:
        case "none":
            return 0
        case "rmsnorm" | "rmsnorm-xavier":
            return rms
        case "gated-rmsnorm":
            return rms + gate
        case "layernorm":
            return layer
        case "gated-layernorm":
            return layer + gate


def counted_operations(spec: AttentionSpec, num_heads: int, dim: int, length: int) -> int:
    """Matrix products of one whole sublayer, projections included, by torch's FlopCounterMode.

    torch counts two operations for each multiply-add of a matrix product and nothing else, so the attentions that
    differ only in map and norm come out equal. Runs on the meta device: nothing is computed.
    """
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from rela.attention.multihead import MultiheadAttention

    module = MultiheadAttention(dim, num_heads, attention=spec, batch_first=True, device="meta")
    x = torch.empty(1, length, dim, device="meta")
    with FlopCounterMode(display=False) as counter:
        module(x, x, x, need_weights=True)
    return counter.get_total_flops()


def extra_parameters(spec: AttentionSpec, num_heads: int, dim: int) -> int:
    """Parameters of one sublayer that softmax attention does not have."""
    of_norm = {
        "none": 0,
        "rmsnorm": 1,
        "rmsnorm-xavier": 1,
        "gated-rmsnorm": 2,
        "layernorm": 2,
        "gated-layernorm": 3,
    }[spec.norm]
    by_head = spec.learn_threshold + (spec.map == "entmax")
    return of_norm * dim + by_head * num_heads


def transformer_parameters(
    spec: AttentionSpec, num_heads: int, dim: int, num_layers: int, ffn_dim: int, vocabulary: int
) -> int:
    """Parameters of an encoder-decoder Transformer, ``num_layers`` each, with ``spec`` in all three attentions.

    ``vocabulary`` is the number of embedding rows, source and target together; the output layer shares the target's.
    """
    attention = 4 * dim * dim + 4 * dim + extra_parameters(spec, num_heads, dim)
    ffn = 2 * dim * ffn_dim + ffn_dim + dim
    layer_norm = 2 * dim
    encoder_layer = attention + ffn + 2 * layer_norm
    decoder_layer = 2 * attention + ffn + 3 * layer_norm
    return num_layers * (encoder_layer + decoder_layer) + vocabulary * dim
