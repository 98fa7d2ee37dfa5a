"""Tests that decide about claims, beside scipy's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rela.evaluation.runs import Spread
from rela.experiments.reproduce.claims.significance import (
    judge_draws,
    judge_margins,
    judge_means,
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
    draws = list(np.random.default_rng(1).normal(0.1, 0.01, (3, 1000)))
    little = Spread(deviation=0.001, freedom=8)
    assert judge_draws([(1.0, draws)], little).answer == "holds"
    assert judge_draws([(-1.0, draws)], little).answer == "does not hold"
    assert judge_draws([(1.0, draws), (-1.0, [draws[0]])], little).answer == "underpowered"
    assert "8 degrees of freedom" in judge_draws([(1.0, draws)], little).test


def test_the_chance_of_seeds_counts() -> None:
    """Draws that all say the same decide nothing if another seed could say something else."""
    draws = [np.full(1000, 0.1)]
    assert judge_draws([(1.0, draws)], Spread(deviation=0.2, freedom=4)).answer == "underpowered"
    found = judge_draws([(1.0, draws)], None)
    assert found.answer == "underpowered"
    assert "no system was trained twice" in found.test
