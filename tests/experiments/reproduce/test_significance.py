"""Tests that decide about claims, beside scipy's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rela.experiments.reproduce.claims.significance import (
    judge_draws,
    judge_margins,
    judge_means,
    mean_of_drawn,
    shown_p,
    two_sided_p,
)

stats = pytest.importorskip("scipy.stats")


@given(t=st.floats(-50, 50), freedom=st.floats(1, 60))
def test_students_t(t: float, freedom: float) -> None:
    assert two_sided_p(t, freedom) == pytest.approx(2 * stats.t.sf(abs(t), freedom), abs=1e-4)


def test_three_trainings() -> None:
    margins = [0.1, 0.2, 0.4]
    found = judge_margins(margins)
    assert found.test == f"t-test over 3 trainings, {shown_p(stats.ttest_1samp(margins, 0).pvalue)}"
    assert found.answer == "underpowered"
    assert judge_margins([0.1, 0.11, 0.12]).answer == "holds"
    assert judge_margins([-0.1, -0.11, -0.12]).answer == "does not hold"
    assert judge_margins([0.1, 0.1, 0.1]).answer == "holds"
    assert judge_margins([0.0, 0.0]).answer == "underpowered"


def test_two_systems() -> None:
    first, second = [0.5, 0.52, 0.55], [0.3, 0.4, 0.35]
    found = judge_means(first, second)
    assert found.test.endswith(shown_p(stats.ttest_ind(first, second, equal_var=False).pvalue))
    assert found.answer == "holds"
    assert judge_means(second, first).answer == "does not hold"


def test_one_training_tells_nothing_about_trainings() -> None:
    assert judge_margins([0.9]).answer == "underpowered"
    assert judge_means([0.9], [0.1, 0.2]).answer == "underpowered"


def test_draws_of_sentences() -> None:
    draws = np.random.default_rng(1).normal(0.1, 0.01, (3, 1000))
    assert judge_draws(draws[0], 1).answer == "holds"
    assert judge_draws(-draws[0], 1).answer == "does not hold"
    assert judge_draws(draws[0] - 0.1, 1).answer == "underpowered"
    assert "sentences and 3 trainings" in judge_draws(mean_of_drawn(list(draws)), 3).test


def test_trainings_are_drawn_too() -> None:
    """Three trainings that differ make the interval wide, though each has hardly any chance of its own."""
    draws = [np.full(1000, value) for value in (0.0, 0.5, 1.0)]
    drawn = mean_of_drawn(draws)
    assert drawn.std() == pytest.approx(np.std([0, 0.5, 1]) / np.sqrt(3), rel=0.1)
    assert not np.array_equal(drawn, mean_of_drawn(draws, stream=1))
