"""The shuffle, and how well null rates tell shuffled pairs from real ones, against plain counting."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.analysis.batches import encoded, texts
from tests.analysis.studies import in_windows, write_corpus
from tests.model.folders import text_model, tokenizers

from rela.alignment.pairs import EncodedPair, Side
from rela.analysis.hallucination import BINS, Hallucination, area_under_curve, shuffled
from rela.analysis.inspection import inspect
from rela.analysis.measuring import Measuring


def numbered(count: int) -> list[EncodedPair]:
    """Pairs whose pieces say which they are."""
    return [EncodedPair(line, Side([], [line], []), Side([], [line], [])) for line in range(count)]


class TestShuffle:
    @given(count=st.integers(2, 200), seed=st.integers(0, 2**32), window=st.integers(0, 1000))
    def test_no_target_stays_and_each_is_used_once(self, count: int, seed: int, window: int):
        found = shuffled(numbered(count), seed, window)
        assert [pair.source.ids for pair in found] == [[line] for line in range(count)]
        assert all(pair.target.ids != pair.source.ids for pair in found)
        assert sorted(pair.target.ids[0] for pair in found) == list(range(count))
        assert found == shuffled(numbered(count), seed, window)

    @given(seed=st.integers(0, 2**32), window=st.integers(0, 1000))
    def test_other_seeds_and_windows_shuffle_otherwise(self, seed: int, window: int):
        pairs = numbered(30)
        assert shuffled(pairs, seed, window) != shuffled(pairs, seed, window + 1)
        assert shuffled(pairs, seed, window) != shuffled(pairs, seed + 1, window)

    def test_every_other_target_is_as_likely(self):
        counts = np.zeros((4, 4))
        for seed in range(3000):
            for place, pair in enumerate(shuffled(numbered(4), seed, 0)):
                counts[place, pair.target.ids[0]] += 1
        assert (counts.diagonal() == 0).all()
        off = counts[~np.eye(4, dtype=bool)]
        assert abs(off - 1000).max() < 5 * np.sqrt(1000 * 2 / 3)

    def test_few_pairs_and_pairs_alike(self):
        assert shuffled([], 1, 0) == []
        assert shuffled(numbered(1), 1, 0) == []
        alike = [pair._replace(target=Side([], [7], [])) for pair in numbered(5)]
        assert shuffled(alike, 1, 0) == []
        mixed = [*alike, EncodedPair(5, Side([], [5], []), Side([], [8], []))]
        assert len(shuffled(mixed, 1, 0)) == 2


def pairwise(low: NDArray[np.float64], high: NDArray[np.float64]) -> float:
    """Over all pairs: how often the second is above the first, equal ones counting half."""
    differences = high[None] - low[:, None]
    return float((differences > 0).mean() + (differences == 0).mean() / 2)


rates = st.lists(st.floats(0, 1), min_size=1, max_size=60).map(np.array)


class TestArea:
    @given(low=rates, high=rates)
    def test_is_that_of_all_pairs_up_to_the_bins(self, low: NDArray[np.float64], high: NDArray[np.float64]):
        places = [np.rint(values * BINS).astype(int) for values in (low, high)]
        area = area_under_curve(*(np.bincount(found, minlength=BINS + 1) for found in places))
        assert area == pytest.approx(pairwise(*(found.astype(float) for found in places)), abs=1e-12)
        near = abs(high[None] - low[:, None]) <= 1 / BINS  # only such pairs can fall into one bin
        assert abs(area - pairwise(low, high)) <= near.mean() / 2 + 1e-12

    def test_values(self):
        low, high = np.zeros(5, np.int64), np.zeros(5, np.int64)
        low[1], high[3] = 4, 2
        assert area_under_curve(low, high) == 1
        assert area_under_curve(high, low) == 0
        assert area_under_curve(low, low) == 0.5
        assert area_under_curve(low * 10**6, high * 10**6) == 1  # no overflow


class TestMeasured:
    @pytest.mark.parametrize(("count", "window"), [(24, 100), (24, 5), (7, 5), (2, 100)])
    def test_against_single_pairs(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, window: int):
        """Exactly the first pairs count, with windows that do not end there and batches that mix them with others."""
        in_windows(monkeypatch, window)
        corpus = write_corpus(tmp_path, 24, seed=5)
        model, sides = text_model()
        measuring = Measuring(model, corpus, num_hallucinated=count, seed=3)
        measuring.run(sides)
        assert measuring.hallucination is not None
        values = measuring.hallucination.values()
        pairs = encoded(sides, texts(24, 5, 9))[:count]
        fakes = [
            pair
            for number, first in enumerate(range(0, count, window))
            for pair in shuffled(pairs[first : first + window], 3, number)
        ]
        assert measuring.hallucination.num_pairs.tolist() == [count, len(fakes)]
        rates: list[NDArray[np.float64]] = []
        for name, group in (("real", pairs), ("shuffled", fakes)):
            nulls = [
                inspection.null("cross")
                for inspection in inspect(
                    (model, sides),
                    [" ".join(pair.source.words) for pair in group],
                    [" ".join(pair.target.words) for pair in group],
                )
            ]
            rows = sum(null.shape[-1] for null in nulls) * model.config.num_heads
            expected = np.array([null.sum((1, 2)) for null in nulls]).sum(0) / rows
            np.testing.assert_allclose(values[f"hallucinated.null.{name}"], expected, atol=1e-9)
            rates.append(np.array([null.mean((1, 2)) for null in nulls]))  # [pair, layer]
        for layer in range(2):
            gap = abs(values["hallucinated.auc"][layer] - pairwise(rates[0][:, layer], rates[1][:, layer]))
            near = abs(rates[1][None, :, layer] - rates[0][:, None, layer]) <= 1 / BINS
            assert gap <= near.mean() / 2 + 1e-9
        means = [found.mean(1) for found in rates]
        near = abs(means[1][None] - means[0][:, None]) <= 1 / BINS
        assert abs(float(values["hallucinated.auc.mean"]) - pairwise(*means)) <= near.mean() / 2 + 1e-9
        assert 0 < values["hallucinated.null.real"].min() < 1  # there is something to see

    def test_one_pair_has_nothing_to_compare_with(self, tmp_path: Path):
        measuring = Measuring(text_model()[0], write_corpus(tmp_path, 1), num_hallucinated=10, seed=1)
        measuring.run(tokenizers())
        assert measuring.hallucination is not None
        assert measuring.hallucination.values() == {}

    def test_none(self, tmp_path: Path):
        measuring = Measuring(text_model()[0], write_corpus(tmp_path, 3), num_hallucinated=0, seed=1)
        measuring.run(tokenizers())
        assert measuring.hallucination is None

    def test_nothing_seen(self):
        assert Hallucination(2).values() == {}
