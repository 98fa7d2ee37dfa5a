"""Weights of one sentence between words, from those between pieces."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Weights = NDArray[np.float32]


def merge_pieces(
    weights: Weights, key_words: Sequence[Sequence[int]], query_words: Sequence[Sequence[int]], *, shifted: bool
) -> Weights:
    """``[..., queries, keys]`` to ``[..., words, words]``: summed over a key's pieces, averaged over a query's.

    A word is a list of its pieces. ``shifted`` takes the row after a piece's own: the one that has it as its input.
    """
    columns = np.zeros((weights.shape[-1], len(key_words)), weights.dtype)
    for word, pieces in enumerate(key_words):
        columns[list(pieces), word] = 1
    rows = np.zeros((len(query_words), weights.shape[-2]), weights.dtype)
    for word, pieces in enumerate(query_words):
        for piece in pieces:
            rows[word, piece + int(shifted)] = 1 / len(pieces)
    return (rows @ weights @ columns).astype(np.float32)
