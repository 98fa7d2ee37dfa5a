"""What the tests of texts share."""

from collections.abc import Iterator

import pytest
from tests.text.web import Web


@pytest.fixture
def web() -> Iterator[Web]:
    server = Web()
    yield server
    server.close()
