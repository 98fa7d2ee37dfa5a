# pyright: basic, reportGeneralTypeIssues=false, reportMissingImports=false
# These functions are in the language of Triton, not in Python: pointers and blocks have no types that one could name.
"""ReLU attention for GPUs, in Triton: what one program does with its block of queries or keys.

ReLU needs no row maximum and no row sum, so blocks just add. A block of weights lives in registers and is never
written; the backward pass makes each again, once for the gradients of keys and values and once for those of queries,
so that every number is summed by one program in one order: no atomics, the same bits in every run.

A block without a positive score skips all products but the first. Its keys and values are loaded all the same: loads
outside of the branch can be started early.

Names in capitals are known at compile time, and so is what is None. ``rows`` are queries, ``cols`` keys. Arguments:

- tensors ``[B, H, T, d]`` as pairs of a pointer and four strides;
- ``masks``: allowed places and bias, such pairs too, and thresholds, a pointer to one number for each head;
- ``sizes``: the numbers of heads, of query heads that share a key head, of queries, of keys;
- ``numbers``: scale and threshold, probability and gain of dropout.
"""

from __future__ import annotations

import triton
import triton.language as tl

# In Triton's interpreter the kernels are Python functions that work on CPU tensors. TRITON_INTERPRET=1 asks for it.
_INTERPRETED = tl.constexpr(not isinstance(tl.zeros, triton.JITFunction))
# 7 rounds of Philox pass the tests of randomness that it was published with; the usual 10 are a margin.
PHILOX_ROUNDS = tl.constexpr(7)


@triton.jit
def _places(tensor, batch, head, rows, cols):
    """Pointers to ``[rows, cols]`` of one head. In 64 bits: a mask may have more than 2^31 places."""
    pointer, strides = tensor
    pointer += batch * strides[0] + head * strides[1]
    return pointer + (rows.to(tl.int64) * strides[2])[:, None] + (cols.to(tl.int64) * strides[3])[None, :]


@triton.jit
def _load(tensor, batch, head, rows, num_rows, DIM: tl.constexpr, WIDTH: tl.constexpr):
    """Rows of one head, ``[rows, WIDTH]``, 0 from ``DIM`` and from ``num_rows`` on."""
    cols = tl.arange(0, WIDTH)
    inside = (rows < num_rows)[:, None] & (cols < DIM)[None, :]
    return tl.load(_places(tensor, batch, head, rows, cols), mask=inside, other=0.0)


@triton.jit
def _store(tensor, batch, head, rows, num_rows, block, DIM: tl.constexpr, WIDTH: tl.constexpr):
    cols = tl.arange(0, WIDTH)
    inside = (rows < num_rows)[:, None] & (cols < DIM)[None, :]
    tl.store(_places(tensor, batch, head, rows, cols), block.to(tensor[0].dtype.element_ty), mask=inside)


@triton.jit
def _product(a, b, sum_so_far, DTYPE: tl.constexpr, PRECISION: tl.constexpr):
    a, b = a.to(DTYPE), b.to(DTYPE)
    if _INTERPRETED:  # its product takes the bits of bfloat16 for integers
        a, b = a.to(tl.float32), b.to(tl.float32)
    return tl.dot(a, b, sum_so_far, input_precision=PRECISION)


@triton.jit
def _weights(
    q,
    k,
    batch,
    head,
    rows,
    cols,
    masks,
    sizes,
    numbers,
    causal_offset,
    CAUSAL: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
):
    """The weights before dropout, 0 outside."""
    allowed, bias, thresholds = masks
    _, _, num_queries, num_keys = sizes
    scale, threshold, _, _ = numbers
    scores = _product(q, tl.trans(k), tl.zeros([ROWS, COLS], tl.float32), q.dtype, PRECISION) * scale
    valid = (rows < num_queries)[:, None] & (cols < num_keys)[None, :]
    if bias is not None:
        scores += tl.load(_places(bias, batch, head, rows, cols), mask=valid, other=0.0).to(tl.float32)
    if thresholds is not None:
        scores -= tl.load(thresholds + head)
    else:
        scores -= threshold
    if allowed is not None:
        valid &= tl.load(_places(allowed, batch, head, rows, cols), mask=valid, other=0) != 0
    if CAUSAL:
        valid &= cols[None, :] <= (rows + causal_offset)[:, None]
    # Not "scores > 0": NaN is kept.
    return tl.where(valid & ~(scores <= 0), scores, 0.0)


@triton.jit
def _any_weight(weights):
    return tl.max((weights != 0).to(tl.int32)) > 0


@triton.jit
def _factors(seed, batch, head, rows, start, sizes, numbers, ROWS: tl.constexpr, COLS: tl.constexpr):
    """What dropout multiplies the weights by, ``[rows, COLS]``: a function of the seed and the place alone.

    One call of Philox gives four numbers, which go to four neighbouring keys. ``start`` is a multiple of 4.
    """
    num_heads, _, num_queries, _ = sizes
    _, _, dropout_p, gain = numbers
    lines = (batch * num_heads + head) * num_queries + rows.to(tl.int64)
    quads = (start // 4 + tl.arange(0, COLS // 4)).to(tl.uint32)[None, :]
    low = (lines & 0xFFFFFFFF).to(tl.uint32)[:, None]
    high = (lines >> 32).to(tl.uint32)[:, None]
    none = tl.zeros([ROWS, COLS // 4], tl.uint32)
    r0, r1, r2, r3 = tl.philox(seed, none + quads, none + low, none + high, none, PHILOX_ROUNDS)
    drawn = tl.reshape(tl.join(tl.join(r0, r2), tl.join(r1, r3)), [ROWS, COLS])
    return tl.where(tl.uint_to_uniform_float(drawn) >= dropout_p, gain, 0.0)


@triton.jit
def _place(num_blocks, num_heads, SIZE: tl.constexpr):
    """Sentence, head and first row of this program's block."""
    program = tl.program_id(0)
    matrix = program // num_blocks
    return (matrix // num_heads).to(tl.int64), (matrix % num_heads).to(tl.int64), program % num_blocks * SIZE


@triton.jit
def _end(first, num_keys, causal_offset, CAUSAL: tl.constexpr, ROWS: tl.constexpr):
    """Keys from here on are masked for all queries of the block."""
    end = num_keys
    if CAUSAL:
        end = tl.minimum(num_keys, tl.maximum(first + ROWS + causal_offset, 0))
    return end


@triton.jit(do_not_specialize=["causal_offset", "seed"])
def forward(
    query,
    key,
    value,
    output,
    masks,
    sizes,
    numbers,
    causal_offset,
    seed,
    KEY_DIM: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    KEY_WIDTH: tl.constexpr,
    VALUE_WIDTH: tl.constexpr,
    CAUSAL: tl.constexpr,
    DROPOUT: tl.constexpr,
    DTYPE: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
):
    """A block of queries: its output."""
    num_heads, group, num_queries, num_keys = sizes
    batch, head, first = _place(tl.cdiv(num_queries, ROWS), num_heads, ROWS)
    kv_head = head // group
    rows = first + tl.arange(0, ROWS)
    q = _load(query, batch, head, rows, num_queries, KEY_DIM, KEY_WIDTH)
    total = tl.zeros([ROWS, VALUE_WIDTH], tl.float32)
    for start in range(0, _end(first, num_keys, causal_offset, CAUSAL, ROWS), COLS):
        cols = start + tl.arange(0, COLS)
        k = _load(key, batch, kv_head, cols, num_keys, KEY_DIM, KEY_WIDTH)
        v = _load(value, batch, kv_head, cols, num_keys, VALUE_DIM, VALUE_WIDTH)
        weights = _weights(
            q, k, batch, head, rows, cols, masks, sizes, numbers, causal_offset, CAUSAL, PRECISION, ROWS, COLS
        )
        if _any_weight(weights):
            if DROPOUT:
                weights *= _factors(seed, batch, head, rows, start, sizes, numbers, ROWS, COLS)
            total = _product(weights, v, total, DTYPE, PRECISION)
    _store(output, batch, head, rows, num_queries, total, VALUE_DIM, VALUE_WIDTH)


@triton.jit(do_not_specialize=["causal_offset", "seed"])
def backward_queries(
    query,
    key,
    value,
    d_output,
    d_query,
    d_thresholds,
    masks,
    sizes,
    numbers,
    causal_offset,
    seed,
    KEY_DIM: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    KEY_WIDTH: tl.constexpr,
    VALUE_WIDTH: tl.constexpr,
    CAUSAL: tl.constexpr,
    DROPOUT: tl.constexpr,
    DTYPE: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
):
    """A block of queries: its gradient, and its share in that of the head's threshold, one number for each program."""
    num_heads, group, num_queries, num_keys = sizes
    batch, head, first = _place(tl.cdiv(num_queries, ROWS), num_heads, ROWS)
    kv_head = head // group
    rows = first + tl.arange(0, ROWS)
    q = _load(query, batch, head, rows, num_queries, KEY_DIM, KEY_WIDTH)
    d_out = _load(d_output, batch, head, rows, num_queries, VALUE_DIM, VALUE_WIDTH)
    total = tl.zeros([ROWS, KEY_WIDTH], tl.float32)
    by_row = tl.zeros([ROWS], tl.float32)
    for start in range(0, _end(first, num_keys, causal_offset, CAUSAL, ROWS), COLS):
        cols = start + tl.arange(0, COLS)
        k = _load(key, batch, kv_head, cols, num_keys, KEY_DIM, KEY_WIDTH)
        v = _load(value, batch, kv_head, cols, num_keys, VALUE_DIM, VALUE_WIDTH)
        weights = _weights(
            q, k, batch, head, rows, cols, masks, sizes, numbers, causal_offset, CAUSAL, PRECISION, ROWS, COLS
        )
        if _any_weight(weights):
            d_scores = _product(d_out, tl.trans(v), tl.zeros([ROWS, COLS], tl.float32), DTYPE, PRECISION)
            if DROPOUT:
                d_scores *= _factors(seed, batch, head, rows, start, sizes, numbers, ROWS, COLS)
            d_scores = tl.where(weights != 0, d_scores, 0.0)
            total = _product(d_scores, k, total, DTYPE, PRECISION)
            if d_thresholds is not None:
                by_row += tl.sum(d_scores, axis=1)
    _store(d_query, batch, head, rows, num_queries, total * numbers[0], KEY_DIM, KEY_WIDTH)
    if d_thresholds is not None:
        tl.store(d_thresholds + tl.program_id(0), -tl.sum(by_row))


@triton.jit(do_not_specialize=["causal_offset", "seed"])
def backward_keys(
    query,
    key,
    value,
    d_output,
    d_key,
    d_value,
    masks,
    sizes,
    numbers,
    causal_offset,
    seed,
    KEY_DIM: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    KEY_WIDTH: tl.constexpr,
    VALUE_WIDTH: tl.constexpr,
    CAUSAL: tl.constexpr,
    DROPOUT: tl.constexpr,
    DTYPE: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
):
    """A block of keys: the gradients of it and of its values, from all query heads of its group."""
    num_heads, group, num_queries, num_keys = sizes
    batch, kv_head, first = _place(tl.cdiv(num_keys, COLS), num_heads // group, COLS)
    cols = first + tl.arange(0, COLS)
    k = _load(key, batch, kv_head, cols, num_keys, KEY_DIM, KEY_WIDTH)
    v = _load(value, batch, kv_head, cols, num_keys, VALUE_DIM, VALUE_WIDTH)
    total_k = tl.zeros([COLS, KEY_WIDTH], tl.float32)
    total_v = tl.zeros([COLS, VALUE_WIDTH], tl.float32)
    first_row = 0
    if CAUSAL:  # queries before it see none of these keys
        first_row = tl.maximum(first - causal_offset, 0) // ROWS * ROWS
    for member in range(group):
        head = kv_head * group + member
        for start in range(first_row, num_queries, ROWS):
            rows = start + tl.arange(0, ROWS)
            q = _load(query, batch, head, rows, num_queries, KEY_DIM, KEY_WIDTH)
            d_out = _load(d_output, batch, head, rows, num_queries, VALUE_DIM, VALUE_WIDTH)
            weights = _weights(
                q, k, batch, head, rows, cols, masks, sizes, numbers, causal_offset, CAUSAL, PRECISION, ROWS, COLS
            )
            if _any_weight(weights):
                d_scores = _product(d_out, tl.trans(v), tl.zeros([ROWS, COLS], tl.float32), DTYPE, PRECISION)
                dropped = weights
                if DROPOUT:
                    factors = _factors(seed, batch, head, rows, first, sizes, numbers, ROWS, COLS)
                    d_scores *= factors
                    dropped = weights * factors
                d_scores = tl.where(weights != 0, d_scores, 0.0)
                total_v = _product(tl.trans(dropped), d_out, total_v, DTYPE, PRECISION)
                total_k = _product(tl.trans(d_scores), q, total_k, DTYPE, PRECISION)
    _store(d_key, batch, kv_head, cols, num_keys, total_k * numbers[0], KEY_DIM, KEY_WIDTH)
    _store(d_value, batch, kv_head, cols, num_keys, total_v, VALUE_DIM, VALUE_WIDTH)


@triton.jit(do_not_specialize=["seed"])
def dropout_factors(factors, sizes, numbers, seed, ROWS: tl.constexpr, COLS: tl.constexpr):
    """A block of queries: what dropout multiplies its weights by."""
    num_heads, _, num_queries, num_keys = sizes
    batch, head, first = _place(tl.cdiv(num_queries, ROWS), num_heads, ROWS)
    rows = first + tl.arange(0, ROWS)
    for start in range(0, num_keys, COLS):
        cols = start + tl.arange(0, COLS)
        block = _factors(seed, batch, head, rows, start, sizes, numbers, ROWS, COLS)
        inside = (rows < num_queries)[:, None] & (cols < num_keys)[None, :]
        tl.store(_places(factors, batch, head, rows, cols), block.to(factors[0].dtype.element_ty), mask=inside)


# Triton's own functions become one or the other when triton is imported, ours when this file is.
INTERPRETED = bool(_INTERPRETED.value)
MIXED = isinstance(forward, triton.JITFunction) == INTERPRETED
