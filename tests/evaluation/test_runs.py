"""Differences between systems that were trained several times."""

import numpy as np
import pytest

from rela.evaluation.counts import Counts
from rela.evaluation.runs import difference_of_runs
from rela.evaluation.sacre import bleu_counts


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


def test_the_chance_of_trainings_widens_the_interval() -> None:
    """Sentences alone do not know that another training of the same system would have another score."""
    one = difference_of_runs([made(0.3, 1)], [made(0.0, 2)])
    several = difference_of_runs([made(mean, seed) for mean, seed in ((0.3, 1), (-0.7, 3), (1.3, 4))], [made(0.0, 2)])
    assert several.high - several.low > 1.5 * (one.high - one.low)


def test_other_test_sets_are_refused() -> None:
    with pytest.raises(ValueError, match="the same test set"):
        difference_of_runs([made(0.0, 1)], [made(0.0, 2, sentences=10)])
    with pytest.raises(ValueError, match="at least one training"):
        difference_of_runs([], [made(0.0, 2)])


def test_kept_counts_of_bleu_give_the_score_again() -> None:
    from rela.evaluation.bleu import bleu_metric, corpus_bleu
    from rela.evaluation.sacre import counts_of

    texts, references = ["the cat sat on the mat", "a dog ran home"], ["the cat sat on a mat", "a dog runs home now"]
    rows = counts_of(bleu_metric([references]), texts).rows
    kept = bleu_counts([[int(value) for value in row] for row in rows])
    assert kept.score(kept.rows.sum(0).tolist()) == corpus_bleu(texts, [references], num_bootstrap=0).score
