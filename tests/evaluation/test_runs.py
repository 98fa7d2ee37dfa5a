"""Differences between systems that were trained several times."""

import math

import numpy as np
import pytest

from rela.evaluation.counts import Counts
from rela.evaluation.runs import Spread, contrast_of_runs, difference_of_runs
from rela.evaluation.sacre import bleu_counts, packed_bleu_counts


def made(mean: float, seed: int, sentences: int = 400) -> Counts:
    """Scores that are the mean of one number a sentence."""
    values = np.random.default_rng(seed).normal(mean, 1.0, (sentences, 1))
    rows = np.concatenate([values, np.ones((sentences, 1))], axis=1)
    return Counts(rows=rows, score=lambda sums: sums[0] / sums[1])


def test_a_clear_difference_has_an_interval_on_one_side() -> None:
    found = difference_of_runs([made(1.0, seed) for seed in (1, 2, 3)], [made(0.0, seed) for seed in (4, 5, 6)])
    assert 0.8 < found.low < found.delta < found.high < 1.2
    assert found.p < 0.01
    assert found.runs == (3, 3)


def test_equal_systems_have_both_signs() -> None:
    found = difference_of_runs([made(0.0, seed) for seed in (1, 2)], [made(0.0, seed) for seed in (3, 4)])
    assert found.low < 0 < found.high
    assert found.p > 0.05


def test_the_same_training_twice_does_not_differ() -> None:
    found = difference_of_runs([made(0.5, 1)], [made(0.5, 1)])
    assert (found.delta, found.low, found.high, found.p) == (0.0, 0.0, 0.0, 1.0)


def test_the_chance_of_seeds_widens_the_interval() -> None:
    """Sentences alone do not know that another training of the same system would have another score."""
    first, second = [made(0.3, 1)], [made(0.0, 2)]
    one = difference_of_runs(first, second)
    several = difference_of_runs(first, second, Spread(deviation=0.2, freedom=10))
    assert several.delta == one.delta
    assert several.high - several.low > 1.5 * (one.high - one.low)
    assert "seeds:t(10),0.2" in several.signature
    assert "seeds" not in one.signature


def test_the_spread_is_that_within_systems() -> None:
    assert Spread.pooled([[1.0, 3.0], [10.0, 12.0, 14.0], [99.0]]) == Spread(
        deviation=math.sqrt((2 + 8) / 3), freedom=3
    )
    assert Spread.pooled([[1.0], [2.0]]) is None


def test_intervals_have_the_coverage_that_they_promise() -> None:
    """Of systems that do not differ, with seeds that do: one in twenty intervals is all on one side of 0."""
    generator = np.random.default_rng(5)
    outside = 0
    for _ in range(400):
        levels = generator.normal(0, 0.3, (5, 3))
        spread = Spread.pooled(levels.tolist())
        assert spread is not None
        draws = levels[0].mean() - levels[1].mean() + spread.draw(generator, 1000, math.sqrt(2 / 3))
        low, high = np.percentile(draws, [2.5, 97.5])
        outside += not low <= 0 <= high
    assert 0.02 < outside / 400 < 0.08


def test_a_sum_of_three_systems() -> None:
    """One above the middle of two others, which a difference of two cannot say."""
    systems = {value: [made(value, seed)] for seed, value in enumerate((1.0, 0.8, 0.0))}
    found = contrast_of_runs([(1.0, systems[0.8]), (-0.5, systems[1.0]), (-0.5, systems[0.0])])
    assert found.delta == pytest.approx(0.3, abs=0.15)
    assert found.low < found.delta < found.high
    assert found.runs == (1, 1, 1)


def test_other_test_sets_are_refused() -> None:
    with pytest.raises(ValueError, match="the same test set"):
        difference_of_runs([made(0.0, 1)], [made(0.0, 2, sentences=10)])
    with pytest.raises(ValueError, match="at least one training"):
        difference_of_runs([], [made(0.0, 2)])


def test_kept_counts_of_bleu_give_the_score_again() -> None:
    from rela.evaluation.bleu import bleu_metric, corpus_bleu
    from rela.evaluation.sacre import counts_of

    texts, references = ["the cat sat on the mat", "a dog ran home"], ["the cat sat on a mat", "a dog runs home now"]
    texts += ["", "no"]
    references += ["", "no"]
    counts = counts_of(bleu_metric([references]), texts)
    kept = bleu_counts(packed_bleu_counts(counts))
    np.testing.assert_array_equal(kept.rows, counts.rows)
    assert kept.score(kept.rows.sum(0).tolist()) == corpus_bleu(texts, [references], num_bootstrap=0).score
