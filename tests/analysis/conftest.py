"""A study of four models, with everything on."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.analysis.studies import EVERYTHING, make_model, write_corpus

from rela.analysis.corpus import Corpus
from rela.analysis.study import run_study


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models: two seeds of one, another attention, another shape with other pieces, and one of the other direction."""
    folder = tmp_path_factory.mktemp("study")
    for number in (1, 2):
        make_model(folder / f"rela-{number}", seed=number, made_by={"seed": number})
    make_model(folder / "softmax", "softmax", seed=3)
    make_model(folder / "large", seed=4, dim=32, decoder_layers=3, num_heads=2, merges=25, made_by={"seed": 4})
    make_model(folder / "back", seed=5, languages=("de", "en"), merges=30)
    return folder


@pytest.fixture(scope="session")
def corpus(folder: Path) -> Corpus:
    return write_corpus(folder / "corpus", 40, seed=2)


@pytest.fixture(scope="session")
def models(folder: Path) -> list[Path]:
    return [folder / name for name in ("rela-1", "rela-2", "softmax", "large")]


@pytest.fixture(scope="session")
def out(folder: Path, corpus: Corpus, models: list[Path]) -> Path:
    run_study(models, corpus, folder / "out", EVERYTHING, opposite=folder / "back")
    return folder / "out"


@pytest.fixture(scope="session")
def results(out: Path) -> dict[str, Any]:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    return json.loads((out / "results.json").read_text(encoding="utf-8"), parse_constant=refuse)
