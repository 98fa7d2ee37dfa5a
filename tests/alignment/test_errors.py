"""The alignment error rate, precision, recall and F1, by hand."""

import math

import numpy as np
import pytest

from rela.alignment.errors import ErrorCounts, ErrorTable, GoldLinks, alignment_error_rate

GOLD = GoldLinks(sure={(0, 0), (1, 1)}, possible={(0, 0), (1, 1), (2, 1)})


@pytest.mark.parametrize(
    ("found", "aer", "precision", "recall"),
    [
        ([(0, 0), (1, 1)], 0.0, 1, 1),
        ([(0, 0), (1, 1), (2, 1)], 0.0, 1, 1),  # a possible link costs nothing
        ([(0, 0)], 1 - 2 / 3, 1, 1 / 2),
        ([(0, 0), (0, 0)], 1 - 2 / 3, 1, 1 / 2),  # the same link again is no other
        ([(5, 5)], 1.0, 0, 0),
        ([], 1.0, math.nan, 0),
        ([(0, 0), (2, 1), (4, 4)], 1 - (1 + 2) / (3 + 2), 2 / 3, 1 / 2),
    ],
)
def test_of_one_pair(found: list[tuple[int, int]], aer: float, precision: float, recall: float):
    counts = ErrorCounts.of(found, GOLD)
    assert alignment_error_rate([(found, GOLD)]) == counts.aer == pytest.approx(aer)
    assert counts.precision == pytest.approx(precision, nan_ok=True)
    assert counts.recall == pytest.approx(recall)
    f1 = 0.0 if precision + recall == 0 else 2 * precision * recall / (precision + recall)
    assert counts.f1 == pytest.approx(f1, nan_ok=True)


def test_counts_over_all_pairs_not_rates():
    other = GoldLinks([(3, 3)], [(3, 3)])
    rate = alignment_error_rate([([(0, 0)], GOLD), ([(3, 3), (4, 4), (5, 5)], other)])
    assert rate == pytest.approx(1 - (1 + 1 + 1 + 1) / (1 + 2 + 3 + 1))


def test_no_sure_links():
    counts = ErrorCounts.of([(0, 0), (1, 1)], GoldLinks([], [(0, 0)]))
    assert (counts.aer, counts.precision) == (0.5, 0.5)
    assert math.isnan(counts.recall)
    assert all(math.isnan(rate) for rate in (ErrorCounts().aer, ErrorCounts().precision, ErrorCounts().f1))


def test_sums():
    parts = [ErrorCounts(1, 2, 3, 4), ErrorCounts(10, 20, 30, 40)]
    assert ErrorCounts.sum(parts) == ErrorCounts(11, 22, 33, 44)
    assert ErrorCounts.sum([]) == ErrorCounts()


def test_tables_have_the_rates_of_their_places():
    parts = [ErrorCounts(4, 5, 2, 3), ErrorCounts(0, 5, 0, 0), ErrorCounts(7, 3, 3, 7)]
    table = ErrorTable(*np.array(parts).T)
    for place, one in enumerate(parts):
        assert table.at(place) == one
        for rate in ("aer", "precision", "recall", "f1"):
            assert getattr(table, rate)[place] == pytest.approx(getattr(one, rate), nan_ok=True)


def test_sure_links_must_be_possible():
    with pytest.raises(ValueError, match=r"got \[\(0, 0\)\] sure only"):
        alignment_error_rate([([], GoldLinks([(0, 0)], []))])


def test_nothing_at_all():
    with pytest.raises(ValueError, match="at least one link"):
        alignment_error_rate([])
