"""Encoded pairs that hypothesis makes, with weights for them."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from rela.alignment.errors import GoldLinks
from rela.alignment.pairs import EncodedPair, PairBatch, Side


class Made(NamedTuple):
    """A batch of pairs, the weights of each ``[H, target pieces + 1, source pieces + 1]``, and gold links."""

    batch: PairBatch
    weights: list[NDArray[np.float64]]
    gold: list[GoldLinks]

    def padded(self, fill: float = 0.0) -> NDArray[np.float32]:
        """All weights in one array ``[B, H, T, S]``."""
        shape = (
            len(self.weights),
            self.weights[0].shape[0],
            *self.batch.target_in.shape[1:],
            self.batch.source.shape[1],
        )
        found = np.full(shape, fill, np.float32)
        for row, one in enumerate(self.weights):
            found[row, :, : one.shape[1], : one.shape[2]] = one
        return found


@st.composite
def sides(draw: st.DrawFn) -> Side:
    """Words have several pieces, one or none; a piece may be in several words or in none."""
    count = draw(st.integers(0, 5))
    pieces = st.lists(st.integers(0, count - 1), unique=True, max_size=3).map(sorted) if count else st.just([])
    words = draw(st.lists(pieces, max_size=4))
    return Side([f"w{place}" for place in range(len(words))], [5] * count, words)


@st.composite
def made_batches(draw: st.DrawFn, heads: int = 2) -> Made:
    """Weights are multiples of 1/8, exact in any sum: ties are ties. Some rows are null, some weights below 0."""
    pairs: list[EncodedPair] = []
    all_weights: list[NDArray[np.float64]] = []
    gold: list[GoldLinks] = []
    random = np.random.default_rng(draw(st.integers(0, 2**16)))
    for line in range(1, draw(st.integers(1, 4)) + 1):
        pair = EncodedPair(line, draw(sides()), draw(sides()))
        shape = (heads, len(pair.target.ids) + 1, len(pair.source.ids) + 1)
        weights = random.integers(-3, 5, shape) / 8
        weights[random.random(shape[:2]) < 0.2] = 0
        pairs.append(pair)
        all_weights.append(weights)
        gold.append(made_gold(random, len(pair.source.words), len(pair.target.words)))
    return Made(PairBatch(pairs), all_weights, gold)


def made_gold(random: np.random.Generator, source_words: int, target_words: int) -> GoldLinks:
    links = [(i, j) for i in range(source_words) for j in range(target_words) if random.random() < 0.5]
    return GoldLinks([link for link in links if random.random() < 0.6], links)


def as_links(linked: NDArray[np.bool_]) -> Sequence[tuple[int, int]]:
    """Of ``[Wt, Ws]``."""
    return [(int(source), int(target)) for target, source in np.argwhere(linked)]
