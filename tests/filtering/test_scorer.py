"""Scores are what their definitions say, whatever the batch; quality is learned, remembered and bounded."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.filtering.scoring import made_pairs, make_scorer, scores_by_definition
from tests.model.folders import make_folder

import rela
from rela.bench.scoring import count_flips
from rela.filtering.calibration import Calibration
from rela.filtering.encoding import EncodedWindow
from rela.filtering.features import force, force_bare
from rela.filtering.scorer import LOOKS, Scorer


@pytest.fixture(scope="module", params=["rela-g", "softmax", "rela-g-gelu"])
def scorer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Scorer:
    return make_scorer(tmp_path_factory.mktemp("model") / "model", request.param)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model"
    make_scorer(path)
    return path


def test_by_definition(scorer: Scorer):
    pairs = [*made_pairs(40, seed=3), ("a", "b"), ("dog " * 30, "Hund"), ("cat", "Katze, " * 25)]
    for pair, found in zip(pairs, scorer.score(pairs), strict=True):
        for name, value in scores_by_definition(scorer, pair).items():
            assert getattr(found, name) == pytest.approx(value, rel=2e-4, abs=1e-5), (pair, name)
        assert 0 <= found.quality <= 1
        assert found.problem is None


def test_losses_are_those_of_a_bare_pass(scorer: Scorer):
    window = EncodedWindow.encode(scorer.tokenizers, made_pairs(30))
    for batch in window.batches(np.arange(30)):
        found = force(scorer.model, batch).losses
        torch.testing.assert_close(found, force_bare(scorer.model, batch), atol=1e-5, rtol=1e-5)


def test_softmax_is_never_null(tmp_path: Path):
    scorer = make_scorer(tmp_path / "model", "softmax")
    assert {score.null_rate for score in scorer.score(made_pairs(20))} == {0.0}


class TestBatches:
    def test_of_other_sizes(self, folder: Path):
        """Rounding may bring a weight across zero; nearly always it does not."""
        rows, flipped = count_flips(Scorer.load(folder), made_pairs(300, seed=5))
        assert rows > 50_000
        assert flipped <= 1e-4 * rows

    def test_same_window_same_bits(self, folder: Path):
        scorer = Scorer.load(folder)
        pairs = made_pairs(200, seed=6)
        first, second = scorer.score_window(pairs), Scorer.load(folder).score_window(pairs)
        np.testing.assert_array_equal(first.values, second.values)


class TestSpans:
    def test_null_words_and_surprising_ones(self, folder: Path):
        scorer = Scorer.load(folder)
        assert scorer.calibration is not None
        pairs = made_pairs(60, seed=8)
        for pair, plain, marked in zip(pairs, scorer.score(pairs), scorer.score(pairs, spans=True), strict=True):
            assert marked.suspicious is not None
            assert plain.suspicious is None
            assert plain.quality == marked.quality
            assert set(marked.suspicious) <= set(range(len(pair[1].split()) + 1))
            assert len(marked.suspicious) >= marked.null_run


class TestProblems:
    def test_too_many_pieces(self, folder: Path):
        scorer = Scorer.load(folder)
        (good, bad) = scorer.score([("the dog", "der Hund"), ("dog " * 1500, "Hund")])
        assert good.problem is None
        assert bad.problem == "too-many-pieces"
        assert bad.quality == 0.0
        assert math.isnan(bad.null_rate)
        assert bad.to_json()["null_rate"] is None

    @pytest.mark.parametrize("pair", [("", "Hund"), ("dog", " \t")])
    def test_empty(self, folder: Path, pair: tuple[str, str]):
        with pytest.raises(ValueError, match=r"pair 1: expected text on both sides, got an empty (source|target)"):
            Scorer.load(folder).score([("dog", "Hund"), pair])

    def test_no_pairs_at_all(self, folder: Path):
        nothing: Any = None
        with pytest.raises(TypeError, match=r"pairs: expected pairs of source and target, .* got None"):
            Scorer.load(folder).score(nothing)

    def test_nothing(self, folder: Path):
        assert Scorer.load(folder).score([]) == []


class TestCalibration:
    def test_is_remembered(self, tmp_path: Path):
        scorer = make_scorer(tmp_path / "model")
        again = rela.Scorer.load(tmp_path / "model")
        pairs = made_pairs(10)
        assert again.score(pairs) == scorer.score(pairs)

    def test_of_another_version_is_left_out(self, tmp_path: Path):
        make_scorer(tmp_path / "model")
        path = tmp_path / "model" / "quality.json"
        path.write_text(path.read_text().replace("rela-calibration-2", "rela-calibration-1"))
        with pytest.warns(
            UserWarning, match=r"got 'rela-calibration-1'; calibrate anew; it is left out, and quality is learned"
        ):
            assert Scorer.load(tmp_path / "model").calibration is None

    def test_of_another_model(self, tmp_path: Path, folder: Path):
        make_folder(tmp_path / "other", seed=3)
        with pytest.raises(ValueError, match="expected a calibration of this model, got one of another"):
            Scorer.load(tmp_path / "other", calibration=folder / "quality.json")

    @pytest.mark.parametrize("text", ["", "{}", '{"format": "rela-calibration-2"}', "[1]"])
    def test_of_another_form(self, tmp_path: Path, folder: Path, text: str):
        (tmp_path / "wrong.json").write_text(text)
        with pytest.raises(ValueError, match="calibrate anew"):
            Scorer.load(folder, calibration=tmp_path / "wrong.json")

    @pytest.mark.parametrize(
        "change",
        [
            {"cross_attention": [9, 9]},
            {"matching_heads": []},
            {"matching_heads": [[7, 0]]},
            {"word_loss": "x"},
            {"word_loss": float("inf")},
            {"letters": [{"usual": 1, "costs": "AAAA"}] * 2},
        ],
    )
    def test_that_does_not_fit(self, tmp_path: Path, folder: Path, change: dict[str, object]):
        data = json.loads((folder / "quality.json").read_text(encoding="utf-8")) | change
        (tmp_path / "wrong.json").write_text(json.dumps(data))
        with pytest.raises(ValueError, match=r"wrong\.json: expected .*; calibrate anew"):
            Scorer.load(folder, calibration=tmp_path / "wrong.json")

    @pytest.mark.parametrize(
        ("options", "error"),
        [
            ({"noises": []}, r"noises: expected a list of some of shuffled, .*, got \[\]"),
            ({"noises": "shuffled"}, "noises: expected a list"),
            ({"noises": ["salad"]}, "noises: expected a list"),
            ({"seed": -1}, "seed: expected 0 or more, got -1"),
        ],
    )
    def test_wrong_options(self, folder: Path, options: dict[str, Any], error: str):
        with pytest.raises(ValueError, match=error):
            Scorer.load(folder).calibrated(made_pairs(60), **options)

    def test_without_one_the_pairs_are_learned_from(self, tmp_path: Path):
        scorer = Scorer.load(make_folder(tmp_path / "model"))
        pairs = made_pairs(60)
        told: list[int] = []
        assert scorer.score(pairs) == scorer.calibrated(pairs, tell=told.append).score(pairs)
        assert len(pairs) * 4 < sum(told) <= len(pairs) * LOOKS
        with pytest.raises(ValueError, match="expected at least 50 pairs to learn from what a good pair is, got 3"):
            scorer.score(pairs[:3])

    def test_round_trip(self, tmp_path: Path, folder: Path):
        known = Scorer.load(folder).calibration
        assert known is not None
        known.save(tmp_path / "c.json")
        again = Calibration.load(tmp_path / "c.json")
        assert again.to_json() == known.to_json()
        assert again.matching.any()

    def test_same_seed_same_calibration(self, folder: Path):
        scorer = Scorer.load(folder)
        first, second = (scorer.calibrated(made_pairs(60), seed=4).calibration for _ in range(2))
        assert first is not None
        assert second is not None
        assert first.to_json() == second.to_json()
