"""Alignment errors of drawn sentences, beside those of the whole text."""

from pathlib import Path

import numpy as np
import pytest
from tests.analysis.studies import make_model, write_corpus

from rela.alignment.batched import SHIFTS
from rela.alignment.errors import ErrorTable
from rela.analysis.corpus import Corpus
from rela.analysis.study import StudyOptions, run_study
from rela.experiments.reproduce.drawn import NUM_DRAWS, draw_alignment_errors, sentence_counts


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("drawn") / "model", dim=32, decoder_layers=3, num_heads=2)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return write_corpus(tmp_path_factory.mktemp("pairs"), 30)


def test_all_sentences_together_are_what_the_analysis_measures(model: Path, pairs: Corpus, tmp_path: Path) -> None:
    counts = sentence_counts(model, pairs)
    assert len(counts) == 30
    aer = ErrorTable(*np.moveaxis(counts.sum(0), -1, 0)).aer
    entry = run_study([model], pairs, tmp_path / "out", StudyOptions(num_examples=0))["models"][0]
    for place, shift in enumerate(SHIFTS):
        measured = entry["measures"]
        np.testing.assert_allclose(aer[place, :, :-1], measured[f"cross.aer.{shift}.merged"]["value"])
        layers = measured[f"cross.aer.{shift}.merged.layer_attention"]["value"]
        np.testing.assert_allclose(aer[place, :, -1], layers)


def test_draws_are_around_the_measure_and_the_same_each_time(model: Path, pairs: Corpus) -> None:
    found = draw_alignment_errors(model, pairs)
    assert found == draw_alignment_errors(model, pairs)
    assert set(found["draws"]) == {f"{what}.{shift}" for what in ("aol", "aoh", "middle") for shift in SHIFTS}
    counts = sentence_counts(model, pairs)
    aer = ErrorTable(*np.moveaxis(counts.sum(0), -1, 0)).aer
    for place, shift in enumerate(SHIFTS):
        draws = np.array(found["draws"][f"aol.{shift}"])
        assert draws.shape == (NUM_DRAWS,)
        assert draws.mean() == pytest.approx(aer[place, :, -1].mean(), abs=0.02)


def test_two_layers_have_no_middle(pairs: Corpus, tmp_path: Path) -> None:
    found = draw_alignment_errors(make_model(tmp_path / "model", decoder_layers=2), pairs)
    assert set(found["draws"]) == {f"{what}.{shift}" for what in ("aol", "aoh") for shift in SHIFTS}
