"""The alignment error rate, by hand."""

import pytest

from rela.alignment.errors import GoldLinks, alignment_error_rate

GOLD = GoldLinks(sure={(0, 0), (1, 1)}, possible={(0, 0), (1, 1), (2, 1)})


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([(0, 0), (1, 1)], 0.0),
        ([(0, 0), (1, 1), (2, 1)], 0.0),  # a possible link costs nothing
        ([(0, 0)], 1 - 2 / 3),
        ([(5, 5)], 1.0),
        ([], 1.0),
        ([(0, 0), (2, 1), (4, 4)], 1 - (1 + 2) / (3 + 2)),
    ],
)
def test_of_one_pair(found: list[tuple[int, int]], expected: float):
    assert alignment_error_rate([(found, GOLD)]) == pytest.approx(expected)


def test_counts_over_all_pairs_not_rates():
    other = GoldLinks([(3, 3)], [(3, 3)])
    rate = alignment_error_rate([([(0, 0)], GOLD), ([(3, 3), (4, 4), (5, 5)], other)])
    assert rate == pytest.approx(1 - (1 + 1 + 1 + 1) / (1 + 2 + 3 + 1))


def test_sure_links_must_be_possible():
    with pytest.raises(ValueError, match=r"got \[\(0, 0\)\] sure only"):
        alignment_error_rate([([], GoldLinks([(0, 0)], []))])


def test_nothing_at_all():
    with pytest.raises(ValueError, match="at least one link"):
        alignment_error_rate([])
