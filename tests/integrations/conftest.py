"""What the tests of integrations share."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.integrations.translation_models import Made


@pytest.fixture
def quiet_transformers() -> Iterator[None]:
    """No bars, and errors only."""
    logging = pytest.importorskip("transformers.utils.logging")
    logging.disable_progress_bar()
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    yield
    logging.set_verbosity(verbosity)


@pytest.fixture(scope="session", params=["one vocabulary", "two vocabularies"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> "Made":
    """Tests do not change it."""
    pytest.importorskip("transformers")
    from tests.integrations.translation_models import make

    return make(tmp_path_factory.mktemp("translation"), joint=request.param == "one vocabulary")
