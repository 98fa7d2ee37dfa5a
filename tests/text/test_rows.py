"""Rows as they are: every one of them, in windows, with the name of its problem."""

import gzip
import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rela.text.readers import PairSource
from rela.text.rows import RowWindow, read_header, read_windows

LINES = [
    b"a dog\tein Hund",
    b"only one",
    b"",
    b"\xff\tx",
    b"x\t",
    b" \ty",
    b"z\0\tz",
    b"long\t" + b"w " * 6000,
    b"b\tc\td",
]
PROBLEMS = {
    1: "bad-record",
    2: "bad-record",
    3: "invalid-utf8",
    4: "empty-target",
    5: "empty-source",
    6: "nul-character",
    7: "too-long",
}


def all_of(windows: list[RowWindow]) -> tuple[list[tuple[str, str]], dict[int, str], list[bytes | None]]:
    pairs = [pair for window in windows for pair in window.pairs]
    problems = {window.first + place: name for window in windows for place, name in window.problems.items()}
    return pairs, problems, [record[0] for window in windows for record in window.records]


@pytest.mark.parametrize("size", [1, 2, 4, 100])
@pytest.mark.parametrize("packed", [False, True])
def test_tsv(tmp_path: Path, size: int, packed: bool):
    path = tmp_path / ("in.tsv.gz" if packed else "in.tsv")
    data = b"".join(line + b"\n" for line in LINES)
    path.write_bytes(gzip.compress(data) if packed else data)
    windows = list(read_windows(PairSource.tsv(path), size=size))
    assert [len(window) for window in windows] == [min(size, 9 - start) for start in range(0, 9, size)]
    assert [window.first for window in windows] == list(range(0, 9, size))
    pairs, problems, records = all_of(windows)
    assert pairs == [("a dog", "ein Hund"), ("b", "c")]
    assert problems == PROBLEMS
    assert records == LINES


def test_columns_and_header(tmp_path: Path):
    path = tmp_path / "in.tsv"
    path.write_bytes(b"id\ten\tde\r\n1\tdog\tHund\r\n2\tcat\n")
    source = PairSource.tsv(path, columns=(3, 2))
    (window,) = read_windows(source, header=True)
    assert window.pairs == [("Hund", "dog")]
    assert window.problems == {1: "bad-record"}
    assert read_header(source) == [b"id\ten\tde"]
    assert [record[0] for record in window.records] == [b"1\tdog\tHund", b"2\tcat"]


def test_two_files_of_unequal_length(tmp_path: Path):
    (tmp_path / "a").write_bytes(b"dog\ncat\nbird\n")
    (tmp_path / "b").write_bytes(b"Hund\n")
    (window,) = read_windows(PairSource.files(tmp_path / "a", tmp_path / "b"))
    assert window.pairs == [("dog", "Hund")]
    assert window.problems == {1: "unequal-lines", 2: "unequal-lines"}
    assert window.records == [(b"dog", b"Hund"), (b"cat", None), (b"bird", None)]


def test_keys_with_a_point(tmp_path: Path):
    rows = [{"t.en": "dog", "t.de": "Hund"}, {"t": {"en": "cat", "de": "Katze"}}]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (window,) = read_windows(PairSource.jsonl(tmp_path / "in.jsonl", keys=("t.en", "t.de")))
    assert window.pairs == [("dog", "Hund"), ("cat", "Katze")]


def test_jsonl(tmp_path: Path):
    rows = [{"t": {"en": "dog", "de": "Hund"}}, {"t": {"en": "dog"}}, {"t": {"en": "a\nb", "de": "c"}}, [1]]
    lines = [json.dumps(row).encode() for row in rows] + [b"{broken", b'{"t": {"en": "\\ud800", "de": "x"}}']
    (tmp_path / "in.jsonl").write_bytes(b"\n".join(lines))
    (window,) = read_windows(PairSource.jsonl(tmp_path / "in.jsonl", keys=("t.en", "t.de")))
    assert window.pairs == [("dog", "Hund")]
    assert window.problems == dict.fromkeys((1, 2, 3, 4), "bad-record") | {5: "half-character"}


@pytest.mark.parametrize("size", [2, 3, 50])
def test_parquet(tmp_path: Path, size: int):
    table = pa.table(
        {"id": [1, 2, 3, 4, 5], "en": ["dog", None, "cat", " ", "b"], "de": ["Hund", "x", "Katze", "y", "B"]}
    )
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=2)
    windows = list(read_windows(PairSource.parquet(tmp_path / "in.parquet", keys=("en", "de")), size=size))
    assert [len(window) for window in windows] == [min(size, 5 - start) for start in range(0, 5, size)]
    pairs, problems, _ = all_of(windows)
    assert pairs == [("dog", "Hund"), ("cat", "Katze"), ("b", "B")]
    assert problems == {1: "bad-record", 3: "empty-source"}
    assert pa.concat_tables([window.table for window in windows]).equals(table)


def test_windows_end_where_rows_have_many_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("rela.text.rows.WINDOW_BYTES", 1000)
    texts = ["x" * n for n in (10, 10, 400, 700, 10, 3000, 10)]
    lines = [f"dog\tHund\t{text}".encode() for text in texts]
    (tmp_path / "in.tsv").write_bytes(b"".join(line + b"\n" for line in lines))
    windows = list(read_windows(PairSource.tsv(tmp_path / "in.tsv"), size=5))
    assert [len(window) for window in windows] == [4, 2, 1]
    assert [(window.number, window.first) for window in windows] == [(0, 0), (1, 4), (2, 6)]
    assert all_of(windows)[2] == lines

    table = pa.table({"en": ["dog"] * 7, "de": ["Hund"] * 7, "other": texts})
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=4)
    windows = list(read_windows(PairSource.parquet(tmp_path / "in.parquet", keys=("en", "de")), size=5))
    assert [window.number for window in windows] == list(range(len(windows)))
    assert all(len(window) == 1 or (window.table is not None and window.table.nbytes < 1000) for window in windows)
    assert pa.concat_tables([window.table for window in windows]).equals(table)


def test_a_line_that_is_cut_is_no_good_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("rela.text.rows.MAX_LINE_BYTES", 100)
    (tmp_path / "in.tsv").write_bytes(b"dog\tHund\t" + b"x" * 200 + b"\ncat\tKatze\n")
    (window,) = read_windows(PairSource.tsv(tmp_path / "in.tsv"))
    assert window.problems == {0: "too-long"}
    assert window.pairs == [("cat", "Katze")]
    assert [len(record[0] or b"") for record in window.records] == [100, 9]


def test_parquet_without_the_columns(tmp_path: Path):
    pq.write_table(pa.table({"a": ["x"]}), tmp_path / "in.parquet")
    with pytest.raises(ValueError, match="expected the columns en and de, got a; name those of your table with --keys"):
        list(read_windows(PairSource.parquet(tmp_path / "in.parquet", keys=("en", "de"))))


def test_an_open_stream():
    (window,) = read_windows(PairSource.tsv("somewhere.tsv"), stream=io.BytesIO(b"a\tb\n"))
    assert window.pairs == [("a", "b")]


def test_nothing(tmp_path: Path):
    (tmp_path / "in.tsv").write_bytes(b"")
    assert list(read_windows(PairSource.tsv(tmp_path / "in.tsv"))) == []
    assert read_header(PairSource.tsv(tmp_path / "in.tsv")) == []
