"""What the tests of integrations share."""

from collections.abc import Iterator

import pytest


@pytest.fixture
def quiet_transformers() -> Iterator[None]:
    """No bars, and errors only."""
    logging = pytest.importorskip("transformers.utils.logging")
    logging.disable_progress_bar()
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    yield
    logging.set_verbosity(verbosity)
