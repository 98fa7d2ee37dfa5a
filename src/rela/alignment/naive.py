"""Word weights and links of one sentence, by loops in float64: what the fast forms are tested against.

Weights between pieces are ``[target pieces + 1, source pieces + 1]``: row ``i`` predicts target piece ``i`` and has
piece ``i - 1`` as its input (BOS for row 0); the last column is the source's EOS. A word is a list of its pieces.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rela.alignment.errors import Link

Weights = NDArray[np.float64]
Words = Sequence[Sequence[int]]


def word_weights(weights: Weights, source: Words, target: Words, *, shifted: bool) -> Weights:
    """Weights ``[target words, source words]``: summed over a source word's pieces, averaged over a target word's.

    ``shifted`` takes the row whose input is the piece, else the row that predicts it.
    """
    found = np.zeros((len(target), len(source)))
    for row, target_pieces in enumerate(target):
        for column, source_pieces in enumerate(source):
            total = sum(weights[t + int(shifted), s] for t in target_pieces for s in source_pieces)
            found[row, column] = total / max(len(target_pieces), 1)
    return found


def merged_links(weights: Weights, source: Words, target: Words, *, shifted: bool) -> list[Link]:
    """For each target word the source word of largest weight; of equal ones the first. A row without weight: none."""
    links: list[Link] = []
    for row, found in enumerate(word_weights(weights, source, target, shifted=shifted)):
        if len(found) and found.max() > 0:
            links.append((int(found.argmax()), row))
    return links


def any_links(weights: Weights, source: Words, target: Words, *, shifted: bool) -> list[Link]:
    """Two words are linked if a piece of one has its largest weight, EOS left out, at a piece of the other."""
    links: set[Link] = set()
    for row, target_pieces in enumerate(target):
        for t in target_pieces:
            pieces = weights[t + int(shifted), :-1]
            if len(pieces) and pieces.max() > 0:
                best = int(pieces.argmax())
                links |= {(word, row) for word, source_pieces in enumerate(source) if best in source_pieces}
    return sorted(links, key=lambda link: (link[1], link[0]))
