"""A small scorer, and shards for it to score on Ray."""

from pathlib import Path

import pytest
from tests.filtering.scoring import make_scorer
from tests.filtering.sharding import SIZES, find_shards, write_shards

from rela.filtering.ray_engine import RayOptions
from rela.filtering.scorer import Scorer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a small random model, and three shards of five windows or so."""
    found = tmp_path_factory.mktemp("scored")
    make_scorer(found / "model")
    write_shards(found / "shards", SIZES)
    return found


@pytest.fixture(scope="module")
def options(folder: Path) -> RayOptions:
    calibration = Scorer.load(folder / "model").calibration
    assert calibration is not None
    return RayOptions(
        model=folder / "model",
        shards=find_shards(f"file://{folder}/shards", folder / "out"),
        output=str(folder / "out"),
        calibration=calibration,
        header=True,
        spans=True,
        part_windows=2,
        workers=2,
        address="local",
    )
