"""Quality: what it learns, what it may never learn, and that it is optimal where it says so."""

import os
import subprocess
import sys

import numpy as np
import pytest

from rela.filtering.features import area_under_curve
from rela.filtering.quality import QualityModel, badness_columns, fit_quality, fit_weights, sigmoid

NAMES = ("cross_entropy", "coverage.1.0", "length_ratio")
Floats = np.ndarray


def made(count: int, shift: float, seed: int) -> Floats:
    """Features of pairs: the worse, the larger the shift."""
    generator = np.random.default_rng(seed)
    return generator.normal([shift, -shift, shift], 1.0, (count, 3))


def test_it_tells_good_from_bad():
    found = fit_quality(NAMES, made(400, 0, 0), made(400, 3, 1), ["some"])
    good, bad = found.quality(made(300, 0, 2)), found.quality(made(300, 3, 3))
    assert area_under_curve(bad, good) > 0.98
    assert ((good >= 0) & (good <= 1)).all()
    assert good.mean() > 0.9
    assert bad.mean() < 0.1


def test_probabilities_are_calibrated():
    """Of the pairs that get a quality of about q, a share q is good, if good and bad ones are equally many."""
    found = fit_quality(NAMES, made(3000, 0, 0), made(3000, 1.2, 1), [])
    good, bad = made(5000, 0, 2), made(5000, 1.2, 3)
    values = found.quality(np.concatenate([good, bad]))
    labels = np.repeat([1, 0], 5000)
    for low in (0.2, 0.4, 0.6, 0.8):
        inside = (values >= low) & (values < low + 0.2)
        assert labels[inside].mean() == pytest.approx(values[inside].mean(), abs=0.12)


def test_bad_pairs_of_the_corpus_are_found():
    """Three in ten of the corpus are spoiled already, and nobody says which."""
    corpus = np.concatenate([made(700, 0, 0), made(300, 3, 1)])
    found = fit_quality(NAMES, corpus, made(1000, 3, 2), [])
    kept = found.quality(corpus) > 0.5
    assert kept[:700].mean() > 0.95
    assert kept[700:].mean() < 0.05
    assert found.share == pytest.approx(0.7, abs=0.05)


def test_noise_that_was_not_made_is_never_a_good_sign():
    """A kind of noise that only the corpus has, with a huge loss, would else be taken for a mark of real pairs."""
    good, loss = made(800, 0, 0), np.array([9.0, 0.0, 0.0])
    found = fit_quality(NAMES, np.concatenate([good, made(200, 0, 1) + loss]), made(1000, 2, 2), [])
    assert (found.logits(good + loss) <= found.logits(good)).all()


@pytest.mark.parametrize(("column", "step"), [(0, 1.0), (1, -1.0)])
def test_each_feature_speaks_in_its_own_direction(column: int, step: float):
    found = fit_quality(NAMES, made(200, 0, 0), made(200, 1, 1), [])
    row = np.tile(np.median(made(200, 0, 0), axis=0), (30, 1))
    row[:, column] += step * np.linspace(-6, 6, 30)
    assert (np.diff(found.logits(row)) <= 1e-12).all()


def test_a_length_may_be_wrong_both_ways():
    real = made(500, 0, 0)
    longer = np.array([0.0, 0.0, 4.0])
    spoiled = np.concatenate([made(250, 0, 1) + longer, made(250, 0, 2) - longer])
    found = fit_quality(NAMES, real, spoiled, [])
    assert found.quality(np.array([[0.0, 0.0, 5.0], [0.0, 0.0, -5.0], [0.0, 0.0, 0.0]])).round(1).tolist() == [0, 0, 1]


def test_the_fit_is_a_minimum():
    """No weight can move, within its limits, and make the loss smaller."""
    good, bad = (badness_columns(NAMES, made(150, shift, seed)) for shift, seed in ((0, 0), (1, 1)))
    weights, bias = fit_weights(good, bad)
    columns = np.concatenate([good, bad])
    labels = np.repeat([0.0, 1.0], 150)

    def loss(w: Floats, b: float) -> float:
        t = columns @ w - b
        return float((np.logaddexp(0, t) - labels * t).sum() + 0.5 * (w**2).sum())

    assert (weights >= 0).all()
    assert (weights == 0).any()
    best = loss(weights, bias)
    for place in range(len(weights)):
        for step in (-1e-3, 1e-3):
            moved = weights.copy()
            moved[place] = max(0.0, moved[place] + step)
            assert loss(moved, bias) >= best - 1e-7
    assert loss(weights, bias + 1e-3) >= best - 1e-7
    assert loss(weights, bias - 1e-3) >= best - 1e-7


def test_bad_pairs_have_an_order_too():
    np.testing.assert_allclose(
        sigmoid(np.array([-80.0, -40.0, 0.0, 2.0, 800.0])), [1.8e-35, 4.25e-18, 0.5, 0.881, 1], 0.01
    )
    assert sigmoid(np.array([-1000.0]))[0] == 0


def test_round_trip():
    found = fit_quality(NAMES, made(100, 0, 0), made(100, 2, 1), ["shuffled"])
    again = QualityModel.from_json(found.to_json(), "here")
    rows = made(20, 1, 5)
    np.testing.assert_array_equal(again.quality(rows), found.quality(rows))
    assert again.noises == ("shuffled",)


@pytest.mark.parametrize(
    "change",
    [
        {"format": "other"},
        {"weights": [1.0]},
        {"centre": [0.0]},
        {"bias": None},
        {"bias": "x"},
        {"bias": 1e999},
        {"scale": [0.0] * len(NAMES)},
        {"features": None},
    ],
)
def test_wrong_files(change: dict[str, object]):
    data = fit_quality(NAMES, made(100, 0, 0), made(100, 2, 1), []).to_json() | change
    with pytest.raises(ValueError, match="calibrate anew"):
        QualityModel.from_json(data, "here")


def test_constant_features_do_no_harm():
    real, spoiled = made(100, 0, 0), made(100, 2, 1)
    real[:, 1] = spoiled[:, 1] = 0.0
    assert np.isfinite(fit_quality(NAMES, real, spoiled, []).quality(spoiled)).all()


def test_the_same_whatever_threads_numpy_has() -> None:
    """Calibrations are part of what a run is recognised by: they must not depend on the machine's cores."""
    code = """
import json, sys
import numpy as np
from rela.filtering.pool import one_thread
from rela.filtering.quality import fit_quality
rng = np.random.default_rng(1)
names = [f"loss.{n}" for n in range(30)]
with one_thread():
    found = fit_quality(names, rng.normal(size=(4000, 30)), rng.normal(0.4, 1, size=(4000, 30)), ["shuffled"])
print(json.dumps(found.to_json()))
"""
    found: list[str] = []
    for threads in ("1", "2"):
        environment = {**os.environ, **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), threads)}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        found.append(done.stdout)
    assert found[0] == found[1]
