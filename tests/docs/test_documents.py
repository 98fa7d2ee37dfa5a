"""The picture and the table in the documents are what the committed results say."""

import importlib
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.docs.code_blocks import find_blocks

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
make_documents = importlib.import_module("make_documents")


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


def result_files(page: Path) -> Iterator[str]:
    """The files that the commands of a page write with --json, a loop's one for each turn."""
    for block in find_blocks(page):
        turns = re.search(r"for attention in (.+); do", block.text)
        for name in re.findall(r"--json ((?:docs|bench)/results/\S+)", block.text):
            yield from (name.replace("$attention", turn) for turn in (turns[1].split() if turns else [""]))


def test_the_files_that_commands_write() -> None:
    names = list(result_files(ROOT / "docs" / "measurements.md"))
    assert "docs/results/demo-softmax.json" in names
    assert "docs/results/multi30k-rela-g-train.json" in names
    assert not any("$" in name for name in names)


def test_every_result_is_there() -> None:
    missing = [name for name in result_files(ROOT / "docs" / "measurements.md") if not (ROOT / name).is_file()]
    assert not missing
    for page in (ROOT / "README.md", ROOT / "docs" / "measurements.md"):
        assert make_documents.NOT_YET not in page.read_text(encoding="utf-8"), page.name


def _marks(drawing: Path) -> list[list[float]]:
    """Where the points of a drawing's curves are."""
    found = re.findall(r'<use xlink:href="#\S+" x="([\d.]+)" y="([\d.]+)"', drawing.read_text(encoding="utf-8"))
    return [[float(x), float(y)] for x, y in found]


def test_null_attention_is_drawn_from_the_results(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    make_documents.sieve_tables.draw_null(tmp_path)
    drawn, there = (
        re.findall(r"[ML] ([\d.]+) ([\d.]+)", (folder / "null-attention.svg").read_text(encoding="utf-8"))
        for folder in (tmp_path, ROOT / "docs" / "figures")
    )
    assert len(drawn) == len(there) > 500
    for one, other in zip(drawn, there, strict=True):
        assert list(map(float, one)) == pytest.approx(list(map(float, other)), abs=2)


def test_the_analysis_is_drawn_from_the_results(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    make_documents.draw_analysis(tmp_path)
    for name in make_documents.GRAMMAR_FIGURES:
        marks = _marks(tmp_path / f"grammar-{name}.svg")
        assert len(marks) > 10
        # Another version of matplotlib may place the frames a little differently.
        assert marks == [
            pytest.approx(mark, abs=2) for mark in _marks(ROOT / "docs" / "figures" / f"grammar-{name}.svg")
        ]
