"""What is summed over rows of weights: in torch and compiled, against plain loops, and by hand."""

import itertools
import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.analysis.meters import WAYS, needs_compiler, threads, wide_sums
from tests.analysis.naive import naive_sums
from tests.analysis.weighings import (
    DISTRIBUTIONS,
    SPLITS,
    STYLES,
    Weighing,
    allowed_places,
    make_side,
    make_weights,
    weighings,
)

from rela.alignment.pairs import EncodedPair, PairBatch, Side
from rela.analysis.frame import Frame
from rela.analysis.statistics import TAUS
from rela.analysis.sums import BY_HEAD, BY_LAYER, Sums
from rela.attention.spec import KINDS, Kind

EPS: Final = 2.0**-24
"""Of float32, in which a row is summed. Sums over rows are in float64, and lose nothing that could be seen."""

COUNTS: Final = [name in {"nonzero", "null", "unit_nonzero", "unit_null"} for name in BY_HEAD]


def assert_same(found: Sums, expected: Sums, weighing: Weighing) -> None:
    """Counts exactly, all else as well as float32 can have it."""
    assert torch.equal(found.null, expected.null)
    assert torch.equal(found.by_layer, expected.by_layer), dict(zip(BY_LAYER, found.by_layer.tolist(), strict=True))
    counts = torch.tensor(COUNTS)
    assert torch.equal(found.by_head[:, counts], expected.by_head[:, counts])
    num_rows, longest = int(expected.by_layer[3]), max(weighing.weights.shape[2:])
    sizes = weighing.weights.abs()[weighing.weights != 0].double()
    greatest = float(sizes.max()) if len(sizes) else 0.0

    # A sum of n positive numbers is off by n roundings at most. (1e-42: of denormal ones, which have few digits.)
    masses = torch.tensor([name in {"mass", "first", "last"} for name in BY_HEAD])
    for mine, theirs in (
        (found.by_head[:, masses], expected.by_head[:, masses]),
        (found.distances, expected.distances),
    ):
        torch.testing.assert_close(mine, theirs, rtol=longest * EPS, atol=1e-42)

    # ln mass + sum(-x ln x) / mass: both are as large as the logarithms of the weights, and rounded as such.
    logarithm = float(sizes.log().abs().max()) if len(sizes) else 0.0
    entropy, slack = BY_HEAD.index("entropy"), 4 * EPS * (2 + logarithm)
    torch.testing.assert_close(found.by_head[:, entropy], expected.by_head[:, entropy], rtol=0, atol=slack * num_rows)

    # Entropies of distributions, less each other. The error of a power x ** tau is that of its exponential: at tau = 1
    # there is none, but up to 60 it is not made smaller first. A word may have the weight of all its pieces.
    most = greatest * longest if weighing.taus else 0.0
    slack = EPS * (
        32 * (1 + math.log(longest)) + 4 * min(most, 60) + (math.sqrt(most) * math.log(most) if most > 60 else 0)
    )
    for level, rows in ((0, num_rows), (1, int(expected.by_layer[5]))):
        torch.testing.assert_close(found.diversity[level], expected.diversity[level], rtol=0, atol=slack * rows)


def check(weighing: Weighing) -> Sums:
    expected = naive_sums(weighing.weights, weighing.kind, weighing.pairs, weighing.taus)
    for way in WAYS.values():
        assert_same(way(weighing.weights, weighing.frame, weighing.taus), expected, weighing)
    return expected


@settings(max_examples=40)
@given(weighings(), st.sampled_from((1, 2)))
def test_all_ways_agree_with_the_definition(weighing: Weighing, num_threads: int):
    with threads(num_threads):
        check(weighing)


def make_pairs(lengths: Sequence[tuple[int, int]], splits: Sequence[str] = SPLITS) -> list[EncodedPair]:
    """Pairs of so many pieces, split into words in every way in turn."""
    ways = itertools.cycle(splits)
    sides = [[make_side(length, next(ways), seed=length) for length in pair] for pair in lengths]
    return [EncodedPair(line, *pair) for line, pair in enumerate(sides, start=1)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("style", [*STYLES, *DISTRIBUTIONS])
def test_weights_of_every_style(style: str, kind: Kind):
    pairs = make_pairs([(7, 15), (14, 6), (0, 3)])
    weights = make_weights(kind, pairs, 5, style, seed=1, nulls=0.3)
    expected = check(Weighing(kind, pairs, weights, () if style in DISTRIBUTIONS else TAUS))
    assert bool(expected.null.any()) == (style not in DISTRIBUTIONS)
    assert expected.diversity.isfinite().all()


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("kind", KINDS)
def test_words_of_every_split(kind: Kind, split: str):
    pairs = make_pairs([(20, 13), (9, 16)], [split])
    for style in ("relu", "eighths", "softmax"):
        weights = make_weights(kind, pairs, 3, style, seed=2, nulls=0.3)
        check(Weighing(kind, pairs, weights, () if style == "softmax" else TAUS))


@pytest.mark.parametrize("num_heads", [1, 2, 3, 4, 5, 8, 16, 17, 33])
@pytest.mark.parametrize("length", [1, 2, 7, 8, 9, 15, 16, 17, 33])
def test_shapes_around_whole_vectors(length: int, num_heads: int):
    pairs = make_pairs([(length - 1, 1)], ["one piece"])
    for style in ("dense", "relu", "softmax"):
        weights = make_weights("cross", pairs, num_heads, style, seed=3, nulls=0.2)
        check(Weighing("cross", pairs, weights, () if style == "softmax" else TAUS))


@needs_compiler
@pytest.mark.parametrize("path", ["wide", "narrow"])
def test_the_compiled_meter_reads_only_what_counts(path: str):
    """Not padding, nor the future: they may be anything."""
    for kind, taus in itertools.product(KINDS, (TAUS, ())):
        pairs = make_pairs([(7, 15), (14, 6), (0, 3)])
        weights = make_weights(kind, pairs, 5, "relu" if taus else "softmax", seed=1, nulls=0.3)
        frame = Frame(kind, PairBatch(pairs))
        expected = WAYS[path](weights, frame, taus)
        poisoned = weights.masked_fill(~torch.from_numpy(allowed_places(kind, pairs)), math.nan)
        assert poisoned.isnan().any()
        for found, sums in zip(WAYS[path](poisoned, frame, taus), expected, strict=True):
            assert torch.equal(found, sums)


@needs_compiler
@pytest.mark.parametrize("num_threads", [1, 2, 5])
def test_the_same_number_of_threads_gives_the_same_bits(num_threads: int):
    pairs = make_pairs([(7, 15), (14, 6), (0, 3), (30, 11)])
    weights = make_weights("cross", pairs, 5, "relu", seed=1, nulls=0.3)
    frame = Frame("cross", PairBatch(pairs))
    with threads(1):
        alone = wide_sums(weights, frame, TAUS)
    with threads(num_threads):
        first, *others = (wide_sums(weights, frame, TAUS) for _ in range(5))
    for sums in others:
        assert all(torch.equal(*both) for both in zip(first, sums, strict=True))
    for found, expected in zip(first, alone, strict=True):  # float64 in another order
        torch.testing.assert_close(found, expected, rtol=1e-13, atol=0)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_weights_that_are_no_numbers_show(way: str, wrong: float):
    pairs = make_pairs([(3, 2)])
    weights = make_weights("cross", pairs, 2, "dense", seed=1, nulls=0)
    weights[0, 1, 1, 1] = wrong
    found = WAYS[way](weights, Frame("cross", PairBatch(pairs)), TAUS)
    assert not found.by_head[1, BY_HEAD.index("mass")].isfinite()
    assert not found.by_head[1, BY_HEAD.index("entropy")].isfinite()
    assert found.diversity.isnan().all()


def cross_sums(way: str, rows: list[list[float]], taus: Sequence[float]) -> Sums:
    """One query for each head, of a source of single pieces and an empty target: the row that predicts EOS."""
    pairs = [EncodedPair(1, make_side(len(rows[0]) - 1, "one piece"), make_side(0, "one piece"))]
    return WAYS[way](torch.tensor(rows)[None, :, None], Frame("cross", PairBatch(pairs)), taus)


@pytest.mark.parametrize("way", WAYS)
class TestByHand:
    def test_statistics_of_heads(self, way: str):
        """Three words of pieces 0, 1-2 and 2, and EOS; two words, of pieces 0-1 and 2, and EOS."""
        source, target = Side(list("abc"), [3, 4, 5], [[0], [1, 2], [2]]), Side(list("xy"), [3, 4, 5], [[0, 1], [2]])
        weights = torch.tensor(
            [
                [[0.0, 1.0, 0.0, 3.0], [0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 2.0, 0.0], [4.0, 0.0, 0.0, 0.0]],
                [[0.0, -1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [0.0, 0.0, -2.0, -2.0]],
            ]
        )
        found = WAYS[way](weights[None], Frame("cross", PairBatch([EncodedPair(1, source, target)])), TAUS)
        heads = [dict(zip(BY_HEAD, row, strict=True)) for row in found.by_head.tolist()]
        entropies = [head.pop("entropy") for head in heads]
        assert heads == [
            # between words: [0, .5, 0, 1.5], [0, 2, 2, 0], [4, 0, 0, 0]
            {"nonzero": 4, "null": 1, "mass": 10, "first": 4, "last": 3, "unit_nonzero": 5, "unit_null": 0},
            # [0, 0, .5, 0] (-1 and 1 are of one word), [0, 0, 0, 0], [0, -2, -2, -2]
            {"nonzero": 4, "null": 2, "mass": 6, "first": 0, "last": 2, "unit_nonzero": 4, "unit_null": 1},
        ]
        np.testing.assert_allclose(entropies, [math.log(4) - 0.75 * math.log(3), 2 * math.log(2)], rtol=1e-6)
        # the sums over heads: [0, 0, 1, 3], [0, 0, 0, 0], [0, 0, 2, 0], [4, 0, -2, -2]
        assert dict(zip(BY_LAYER, found.by_layer.tolist(), strict=True)) == {
            "layer_nonzero": 6,
            "layer_null": 1,
            "places": 16,
            "rows": 4,
            "unit_places": 12,
            "unit_rows": 3,
        }
        distances = [dict.fromkeys(range(-10, 11), 0.0) for _ in heads]
        distances[0] |= {-3: 4.0, 0: 2.0, 1: 1.0, 3: 3.0}
        distances[1] |= {-1: 2.0, 0: 2.0, 1: 1.0, 2: 1.0}
        assert found.distances.tolist() == [list(row.values()) for row in distances]
        assert found.null.tolist() == [[[False, True, False, False], [False, True, True, False]]]

    def test_what_is_far_counts_as_ten(self, way: str):
        found = cross_sums(way, [[1.0] * 30], TAUS)
        assert found.distances[0].tolist() == [0.0] * 10 + [1.0] * 10 + [20.0]

    def test_heads_that_agree(self, way: str):
        for taus, row in ((TAUS, [0.0, 3.0, 0.5, 0.0]), (TAUS, [0.0] * 4), ((), [0.5, 0.25, 0.25, 0.0])):
            found = cross_sums(way, [row] * 5, taus)
            assert found.diversity.max() < 1e-6

    @pytest.mark.parametrize("num_heads", [2, 3, 8])
    def test_heads_that_share_no_place(self, way: str, num_heads: int):
        rows = torch.eye(num_heads)
        expected = torch.full((2, 1), math.log(num_heads), dtype=torch.float64)
        torch.testing.assert_close(cross_sums(way, rows.tolist(), ()).diversity, expected, rtol=1e-6, atol=0)
        found = cross_sums(way, (rows * 1e30).tolist(), TAUS).diversity  # 1e30 ** 0.1 is 1000: surely one place
        torch.testing.assert_close(found, expected.expand(2, 4), rtol=1e-6, atol=0)

    def test_null_heads_share_a_place_of_their_own(self, way: str):
        """Heads that are sure of one place, and null ones: the entropy of their shares."""
        found = cross_sums(way, [[1e30, 0.0], [0.0, 0.0], [0.0, 0.0], [1e30, 0.0]], TAUS).diversity
        torch.testing.assert_close(found, torch.full((2, 4), math.log(2), dtype=torch.float64), rtol=1e-6, atol=0)
        found = cross_sums(way, [[1e30, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 1e30]], TAUS).diversity
        torch.testing.assert_close(found, torch.full((2, 4), 1.5 * math.log(2), dtype=torch.float64), rtol=1e-6, atol=0)

    def test_one_null_head_beside_an_undecided_one(self, way: str):
        """[1/2, 1/2, 0] and [0, 0, 1]: their mean is [1/4, 1/4, 1/2]."""
        found = cross_sums(way, [[2.0, 2.0], [0.0, 0.0]], TAUS).diversity
        torch.testing.assert_close(found, torch.full((2, 4), math.log(2), dtype=torch.float64), rtol=1e-6, atol=0)

    def test_taus(self, way: str):
        """Weights of ln 3 make 3 : 1, at any other tau (ln 3) ** tau."""
        found = cross_sums(way, [[math.log(3), 0.0], [0.0, math.log(3)]], TAUS).diversity

        def expected(tau: float) -> float:
            p = 1 / (1 + math.exp(-(math.log(3) ** tau)))
            return math.log(2) + p * math.log(p) + (1 - p) * math.log(1 - p)

        values = torch.tensor([[expected(tau) for tau in TAUS]] * 2, dtype=torch.float64)
        torch.testing.assert_close(found, values, rtol=3e-6, atol=0)

    def test_towards_tau_0_all_weights_count_the_same(self, way: str):
        """Heads with weight on the same places agree more and more, whatever the weights are."""
        found = cross_sums(way, [[9.0, 0.0, 1.0], [1.0, 0.0, 9.0]], TAUS).diversity[0]
        assert (found.diff() < 0).all()
        assert found[-1] < 0.01
        least = cross_sums(way, [[9.0, 0.0, 1.0], [1.0, 0.0, 9.0]], (1e-3,) * 4).diversity[0]
        assert least.max() < 1e-5

    def test_bounds(self, way: str):
        for style, num_heads in itertools.product((*STYLES, *DISTRIBUTIONS), (1, 2, 6)):
            pairs = make_pairs([(12, 0)], ["words"])
            weights = make_weights("encoder", pairs, num_heads, style, seed=4, nulls=0.4)
            taus = () if style in DISTRIBUTIONS else TAUS
            found = WAYS[way](weights, Frame("encoder", PairBatch(pairs)), taus)
            for level, rows in zip(found.diversity, (found.by_layer[3], found.by_layer[5]), strict=True):
                assert (level >= 0).all()
                assert (level <= rows * (math.log(num_heads) + 1e-4)).all()
