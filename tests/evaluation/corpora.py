"""Small corpora that the tests of this room share."""

import random

REFERENCE = [
    "The cat sat on the mat, and the dog slept.",
    "It's raining; we stay at home today.",
    "He paid 3,500 euros for the well-known painting!",
    "Nobody knows why.",
    "A second train left the station at 5.30 p.m.",
]
HYPOTHESIS = [
    "The cat sat on a mat and the dog slept.",
    "It rains; we stay at home today.",
    "He paid 3,500 euros for the well-known picture!",
    "Nobody knows why.",
    "The second train left at 5.30 p.m.",
]


def noisy(lines: list[str], share: float, seed: int) -> list[str]:
    """Lines with a share of their words replaced."""
    chance = random.Random(seed)
    return [" ".join("wrong" if chance.random() < share else word for word in line.split()) for line in lines]


def sentences(count: int, seed: int = 0) -> list[str]:
    """Random sentences of 5 to 15 words."""
    chance = random.Random(seed)
    words = [f"word{number}" for number in range(40)]
    return [" ".join(chance.choices(words, k=chance.randint(5, 15))) for _ in range(count)]
