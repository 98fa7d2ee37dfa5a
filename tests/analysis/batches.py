"""Pairs of made-up sentences, encoded, for a small model with real tokenizers."""

import random
from collections.abc import Sequence

from tests.model.folders import WORDS

from rela.alignment.pairs import EncodedPair, PairBatch, encode_pairs
from rela.text.store import Tokenizers

MARKS = [",", ".", "?"]


def texts(count: int, seed: int = 0, longest: int = 6) -> list[tuple[str, str]]:
    draw = random.Random(seed)

    def sentence() -> str:
        return " ".join(draw.choice(WORDS + MARKS) for _ in range(draw.randint(1, longest)))

    return [(sentence(), sentence()) for _ in range(count)]


def encoded(tokenizers: Tokenizers, pairs: Sequence[tuple[str, str]]) -> list[EncodedPair]:
    return list(encode_pairs(tokenizers, ((line, *pair) for line, pair in enumerate(pairs, start=1))))


def batches(tokenizers: Tokenizers, count: int = 7, size: int = 3, seed: int = 0) -> list[PairBatch]:
    pairs = encoded(tokenizers, texts(count, seed))
    return [PairBatch(pairs[start : start + size]) for start in range(0, count, size)]
