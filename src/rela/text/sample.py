"""A sample of pairs that subwords can be learned from with little memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

WORD_BYTES: Final = 5_000_000
"""All distinct words of a sample together. Learning takes about 115 bytes for each of these: 0.6 GB."""


def find_stride(texts: Iterable[Sequence[str]], *, word_bytes: int = WORD_BYTES) -> int:
    """The least power of two n, such that the distinct words of every n-th item have no more than so many bytes.

    Memory follows from the words, not from the sentences: where no blanks are written, as in Chinese, nearly every
    sentence has new ones. One pass, with memory for the words of one sample: a word is kept as long as an item that
    is in the sample has it.
    """
    coarsest: dict[str, int] = {}  # for each word the largest stride at which an item that has it is taken
    total, stride = 0, 1
    for number, item in enumerate(texts):
        if number % stride:
            continue
        taken = number & -number if number else 1 << 62  # the largest power of two that divides it
        for text in item:
            for word in text.split():
                known = coarsest.get(word, 0)
                if taken > known:
                    coarsest[word] = taken
                    total += 0 if known else len(word.encode())
        while total > word_bytes and number:
            stride *= 2
            coarsest = {word: taken for word, taken in coarsest.items() if taken >= stride}
            total = sum(len(word.encode()) for word in coarsest)
            if number < stride:  # nothing but the first item is left, however long it is
                break
    return stride
