"""Test sets in SGM."""

import gzip
from pathlib import Path

import pytest

from rela.text.sgm import read_sgm

FILE = """<srcset setid="newstest2014" srclang="any">
<doc sysid="ref" docid="1-bbc" genre="news" origlang="en">
<hl>
<seg id="1">A headline</seg>
</hl>
<p>
<seg id="2">  Salt & pepper &amp; more,\t3 < 4 </seg>
<seg id="3">over two
lines</seg><SEG ID='4'>  </SEG>
</p>
</doc>
</srcset>
"""


def test_segments(tmp_path: Path):
    path = tmp_path / "x.sgm"
    path.write_text("\ufeff" + FILE, encoding="utf-8")
    expected = ["A headline", "Salt & pepper &amp; more, 3 < 4", "over two lines", ""]
    assert read_sgm(path) == expected
    (tmp_path / "x.sgm.gz").write_bytes(gzip.compress(FILE.encode()))
    assert read_sgm(tmp_path / "x.sgm.gz") == expected


def test_white_space_of_all_kinds_is_one_blank(tmp_path: Path):
    path = tmp_path / "x.sgm"
    path.write_text('<seg id="1">a\u00a0b\u2028c\r\nd</seg>', encoding="utf-8")
    assert read_sgm(path) == ["a b c d"]


@pytest.mark.parametrize("text", ["", "no segments", '<seg id="1">cut', '<seg id="1">a</seg>\n<seg id="2">cut'])
def test_what_is_no_test_set(tmp_path: Path, text: str):
    path = tmp_path / "x.sgm"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"x\.sgm: expected <seg"):
        read_sgm(path)


def test_a_segment_that_is_not_closed_before_the_next(tmp_path: Path):
    path = tmp_path / "x.sgm"
    path.write_text('<seg id="1">a\n<seg id="2">b</seg>', encoding="utf-8")
    with pytest.raises(ValueError, match="2 opening tags and 1 whole"):
        read_sgm(path)


def test_other_encodings(tmp_path: Path):
    path = tmp_path / "x.sgm"
    path.write_bytes('<seg id="1">für</seg>'.encode("latin-1"))
    with pytest.raises(ValueError, match=r"x\.sgm: expected UTF-8"):
        read_sgm(path)
