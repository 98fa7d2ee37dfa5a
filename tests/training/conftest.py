"""Fixtures of the tests of training."""

from pathlib import Path

import pytest
from tests.training.helpers import make_store


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny store; nobody writes into it."""
    return make_store(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="session")
def separate_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with a vocabulary for each side."""
    return make_store(tmp_path_factory.mktemp("separate"), joint=False)
