"""Reading lines, and lines that belong together."""

import io
import sys
from pathlib import Path

import pytest

from rela.evaluation import check_parallel, evaluate, read_lines


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"a\nb\n", ["a", "b"]),
        (b"a\nb", ["a", "b"]),
        (b"\n", [""]),
        (b"a\n\n", ["a", ""]),
        ("a\u2028b\x0cc\x85\x1ed\r\ne".encode(), ["a\u2028b\x0cc\x85\x1ed\r", "e"]),
    ],
)
def test_a_line_ends_at_the_line_feed_alone(tmp_path: Path, data: bytes, lines: list[str]) -> None:
    (tmp_path / "text").write_bytes(data)
    assert read_lines(tmp_path / "text") == lines


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("ä\nb\n".encode()), encoding="ascii"))
    assert read_lines("-") == ["ä", "b"]


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "text").touch()
    with pytest.raises(ValueError, match=r"expected one sentence a line in .*text, got an empty file"):
        read_lines(tmp_path / "text")


@pytest.mark.parametrize(("data", "number"), [(b"\xff", 1), (b"a\nb\n\xc3\x28\n", 3), (b"a\nb\xe4", 2)])
def test_not_utf8_names_the_line(tmp_path: Path, data: bytes, number: int) -> None:
    (tmp_path / "text").write_bytes(data)
    with pytest.raises(ValueError, match=rf"expected UTF-8 in .*text, got the byte 0x\w\w in line {number};"):
        read_lines(tmp_path / "text")


def test_other_counts_name_both() -> None:
    with pytest.raises(ValueError, match=r"expected 2 lines as in ref\.de, got 1 in hyp\.txt; line n"):
        check_parallel([("ref.de", ["a", "b"]), ("hyp.txt", ["a"])])


@pytest.mark.parametrize(
    ("hypotheses", "references", "error", "message"),
    [
        (["a"], [], ValueError, "at least one reference, got none"),
        ([], [[]], ValueError, r"at least one line in references\[0\], got none"),
        (["a"], [["a", "b"]], ValueError, r"2 lines as in references\[0\], got 1 in hypotheses"),
        (["a"], [["a"], ["a", "b"]], ValueError, r"1 lines as in references\[0\], got 2 in references\[1\]"),
        (["a"], ["a"], TypeError, "list of references, each a list of lines, got one reference"),
        ("a", [["a"]], TypeError, "hypotheses as a list of lines, got one string"),
        ([1], [["a"]], TypeError, "hypotheses as a list of strings, got a int"),
    ],
)
def test_what_is_no_corpus(
    hypotheses: list[str], references: list[list[str]], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        evaluate(hypotheses, references)
