"""What the tests of texts share."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.text.stores import ENGLISH, GERMAN, write_pair
from tests.text.web import Web

from rela.text import prepare as preparing
from rela.text.readers import PairSource


@pytest.fixture
def web() -> Iterator[Web]:
    server = Web()
    yield server
    server.close()


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a preparation of few pairs has many steps."""
    monkeypatch.setattr(preparing, "_CHUNK", 5)


@pytest.fixture
def text(tmp_path: Path) -> dict[str, list[PairSource]]:
    return {name: [write_pair(tmp_path, name, ENGLISH[:n], GERMAN[:n])] for name, n in (("train", 12), ("dev", 7))}
