"""Attention weights of made-up sentences: words of one piece and of many, and of pieces that they share."""

import random
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor

from rela.alignment.pairs import EncodedPair, PairBatch, Side
from rela.analysis.frame import Frame
from rela.analysis.statistics import TAUS
from rela.attention.spec import KINDS, Kind

Array = np.ndarray[Any, Any]
Maker = Callable[[np.random.Generator, tuple[int, ...]], Array]


class Weighing(NamedTuple):
    """Weights ``[B, H, Tq, Tk]`` of a kind, and the pairs they belong to."""

    kind: Kind
    pairs: list[EncodedPair]
    weights: Tensor
    taus: tuple[float, ...]

    @property
    def frame(self) -> Frame:
        return Frame(self.kind, PairBatch(self.pairs))


SPLITS: Final = ("one piece", "one word", "words", "straddling", "crowded", "holes")


def make_side(num_pieces: int, split: str, seed: int = 0) -> Side:
    draw = random.Random(seed)
    if split == "one piece":
        words = [[piece] for piece in range(num_pieces)]
    elif split == "one word":
        words = [list(range(num_pieces))] if num_pieces else []
    elif split == "crowded":  # every piece is three words
        words = [[piece] for piece in range(num_pieces) for _ in range(3)]
    else:
        words = list[list[int]]()
        start = 0
        while start < num_pieces:
            end = min(num_pieces, start + draw.randint(1, 4))
            words.append(list(range(start, end)))
            start = end - 1 if split == "straddling" and end - start > 1 and draw.random() < 0.5 else end
        if split == "holes":  # words of unknown characters alone; blanks, which are of no word
            words = [[] if draw.random() < 0.3 else word[draw.randint(0, 1) :] for word in words]
    return Side([f"w{number}" for number in range(len(words))], [3] * num_pieces, words)


def allowed_places(kind: Kind, pairs: list[EncodedPair]) -> Array:
    """``[B, 1, Tq, Tk]``."""
    frame = Frame(kind, PairBatch(pairs))
    allowed = frame.valid_queries[:, :, None] & (torch.arange(frame.num_keys) < frame.key_lengths[:, None])[:, None]
    return (allowed.tril() if frame.is_causal else allowed)[:, None].numpy()


def _magnitudes(low: float, high: float) -> Maker:
    return lambda rng, shape: 10 ** rng.uniform(low, high, shape)


def _signed(
    magnitudes: Maker,
) -> Maker:
    return lambda rng, shape: magnitudes(rng, shape) * rng.choice([-1, 1], shape)


STYLES: Final[dict[str, Maker]] = {
    "relu": lambda rng, shape: np.maximum(rng.normal(size=shape), 0),
    "dense": lambda rng, shape: rng.uniform(0.1, 8, shape),
    "signed": lambda rng, shape: rng.normal(size=shape) * 3,
    "eighths": lambda rng, shape: rng.integers(-3, 4, shape) / 8,  # sums of them are exact, and often 0
    "leaky": lambda rng, shape: (lambda x: np.where(x > 0, x, x * 0.01))(rng.normal(size=shape) * 5),
    "below zero": lambda rng, shape: -_magnitudes(1, 4)(rng, shape),
    "around the limit": _magnitudes(1.5, 2.2),  # of what the exponential of float32 can hold
    "huge": _magnitudes(3, 6),
    "huge, signed": _signed(_magnitudes(3, 6)),
    "tiny": _magnitudes(-30, -20),
    "denormal": _magnitudes(-44.5, -37.5),
    "of all sizes": _magnitudes(-44, 6),
    "null": lambda rng, shape: np.zeros(shape),
}
"""Of maps that give no distributions."""

DISTRIBUTIONS: Final = ("softmax", "sharp softmax", "sparse", "one-hot")


def make_weights(kind: Kind, pairs: list[EncodedPair], num_heads: int, style: str, seed: int, nulls: float) -> Tensor:
    """Some rows may be null, if the style is not one of distributions. No weight where there must be none."""
    rng = np.random.default_rng(seed)
    allowed = allowed_places(kind, pairs)
    shape = (allowed.shape[0], num_heads, *allowed.shape[2:])
    if style in DISTRIBUTIONS:
        scores = rng.normal(size=shape) * {"softmax": 1, "sharp softmax": 40, "sparse": 3, "one-hot": 1e9}[style]
        scores = np.where(allowed, scores, -np.inf)
        top = scores.max(-1, keepdims=True)
        if style == "sparse":
            scores = np.where(scores < top - 2, -np.inf, scores)
        weights = np.exp(scores - np.where(np.isinf(top), 0, top))
        weights /= np.maximum(weights.sum(-1, keepdims=True), 1)
    else:
        weights = STYLES[style](rng, shape)
        weights = weights * (rng.random((*shape[:3], 1)) >= nulls)
        weights = weights * (rng.random(shape) >= rng.choice([0, 0.5, 0.9]))
    return torch.from_numpy(np.where(allowed, weights, 0).astype(np.float32))


def laid_out(weights: Tensor, layout: str) -> Tensor:
    """The same numbers, otherwise in memory."""
    if layout == "heads inside":
        return weights.transpose(1, 2).contiguous().transpose(1, 2)
    return weights.mT.contiguous().mT if layout == "keys outside" else weights


NUM_PIECES: Final = st.sampled_from((0, 1, 2, 5, 6, 7, 8, 13, 14, 15, 16, 31, 32)) | st.integers(0, 39)
"""With BOS or EOS they come to lengths around whole vectors."""


@st.composite
def weighings(draw: st.DrawFn, most_heads: int = 6) -> Weighing:
    kind = draw(st.sampled_from(KINDS))
    num_pairs = draw(st.integers(1, 3))
    num_heads = draw(st.integers(1, most_heads) | st.sampled_from((1, 8, 17) if num_pairs == 1 else (1, 8)))
    seed = draw(st.integers(0, 2**16))
    pairs = [
        EncodedPair(
            line,
            make_side(draw(NUM_PIECES), draw(st.sampled_from(SPLITS)), seed + line),
            make_side(draw(NUM_PIECES), draw(st.sampled_from(SPLITS)), seed - line),
        )
        for line in range(1, num_pairs + 1)
    ]
    style = draw(st.sampled_from((*STYLES, *DISTRIBUTIONS)))
    weights = make_weights(kind, pairs, num_heads, style, seed, draw(st.sampled_from((0.0, 0.4, 0.9))))
    weights = laid_out(weights, draw(st.sampled_from(("plain", "heads inside", "keys outside"))))
    return Weighing(kind, pairs, weights, () if style in DISTRIBUTIONS else TAUS)
