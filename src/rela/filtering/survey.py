"""A first look at a whole input: how many rows, what is wrong with them, and a sample of the good ones."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from rela.text.rows import RowWindow

SAMPLE: Final = 2000
"""Pairs that a calibration is learned from."""


@dataclass
class Survey:
    """What was seen. ``sample`` has pairs of all parts of the input, in their order; ``digests`` are of its windows."""

    num_rows: int = 0
    digests: list[bytes] = field(default_factory=list[bytes])
    problems: Counter[str] = field(default_factory=Counter[str])
    sample: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    @property
    def num_windows(self) -> int:
        """How many windows there are."""
        return len(self.digests)

    @property
    def digest(self) -> str:
        """What tells the pairs that were seen from others."""
        return hashlib.blake2b(b"".join(self.digests), digest_size=16).hexdigest()

    @property
    def num_good(self) -> int:
        """Rows with two sides."""
        return self.num_rows - self.problems.total()


def look_through(
    windows: Iterable[RowWindow], *, size: int = SAMPLE, seed: int = 1, seen: Callable[[int], None] = lambda _: None
) -> Survey:
    """Read all windows once. Every good pair is equally likely to be in the sample (reservoir sampling)."""
    found = Survey()
    generator = np.random.default_rng(seed)
    numbers: list[int] = []
    sample: list[tuple[str, str]] = []
    num_good = 0
    for window in windows:
        found.num_rows += len(window)
        found.digests.append(window.digest())
        found.problems.update(window.problems.values())
        drawn = generator.integers(np.arange(num_good, num_good + len(window.pairs)) + 1)
        for place, pair in zip(drawn.tolist(), window.pairs, strict=True):
            if len(sample) < size:
                sample.append(pair)
                numbers.append(num_good)
            elif place < size:
                sample[place], numbers[place] = pair, num_good
            num_good += 1
        seen(len(window))
    found.sample = [sample[place] for place in np.argsort(numbers, kind="stable").tolist()]
    return found
