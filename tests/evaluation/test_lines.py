"""Reading lines, and lines that belong together."""

import io
import sys
from pathlib import Path

import pytest

from rela.evaluation import METRICS, Recipe, check_parallel, evaluate, read_lines


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


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_byte_order_mark_and_carriage_returns_do_not_count(tmp_path: Path, end: str) -> None:
    lines = ["the cat sat on the mat", "the dog lay on the sofa"]
    (tmp_path / "text").write_bytes(f"\ufeff{end.join(lines)}{end}".encode())
    scores = evaluate(read_lines(tmp_path / "text"), [lines], Recipe(metrics=METRICS, language="en"), num_bootstrap=0)
    assert [score.score for score in scores] == pytest.approx([100] * len(METRICS))


def test_nothing_but_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"\xef\xbb\xbf")
    with pytest.raises(ValueError, match="got an empty file"):
        read_lines(tmp_path / "text")


def test_utf16(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("a\n", encoding="utf-16")
    with pytest.raises(ValueError, match=r"text: expected UTF-8, got UTF-16; convert it with iconv -f UTF-16 -t UTF-8"):
        read_lines(tmp_path / "text")


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
        ([1], [["a"]], TypeError, "hypotheses as a list of strings, got one of type int as line 1"),
        (["a b", None], [["a b", "c"]], TypeError, "hypotheses as a list of strings, got None as line 2; an empty"),
        (
            ["a", "b"],
            [["a", b"b"]],
            TypeError,
            r"references\[0\] as a list of strings, got one of type bytes as line 2",
        ),
        (iter(["a"]), [["a"]], TypeError, "hypotheses as a list of lines, got one of type list_iterator; make a list"),
        (["a"], iter([["a"]]), TypeError, "a list of references, each a list of lines, got one of type list_iterator"),
        (["a"], [(line for line in "a")], TypeError, r"references\[0\] as a list of lines, got one of type generator"),
        (None, [["a"]], TypeError, "hypotheses as a list of lines, got None"),
    ],
)
def test_what_is_no_corpus(
    hypotheses: list[str], references: list[list[str]], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        evaluate(hypotheses, references)
