"""ReLU attention in blocks of PyTorch operations: ReLU needs no row maximum and no row sum, so blocks just add.

One block of weights, small enough for the cache, is made, used and overwritten by the next: memory is O(T), and the
backward pass makes each block again instead of keeping it. Float32 and float64, no compiler needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final, NamedTuple

import torch
from torch import Tensor

from rela.attention.kernels.relu import Inputs, Options, with_gradients

# Elements in a block of weights: 2 MiB of float32, about one core's second-level cache.
BLOCK_ELEMENTS: Final = 1 << 19
# Query rows in a block of causal attention: later keys of a block are never computed.
CAUSAL_ROWS: Final = 128


class BlockedKernel:
    """The implementation that runs anywhere."""

    takes_shifts: ClassVar[bool] = False
    gives_weights: ClassVar[bool] = False

    def attend(self, inputs: Inputs, options: Options, *, need_weights: bool = False) -> tuple[Tensor, Tensor | None]:
        """The output ``[B, H, Tq, d]``; never the weights, of which there is only a block at a time."""
        assert not need_weights
        assert inputs.shifts is None
        return with_gradients(self, inputs, options), None

    def forward(self, inputs: Inputs, options: Options) -> Tensor:
        """The output ``[B, H, Tq, d]``."""
        num_batch, num_heads, num_queries, _ = inputs.query.shape
        output = inputs.query.new_empty(num_batch, num_queries, num_heads, inputs.value.shape[-1])
        weights_room, output_room = _Room(output), _Room(output)
        generator = _generator(options)
        for block in _blocks(inputs, options):
            if block.num_keys == 0:
                output[block.batch, block.rows, block.heads] = 0.0
                continue
            v = _take(inputs.value, block, slice(0, block.num_keys))
            weights = _weights(weights_room, inputs, block, options)
            if generator is not None:
                weights.mul_(torch.empty_like(weights).bernoulli_(1.0 - options.dropout_p, generator=generator))
            part = output_room.get(*weights.shape[:2], v.shape[-1])
            torch.baddbmm(part, weights, v, beta=0, alpha=options.dropout_gain, out=part)
            _put(output, part, block, block.rows)
        return output.transpose(1, 2)

    def backward(self, grad: Tensor, inputs: Inputs, options: Options) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Gradients of query, key, value and threshold."""
        query, key, value, threshold = inputs[:4]
        num_batch, num_heads, num_queries, key_dim = query.shape
        num_keys, value_dim = value.shape[-2:]
        blocks = list(_blocks(inputs, options))
        several_rows = any(block.rows != slice(0, num_queries) for block in blocks)
        keys_left_out = any(block.num_keys < num_keys for block in blocks)
        make = query.new_zeros if several_rows or keys_left_out else query.new_empty
        grad_query = query.new_empty(num_batch, num_queries, num_heads, key_dim)
        grad_key = make(num_batch, num_keys, num_heads, key_dim)
        grad_value = make(num_batch, num_keys, num_heads, value_dim)
        grad_threshold = None if threshold is None else torch.zeros_like(threshold)
        rooms = [_Room(query) for _ in range(4)]
        generator = _generator(options)
        gain = options.dropout_gain
        for block in blocks:
            if block.num_keys == 0:
                grad_query[block.batch, block.rows, block.heads] = 0.0
                continue
            keys = slice(0, block.num_keys)
            q, k, v = _take(query, block, block.rows), _take(key, block, keys), _take(value, block, keys)
            d_out = _take(grad, block, block.rows)
            weights = _weights(rooms[0], inputs, block, options)
            d_weights = rooms[1].get(*weights.shape)
            torch.baddbmm(d_weights, d_out, v.transpose(1, 2), beta=0, alpha=gain, out=d_weights)
            dropped = weights
            if generator is not None:
                kept = torch.empty_like(weights).bernoulli_(1.0 - options.dropout_p, generator=generator)
                d_weights.mul_(kept)
                dropped = kept.mul_(weights)
            part = rooms[2].get(weights.shape[0], block.num_keys, value_dim)
            torch.baddbmm(part, dropped.transpose(1, 2), d_out, beta=0, alpha=gain, out=part)
            _put(grad_value, part, block, keys, add=several_rows)
            # A weight of 0 is a score at or below the threshold, or a masked place: no gradient either way.
            d_scores = torch.ops.aten.threshold_backward.grad_input(d_weights, weights, 0, grad_input=d_weights)
            if grad_threshold is not None:
                by_head = d_scores.view(-1, block.heads.stop - block.heads.start, *d_scores.shape[1:])
                grad_threshold[block.heads, 0, 0] -= by_head.sum((0, 2, 3))
            part = rooms[3].get(*q.shape)
            torch.baddbmm(part, d_scores, k, beta=0, alpha=options.scale, out=part)
            _put(grad_query, part, block, block.rows)
            part = rooms[2].get(weights.shape[0], block.num_keys, key_dim)
            torch.baddbmm(part, d_scores.transpose(1, 2), q, beta=0, alpha=options.scale, out=part)
            _put(grad_key, part, block, keys, add=several_rows)
        return grad_query.transpose(1, 2), grad_key.transpose(1, 2), grad_value.transpose(1, 2), grad_threshold

    def dropout_factors(self, inputs: Inputs, options: Options) -> Tensor:
        """What the weights were multiplied by, put together from all blocks."""
        factors = inputs.query.new_zeros(*inputs.query.shape[:-1], inputs.key.shape[-2])
        generator = _generator(options)
        for block in _blocks(inputs, options):
            part = factors[block.batch, block.heads, block.rows, : block.num_keys]
            part.copy_(part.new_empty(part.shape).bernoulli_(1.0 - options.dropout_p, generator=generator))
        return factors.mul_(options.dropout_gain)


class _Block(NamedTuple):
    batch: slice
    heads: slice
    rows: slice
    num_keys: int  # keys from here on are masked for all of these rows


def _weights(room: _Room, inputs: Inputs, block: _Block, options: Options) -> Tensor:
    """The block's weights, before dropout: ``[b*h, rows, keys]``."""
    keys = slice(0, block.num_keys)
    q, k = _take(inputs.query, block, block.rows), _take(inputs.key, block, keys)
    weights = room.get(*q.shape[:2], block.num_keys)
    torch.baddbmm(weights, q, k.transpose(1, 2), beta=0, alpha=options.scale, out=weights)
    by_head = weights.view(-1, block.heads.stop - block.heads.start, *weights.shape[1:])
    if inputs.bias is not None:
        by_head.add_(_take_mask(inputs.bias, block))
    if inputs.threshold is not None:
        by_head.sub_(inputs.threshold[block.heads])
    elif options.threshold != 0:
        weights.sub_(options.threshold)
    weights.relu_()
    if inputs.allowed is not None:
        by_head.masked_fill_(~_take_mask(inputs.allowed, block), 0.0)
    if options.causal_offset is not None:
        weights.tril_(block.rows.start + options.causal_offset)
    return weights


def _blocks(inputs: Inputs, options: Options) -> Iterator[_Block]:
    num_batch, num_heads, num_queries, _ = inputs.query.shape
    num_keys = inputs.key.shape[-2]
    offset = options.causal_offset
    most_rows = CAUSAL_ROWS if offset is not None and num_queries > CAUSAL_ROWS else num_queries
    num_rows = min(most_rows, max(1, BLOCK_ELEMENTS // num_keys))
    matrices = max(1, BLOCK_ELEMENTS // (num_rows * num_keys))
    step_batch = max(1, matrices // num_heads)
    step_heads = min(num_heads, matrices)
    for b in range(0, num_batch, step_batch):
        batch = slice(b, min(b + step_batch, num_batch))
        for h in range(0, num_heads, step_heads):
            heads = slice(h, min(h + step_heads, num_heads))
            for r in range(0, num_queries, num_rows):
                rows = slice(r, min(r + num_rows, num_queries))
                visible = num_keys if offset is None else min(num_keys, max(0, rows.stop + offset))
                yield _Block(batch, heads, rows, visible)


class _Room:
    """A piece of scratch memory that each block takes its tensor from."""

    def __init__(self, like: Tensor) -> None:
        self._memory = like.new_empty(0)

    def get(self, *shape: int) -> Tensor:
        size = torch.Size(shape).numel()
        if self._memory.numel() < size:
            self._memory = self._memory.new_empty(size)
        return self._memory[:size].view(shape)


def _take(tensor: Tensor, block: _Block, positions: slice) -> Tensor:
    """The block's matrices ``[b*h, positions, d]``: a view of one sentence's heads, a copy of several sentences'."""
    part = tensor[block.batch, block.heads, positions]
    if part.shape[0] == 1:
        return part[0]
    return part.reshape(-1, *part.shape[2:])


def _take_mask(mask: Tensor, block: _Block) -> Tensor:
    """The block's share of a mask of four dimensions, where a size of 1 stands for all."""
    wanted = (block.batch, block.heads, block.rows, slice(0, block.num_keys))
    return mask[tuple(slice(None) if size == 1 else part for size, part in zip(mask.shape, wanted, strict=True))]


def _put(whole: Tensor, part: Tensor, block: _Block, positions: slice, *, add: bool = False) -> None:
    """Write the matrices ``part`` to their places in ``whole`` ``[B, T, H, d]``."""
    place = whole[block.batch, positions, block.heads].transpose(1, 2)
    part = part.view(place.shape)
    if add:
        place.add_(part)
    else:
        place.copy_(part)


def _generator(options: Options) -> torch.Generator | None:
    return torch.Generator().manual_seed(options.seed) if options.dropout_p > 0 else None
