"""What the tests of the service share."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.report.conftest import browser as browser
from tests.serving.served import Running, make_models, served


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return make_models(tmp_path_factory.mktemp("serving"), "rela-g", "softmax")


@pytest.fixture(scope="session")
def running(models: dict[str, Path]) -> Iterator[Running]:
    with served(models["rela-g"], f"other={models['softmax']}", "--threads", "1") as (address, _):
        yield Running(address, models)
