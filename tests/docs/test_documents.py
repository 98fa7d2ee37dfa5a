"""The picture and the table in the documents are what the committed results say."""

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
_spec = importlib.util.spec_from_file_location("make_documents", ROOT / "tools" / "make_documents.py")
assert _spec is not None
assert _spec.loader is not None
make_documents = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(make_documents)


def _result(name: str) -> dict[str, object]:
    return json.loads((ROOT / "docs" / "results" / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize(("mark", "name", "make"), [(mark, *found) for mark, found in make_documents.TABLES.items()])
def test_the_tables(mark: str, name: str, make: Callable[[], str]) -> None:
    document = (ROOT / name).read_text(encoding="utf-8")
    assert make_documents.with_table(document, mark, make()) == document


def test_the_picture() -> None:
    drawn = (ROOT / "docs" / "figures" / "weights.svg").read_text(encoding="utf-8")
    assert make_documents.weights_figure(_result("weights.json")) == drawn


def test_the_pictures_numbers() -> None:
    assert make_documents.compute_weights() == _result("weights.json")
