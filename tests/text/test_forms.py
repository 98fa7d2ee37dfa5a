"""From the files of a corpus as they are given out to plain text."""

from pathlib import Path

import pytest

from rela.text.corpus import Part, Selection
from rela.text.forms import write_part
from rela.text.problems import ReadReport
from rela.text.readers import PairSource, read_pairs


def test_selection(tmp_path: Path):
    lengths = [5, 5, 1, 2, 3, 6, 7, 4, 4, 4]
    (tmp_path / "x.de").write_text("".join(f"{'w ' * length}\n" for length in lengths))
    (tmp_path / "x.en").write_text("".join(f"line {number}\n" for number in range(10)))
    files = {"de": tmp_path / "x.de", "en": tmp_path / "x.en"}
    part = Part(name="x", sides={}, selection=Selection(start=1, stop=-2, words=(2, 6)))
    write_part(part, files, tmp_path / "out")
    assert (tmp_path / "out.en").read_text() == "line 1\nline 3\nline 4\nline 5\nline 7\n"
    assert (tmp_path / "out.de").read_text().startswith("w w w w w \nw w \n")


def test_selection_of_unequal_files(tmp_path: Path):
    (tmp_path / "x.de").write_text("a\n")
    (tmp_path / "x.en").write_text("a\nb\n")
    part = Part(name="x", sides={}, selection=Selection())
    with pytest.raises(ValueError, match=r"expected as many lines in both, got 1 in .* and 2 in"):
        write_part(part, {"de": tmp_path / "x.de", "en": tmp_path / "x.en"}, tmp_path / "out")


def test_test_sets_of_unequal_length(tmp_path: Path):
    (tmp_path / "x.de").write_text("<seg>a</seg>")
    (tmp_path / "x.en").write_text("<seg>a</seg><seg>b</seg>")
    part = Part(name="x", sides={}, form="sgm")
    with pytest.raises(ValueError, match=r"expected as many segments on both sides, got 1 in .*x\.de, 2 in"):
        write_part(part, {"de": tmp_path / "x.de", "en": tmp_path / "x.en"}, tmp_path / "out")


def test_titles_without_a_partner_are_counted_when_read(tmp_path: Path):
    (tmp_path / "titles").write_text("yksi ||| one\nalone\n")
    files = {"fi": tmp_path / "titles", "en": tmp_path / "titles"}
    write_part(Part(name="x", sides={}, form="titles"), files, tmp_path / "out")
    report = ReadReport()
    found = list(read_pairs(PairSource.files(tmp_path / "out.fi", tmp_path / "out.en"), report=report))
    assert [(pair.source, pair.target) for pair in found] == [("yksi", "one")]
    assert report.counts == {"empty-target": 1}
