"""Rows with their scores, and rows that are kept or rejected: nothing of them is changed, and nothing else is held."""

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rela.filtering import splitting
from rela.filtering.scorer import WindowScores
from rela.filtering.scores import COLUMNS
from rela.filtering.splitting import RowWriter
from rela.filtering.writing import as_jsonl, as_table
from rela.text.readers import PairSource
from rela.text.rows import RowWindow, read_windows


def scored_as(window: RowWindow, value: float = 0.25) -> WindowScores:
    count = len(window.pairs)
    return WindowScores(np.full((count, len(COLUMNS)), value, np.float32), np.ones(count, np.bool_), None)


def jsonl_of(tmp_path: Path, *lines: bytes) -> list[str]:
    """What `rela score` writes for lines of JSON."""
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    source = PairSource.jsonl(path, keys=("en", "de"))
    (window,) = read_windows(source)
    return as_jsonl(window, scored_as(window), source).decode().splitlines()


class TestJson:
    @pytest.mark.parametrize(
        "other",
        [
            '"x": "\\ud800"',
            '"x":1.00000000000000000001',
            '"x" : 12345678901234567890123456789',
            '"x": {"quality": [1,  2], "y": "}, \\""}',
            '"x":NaN',
        ],
    )
    @pytest.mark.parametrize("place", [0, 1, 2])
    def test_a_score_of_the_row_is_replaced_and_nothing_else(self, tmp_path: Path, other: str, place: int):
        members = ['"en":"A dog runs."', '"de": "Ein Hund"', other]
        members.insert(place, '"quality" : {"was": "}"}')
        (line,) = jsonl_of(tmp_path, f"{{{' , '.join(members)}}}".encode())
        assert other in line
        assert "was" not in line
        assert json.loads(line)["quality"] == 0.25
        assert '"en":"A dog runs."' in line

    def test_a_row_of_nothing_but_scores(self, tmp_path: Path):
        (line,) = jsonl_of(tmp_path, b' { "quality": 1, "null_rate": 2 } ')
        found = json.loads(line)
        assert found["quality"] is None
        assert found["problem"] is not None

    @pytest.mark.parametrize(
        "row", [b'{"id": 7, "en":"A dog","de":null}', b'{"id": 7}', b'{"id": 7, "en": "", "de": "x"}']
    )
    def test_an_object_that_is_no_pair_keeps_its_keys(self, tmp_path: Path, row: bytes):
        (line,) = jsonl_of(tmp_path, row)
        found = json.loads(line)
        assert found["id"] == 7
        assert found["problem"] is not None
        assert "raw" not in found
        assert line.startswith(row.decode()[:-1])

    @pytest.mark.parametrize("row", [b"[1, 2]", b"null", b'{"en": "A"', b"\xef\xbb\xbf\xef\xbb\xbf{}"])
    def test_what_is_no_object_is_there_as_it_was(self, tmp_path: Path, row: bytes):
        lines = jsonl_of(tmp_path, b'{"en": "A dog", "de": "Ein Hund"}', row)
        assert json.loads(lines[1])["raw"] == row.decode()

    def test_bytes_that_are_no_text(self, tmp_path: Path):
        path = tmp_path / "rows.tsv"
        rows = [b"A dog\tEin Hund\tmore\t\xff", b"\xff\t\xfe", b"A dog\tEin Hund"]
        path.write_bytes(b"".join(row + b"\n" for row in rows))
        (window,) = read_windows(PairSource.tsv(path))
        found = [json.loads(line) for line in as_jsonl(window, scored_as(window), PairSource.tsv(path)).splitlines()]
        assert [base64.b64decode(row["raw_base64"]) for row in found[:2]] == rows[:2]
        assert found[0]["quality"] == 0.25
        assert not found[2].keys() & {"raw", "raw_base64"}
        table = as_table(window, scored_as(window), PairSource.tsv(path))
        assert [value and base64.b64decode(value) for value in table["raw_base64"].to_pylist()] == [*rows[:2], None]

    def test_a_tab_in_json_is_a_blank(self, tmp_path: Path):
        path = tmp_path / "rows.jsonl"
        row = '{"en": "A dog",\t"de": "Ein Hund", "id": 7}'
        path.write_text(row + "\n", encoding="utf-8")
        source = PairSource.jsonl(path, keys=("en", "de"))
        (window,) = read_windows(source)
        assert as_table(window, scored_as(window), source)["raw"].to_pylist() == [row]

    def test_lines_are_those_of_the_file(self, tmp_path: Path):
        path = tmp_path / "rows.tsv"
        path.write_text("en\tde\nA dog\tEin Hund\nA cat\tEine Katze\n", encoding="utf-8")
        windows = read_windows(PairSource.tsv(path), header=True, size=1)
        found = [as_jsonl(window, scored_as(window), PairSource.tsv(path)) for window in windows]
        assert [json.loads(line)["line"] for line in found] == [2, 3]


class TestTables:
    def test_columns_of_one_name(self, tmp_path: Path):
        path = tmp_path / "rows.parquet"
        columns = [pa.array(["A dog"]), pa.array(["Ein Hund"]), pa.array([1]), pa.array([2])]
        pq.write_table(pa.Table.from_arrays(columns, names=["en", "de", "x", "x"]), path)
        source = PairSource.parquet(path, keys=("en", "de"))
        (window,) = read_windows(source)
        found = json.loads(as_jsonl(window, scored_as(window), source))
        assert (found["x"], found["x_2"]) == (1, 2)

    def test_scores_that_stand_there_twice_are_replaced(self, tmp_path: Path):
        path = tmp_path / "rows.parquet"
        columns = [pa.array(["A dog"]), pa.array(["Ein Hund"]), pa.array([1]), pa.array([2])]
        pq.write_table(pa.Table.from_arrays(columns, names=["en", "de", "quality", "quality"]), path)
        source = PairSource.parquet(path, keys=("en", "de"))
        (window,) = read_windows(source)
        found = as_table(window, scored_as(window), source)
        assert found.column_names.count("quality") == 1
        assert found["quality"].to_pylist() == [0.25]
        written: list[Any] = []
        writer = RowWriter(written.append)
        assert window.table is not None
        writer.add(window.table.rename_columns(["en", "de", "rela_reason", "rela_reason"]), 0, ("low-score", 0.5))
        writer.flush()
        assert written[0].column_names == ["en", "de", "rela_reason", "rela_quality"]

    def test_cells_that_python_has_nothing_for(self, tmp_path: Path):
        """Dates of far away years and of unknown places, and bytes that should be text, at any depth."""
        wrong = pa.Array.from_buffers(pa.string(), 1, pa.array([b"caf\xe9"]).buffers())
        others = {
            "day": pa.array([10**7], pa.date32()),
            "time": pa.array([10**15], pa.timestamp("ms")),
            "there": pa.array([1], pa.timestamp("us", "Mars/Olympus")),
            "text": wrong,
            "inside": pa.StructArray.from_arrays([wrong], ["f"]),
            "some": pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), wrong),
            "many": pa.array([[("a", 10**7)]], pa.map_(pa.string(), pa.date32())),
        }
        path = tmp_path / "rows.parquet"
        pq.write_table(pa.table({"en": ["A dog"], "de": ["Ein Hund"], **others}), path)
        source = PairSource.parquet(path, keys=("en", "de"))
        (window,) = read_windows(source)
        found = json.loads(as_jsonl(window, scored_as(window), source))
        assert {name: found[name] for name in others} == {
            "day": 10**7,
            "time": 10**15,
            "there": 1,
            "text": "caf\ufffd",
            "inside": {"f": "caf\ufffd"},
            "some": ["caf\ufffd"],
            "many": [{"key": "a", "value": 10**7}],
        }

    def test_columns_whose_rows_pyarrow_cannot_take(self):
        written: list[Any] = []
        writer = RowWriter(written.append)
        table = pa.table({"text": pa.array(["a", "b", "c" * 100], pa.string_view())})
        for row in (0, 2):
            writer.add(table, row)
        writer.flush()
        assert pa.concat_tables(written)["text"].to_pylist() == ["a", "c" * 100]

    def test_two_columns_for_a_side(self, tmp_path: Path):
        path = tmp_path / "rows.parquet"
        columns = [pa.array(["A dog"]), pa.array(["Ein Hund"]), pa.array(["Ein Hund"])]
        pq.write_table(pa.Table.from_arrays(columns, names=["en", "de", "de"]), path)
        with pytest.raises(ValueError, match="expected one column de, got 2"):
            list(read_windows(PairSource.parquet(path, keys=("en", "de"))))

    def test_a_dictionary_larger_than_a_window(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr("rela.text.rows.WINDOW_BYTES", 10_000)
        path = tmp_path / "rows.parquet"
        documents = pa.array([f"{number}{'x' * 100}" for number in range(300)]).dictionary_encode()
        table = pa.table({"en": ["A dog"] * 300, "de": ["Ein Hund"] * 300, "document": documents})
        pq.write_table(table, path)
        windows = list(read_windows(PairSource.parquet(path, keys=("en", "de")), size=100))
        assert sum(map(len, windows)) == 300
        assert len(windows) <= 6
        assert pa.concat_tables([window.table for window in windows])["document"].to_pylist() == documents.to_pylist()

    def test_a_column_that_pyarrow_cannot_read(self, tmp_path: Path):
        def inside(number: int) -> Any:
            values = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array([f"a{number}", f"b{number}"]))
            return pa.StructArray.from_arrays([values], ["k"])

        path = tmp_path / "rows.parquet"
        table = pa.table({"en": ["a"] * 9, "de": ["b"] * 9, "s": pa.chunked_array([inside(n) for n in range(3)])})
        pq.write_table(table, path, row_group_size=3)
        try:
            rows = sum(len(window) for window in read_windows(PairSource.parquet(path, keys=("en", "de"))))
        except ValueError as error:
            assert str(error).startswith(f"{path}: expected columns that pyarrow can read")  # noqa: PT017
        else:
            assert rows == 9  # a newer pyarrow

    def test_what_waits_to_be_written_holds_no_windows(self, monkeypatch: pytest.MonkeyPatch):
        """One row of each window: a slice would keep all of it."""
        monkeypatch.setattr(splitting, "WINDOW_BYTES", 1 << 30)
        written: list[Any] = []
        writer = RowWriter(written.append)
        before = pa.total_allocated_bytes()
        for number in range(50):
            table = pa.table({"text": [f"{number}.{row}" + "x" * 1000 for row in range(1000)]})
            writer.add(table, 7)
            del table
        assert pa.total_allocated_bytes() - before < 4_000_000  # all windows: 50 MB
        writer.flush()
        texts = pa.concat_tables(written)["text"].to_pylist()
        assert [text.rstrip("x") for text in texts] == [f"{number}.7" for number in range(50)]

    def test_many_bytes_are_written_at_once(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(splitting, "WINDOW_BYTES", 10_000)
        written: list[Any] = []
        writer = RowWriter(written.append)
        for _ in range(10):
            writer.add(pa.table({"text": ["x" * 4000]}), 0)
        writer.flush()
        assert [table.num_rows for table in written] == [3, 3, 3, 1]
