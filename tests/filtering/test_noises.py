"""Noise by seed: what each kind does, and that it does it the same way every time."""

import re
from collections import Counter

import pytest

from rela.filtering.noises import MOST_ADDED, NOISES, Material, Noisy, make_noise, mix_noise

PAIRS = [
    (f"The {colour} {animal} sees {number} houses and no {place}", f"{german} sieht {zahl} Häuser und Tier {place}")
    for place, (colour, animal, number, german, zahl) in enumerate(
        zip(
            ["old", "green", "small", "large"] * 5,
            ["dog", "cat", "horse", "bird", "cow"] * 4,
            ["two", "three", "four", "five"] * 5,
            ["Der alte Hund", "Die grüne Katze", "Das kleine Pferd", "Der große Vogel"] * 5,
            ["zwei", "drei", "vier", "fünf"] * 5,
            strict=True,
        )
    )
]
MATERIAL = Material(PAIRS, "de")
NUMBERS = ("zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn")


@pytest.mark.parametrize("kind", NOISES)
def test_seeds(kind: str):
    first = make_noise(kind, MATERIAL, 1)
    assert first == make_noise(kind, MATERIAL, 1)
    assert kind == "copied" or first != make_noise(kind, MATERIAL, 2)
    assert len(first) > 15
    for noisy in first:
        source, target = PAIRS[noisy.place]
        assert noisy.source == source
        assert noisy.target != target
        assert noisy.target.strip()


@pytest.mark.parametrize("kind", NOISES)
def test_a_pair_is_spoiled_the_same_way_wherever_it_is_asked_for(kind: str):
    """Its place decides, not what was spoiled before it."""
    some = {noisy.place: noisy.target for noisy in make_noise(kind, MATERIAL, 3)}
    again = {noisy.place: noisy.target for noisy in make_noise(kind, MATERIAL, 3) if noisy.place > 10}
    assert again == {place: target for place, target in some.items() if place > 10}


def by_place(kind: str, material: Material = MATERIAL, seed: int = 1) -> dict[int, Noisy]:
    return {noisy.place: noisy for noisy in make_noise(kind, material, seed)}


def test_shuffled():
    targets = [target for _, target in PAIRS]
    for place, noisy in by_place("shuffled").items():
        assert noisy.target in targets
        assert noisy.target != PAIRS[place][1]


def test_wrong_language():
    sources = [source for source, _ in PAIRS]
    for place, noisy in by_place("wrong-language").items():
        assert noisy.target in sources
        assert noisy.target != PAIRS[place][0]
    french = [f"phrase {place}" for place in range(len(PAIRS))]
    found = by_place("wrong-language", Material(PAIRS, "de", french))
    assert all(noisy.target == french[place] for place, noisy in found.items())


def test_insertion_does_not_betray_itself_by_length():
    added = Counter(
        len(noisy.target.split()) - len(PAIRS[noisy.place][1].split())
        for seed in range(20)
        for noisy in make_noise("insertion", MATERIAL, seed)
    )
    assert set(added) == {0, 2, 3, MOST_ADDED}
    assert 0.3 < added[0] / added.total() < 0.7


def test_appended():
    for place, noisy in by_place("appended").items():
        assert noisy.target.startswith(PAIRS[place][1] + " ")


def test_omission():
    for place, noisy in by_place("omission").items():
        words, left = PAIRS[place][1].split(), noisy.target.split()
        gone = len(words) - len(left)
        assert len(words) // 4 <= gone <= len(words) // 2
        assert any(words[:start] + words[start + gone :] == left for start in range(len(left) + 1))


def test_salad_has_as_many_words_of_targets():
    known = {word for _, target in PAIRS for word in target.split()}
    for place, noisy in by_place("word-salad").items():
        assert len(noisy.target.split()) == len(PAIRS[place][1].split())
        assert set(noisy.target.split()) <= known


def test_copied():
    assert all(noisy.target == noisy.source for noisy in by_place("copied").values())


def test_numbers_and_nothing_else():
    for place, noisy in by_place("number").items():
        old, new = PAIRS[place][1].split(), noisy.target.split()
        changed = [(a, b) for a, b in zip(old, new, strict=True) if a != b]
        assert len(changed) == 1
        (a, b) = changed[0]
        assert len(a) == len(b) if a.isdigit() else b in NUMBERS
    plain = Material([("a b", "c d"), ("e f", "g h")], "de")
    assert make_noise("number", plain, 1) == []
    digits = Material([("in 1999", "1999"), ("at 7", "um 7")], None)
    for noisy in make_noise("number", digits, 1):
        assert re.fullmatch(r"\d{4}|um \d", noisy.target)


def test_misordered():
    for place, noisy in by_place("misordered").items():
        assert sorted(noisy.target.split()) == sorted(PAIRS[place][1].split())
    assert make_noise("misordered", Material([("a", "b"), ("c", "d d")]), 1) == []


def test_misspelling_keeps_the_number_of_words():
    for place, noisy in by_place("misspelling").items():
        old, new = PAIRS[place][1].split(), noisy.target.split()
        changed = [(a, b) for a, b in zip(old, new, strict=True) if a != b]
        assert changed
        assert all(len(a) > 3 and abs(len(a) - len(b)) <= 1 for a, b in changed)


def test_wrong_use():
    with pytest.raises(ValueError, match=r"noise: expected one of shuffled, .*, got 'nosie'"):
        make_noise("nosie", MATERIAL, 1)
    with pytest.raises(ValueError, match="expected at least 2 pairs to make noise of, got 1"):
        make_noise("shuffled", Material(PAIRS[:1]), 1)


def test_very_short_targets():
    short = Material([("a", "x"), ("b", "y"), ("c", "z z")])
    for kind in NOISES:
        assert all(isinstance(noisy.place, int) for noisy in make_noise(kind, short, 1))


def test_mixed():
    pairs, how = mix_noise(MATERIAL, 0.5, list(NOISES), 1)
    assert (pairs, how) == mix_noise(MATERIAL, 0.5, list(NOISES), 1)
    assert 4 <= sum(kind is not None for kind in how) <= 16
    for before, after, kind in zip(PAIRS, pairs, how, strict=True):
        assert (before == after) == (kind is None)
    assert mix_noise(MATERIAL, 0.0, ["shuffled"], 1) == (PAIRS, [None] * len(PAIRS))
    copied, kinds = mix_noise(MATERIAL, 1.0, ["copied"], 1)
    assert set(kinds) == {"copied"}
    assert all(source == target for source, target in copied)
