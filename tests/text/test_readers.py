"""Reading of pairs and lines: what is kept, what is left out, and that all of it is counted."""

import gzip
import io
import json
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rela.text.problems import PROBLEMS, Place, ReadReport
from rela.text.readers import Line, Pair, PairSource, read_lines, read_pairs

anything = st.binary(max_size=60) | st.lists(
    st.sampled_from([b"a", b"\xff", b" ", b"\n", b"\r\n", b"\t", b"\x00", b"\xef\xbb\xbf", b"xxxxxx", b'{"a":"b"}'])
).map(b"".join)
_WIDE = (b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")
_PACKED = (b"\x1f\x8b\x08", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd", b"BZh", b"PK\x03\x04")
_REFUSED = (*_WIDE, *_PACKED)
anything = anything.filter(lambda data: not data.startswith(_REFUSED))  # UTF-16 or 32, or packed
reuse_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def write_files(folder: Path, source: bytes, target: bytes) -> PairSource:
    (folder / "x.en").write_bytes(source)
    (folder / "x.de").write_bytes(target)
    return PairSource.files(folder / "x.en", folder / "x.de")


def write_tsv(folder: Path, data: bytes, columns: tuple[int, int] = (1, 2)) -> PairSource:
    (folder / "x.tsv").write_bytes(data)
    return PairSource.tsv(folder / "x.tsv", columns=columns)


def write_jsonl(folder: Path, data: bytes, keys: tuple[str, str] = ("en", "de")) -> PairSource:
    (folder / "x.jsonl").write_bytes(data)
    return PairSource.jsonl(folder / "x.jsonl", keys=keys)


def read(source: PairSource, max_chars: int = 10_000) -> tuple[list[Pair], ReadReport]:
    report = ReadReport()
    return list(read_pairs(source, report=report, max_chars=max_chars)), report


def names(report: ReadReport) -> dict[str, list[str]]:
    """The problems with the names of their files and their lines."""
    return {
        problem: [f"{Path(file).name}:{line}" for file, line in places] for problem, places in report.places.items()
    }


class TestTwoFiles:
    def test_pairs_have_the_number_of_their_line(self, tmp_path: Path):
        pairs, report = read(write_files(tmp_path, b"one\ntwo\n", "eins\nzwölf\n".encode()))
        assert pairs == [Pair(1, "one", "eins"), Pair(2, "two", "zwölf")]
        assert (report.num_lines, report.num_kept, report.counts) == (2, 2, {})

    def test_only_line_feeds_end_lines(self, tmp_path: Path):
        text = "a\u2028b\x0cc\x0bd\x85e\rf"
        pairs, report = read(write_files(tmp_path, f"{text}\nnext\n".encode(), b"A\r\nB"))
        assert pairs == [Pair(1, text, "A"), Pair(2, "next", "B")]
        assert report.num_lines == 2

    def test_a_byte_order_mark_is_taken_off_at_the_start_only(self, tmp_path: Path):
        mark = "\ufeff"
        pairs, _ = read(write_files(tmp_path, f"{mark}a\n{mark}b\n".encode(), f"{mark}A\r\nB\n".encode()))
        assert pairs == [Pair(1, "a", "A"), Pair(2, f"{mark}b", "B")]

    def test_each_problem_is_counted_and_listed(self, tmp_path: Path):
        source = b"good\nbad \xff\nfine\n\nfull\nxxxxxxxxxxx\n0123456789\nlast\nhole\nmore\nmore\n"
        target = b"gut\nA\n\xed\xa0\x80\nB\n \t\nC\n0123456789\xc3\xa4\nletzte\nL\0ch\n"
        pairs, report = read(write_files(tmp_path, source, target), max_chars=10)
        assert pairs == [Pair(1, "good", "gut"), Pair(8, "last", "letzte")]
        assert names(report) == {
            "invalid-utf8": ["x.en:2", "x.de:3"],
            "empty-source": ["x.en:4"],
            "empty-target": ["x.de:5"],
            "too-long": ["x.en:6", "x.de:7"],
            "nul-character": ["x.de:9"],
            "unequal-lines": ["x.en:10", "x.en:11"],
        }
        assert report.num_lines == 11
        assert report.num_left_out == sum(report.counts.values()) == 9

    def test_the_longer_file_is_named(self, tmp_path: Path):
        _, report = read(write_files(tmp_path, b"", b"A\nB\n"))
        assert names(report) == {"unequal-lines": ["x.de:1", "x.de:2"]}

    def test_empty_files(self, tmp_path: Path):
        assert read(write_files(tmp_path, b"", b"")) == ([], ReadReport())

    def test_the_same_file_twice(self, tmp_path: Path):
        (tmp_path / "x").write_bytes(b"a\nb\n")
        pairs, _ = read(PairSource.files(tmp_path / "x", tmp_path / "x"))
        assert pairs == [Pair(1, "a", "a"), Pair(2, "b", "b")]

    def test_packed_and_plain_together(self, tmp_path: Path):
        (tmp_path / "x.gz").write_bytes(gzip.compress(b"a\n"))
        (tmp_path / "x").write_bytes(b"A\n")
        assert read(PairSource.files(tmp_path / "x.gz", tmp_path / "x"))[0] == [Pair(1, "a", "A")]

    def test_standard_input_on_one_side(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a\n")))
        (tmp_path / "x").write_bytes(b"A\n")
        assert read(PairSource.files("-", tmp_path / "x"))[0] == [Pair(1, "a", "A")]
        with pytest.raises(ValueError, match="one side at most"):
            PairSource.files("-", "-")

    def test_a_missing_file_is_named(self, tmp_path: Path):
        with pytest.raises(FileNotFoundError, match=r"no-such\.en"):
            read(PairSource.files(tmp_path / "no-such.en", tmp_path / "no-such.de"))

    @pytest.mark.parametrize("length", range(1, 12))
    @pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
    @pytest.mark.parametrize("letter", ["a", "ä", "\U0001f600"])
    @pytest.mark.parametrize("mark", ["", "\ufeff"])
    def test_the_limit_is_exact(self, tmp_path: Path, length: int, end: bytes, letter: str, mark: str):
        text = letter * length
        pairs, report = read(write_files(tmp_path, (mark + text).encode() + end, b"A"), max_chars=5)
        assert pairs == ([Pair(1, text, "A")] if length <= 5 else [])
        assert report.counts == ({} if length <= 5 else {"too-long": 1})

    def test_an_endless_line_takes_no_memory(self, tmp_path: Path):
        source = write_files(tmp_path, b"x" * 50_000_000 + b"\nend\n", b"A\nB\n")
        tracemalloc.start()
        pairs, report = read(source)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert pairs == [Pair(2, "end", "B")]
        assert names(report) == {"too-long": ["x.en:1"]}
        assert peak < 2_000_000

    @given(source=anything, target=anything)
    @reuse_folder
    def test_all_lines_of_any_bytes_are_accounted_for(self, tmp_path: Path, source: bytes, target: bytes):
        pairs, report = read(write_files(tmp_path, source, target), max_chars=4)
        numbers = [
            len(side.removeprefix(b"\xef\xbb\xbf").removesuffix(b"\n").split(b"\n")) for side in (source, target)
        ]
        expected = [
            0 if side in (b"", b"\xef\xbb\xbf") else n for side, n in zip((source, target), numbers, strict=True)
        ]
        assert report.num_lines == max(expected)
        assert report.num_kept == len(pairs)
        assert report.num_kept + sum(report.counts.values()) == report.num_lines
        assert report.counts.get("unequal-lines", 0) == max(expected) - min(expected)


class TestTsv:
    def test_columns_count_from_one(self, tmp_path: Path):
        data = b"id\tone\teins\trest\n"
        assert read(write_tsv(tmp_path, data, (2, 3)))[0] == [Pair(1, "one", "eins")]
        assert read(write_tsv(tmp_path, data, (3, 2)))[0] == [Pair(1, "eins", "one")]
        with pytest.raises(ValueError, match="the first column is 1"):
            PairSource.tsv("x.tsv", columns=(0, 1))

    def test_quotes_are_text(self, tmp_path: Path):
        assert read(write_tsv(tmp_path, b'"a\tb"\n'))[0] == [Pair(1, '"a', 'b"')]

    def test_problems(self, tmp_path: Path):
        pairs, report = read(write_tsv(tmp_path, b"a\tA\nalone\n\tB\nc\t\n\n\xff\tC\n"))
        assert pairs == [Pair(1, "a", "A")]
        assert names(report) == {
            "bad-record": ["x.tsv:2", "x.tsv:5"],
            "empty-source": ["x.tsv:3"],
            "empty-target": ["x.tsv:4"],
            "invalid-utf8": ["x.tsv:6"],
        }

    def test_a_record_that_is_cut_is_too_long(self, tmp_path: Path):
        data = b"\xef\xbb\xbf" + b"y" * 65_770 + b"\tend of the second\nb\tB\n"
        pairs, report = read(write_tsv(tmp_path, data), max_chars=10)
        assert pairs == [Pair(2, "b", "B")]
        assert names(report) == {"too-long": ["x.tsv:1"]}

    def test_a_column_that_is_cut_is_not_taken_for_a_short_one(self, tmp_path: Path):
        data = b"a\t" + b"y" * (10 * 24 + 65_536) + b"\t12345678\n"
        pairs, report = read(write_tsv(tmp_path, data, (1, 3)), max_chars=10)
        assert pairs == []
        assert names(report) == {"too-long": ["x.tsv:1"]}

    @given(data=anything)
    @reuse_folder
    def test_any_bytes(self, tmp_path: Path, data: bytes):
        pairs, report = read(write_tsv(tmp_path, data), max_chars=4)
        assert len(pairs) + sum(report.counts.values()) == report.num_lines


class TestJsonl:
    def test_keys(self, tmp_path: Path):
        line = b'{"en": "a", "de": "A", "score": 0.5}\n'
        assert read(write_jsonl(tmp_path, line))[0] == [Pair(1, "a", "A")]

    def test_nested_keys(self, tmp_path: Path):
        line = json.dumps({"translation": {"en": "a", "de": "Ä"}}).encode()
        assert read(write_jsonl(tmp_path, line, ("translation.de", "translation.en")))[0] == [Pair(1, "Ä", "a")]

    @pytest.mark.parametrize(
        ("line", "problem"),
        [
            (b"{", "bad-record"),
            (b"", "bad-record"),
            (b"null", "bad-record"),
            (b'["en", "de"]', "bad-record"),
            (b'{"en": "a"}', "bad-record"),
            (b'{"en": "a", "de": 1}', "bad-record"),
            (b'{"en": "a", "de": "b\\nc"}', "bad-record"),
            (b"[" * 60_000, "bad-record"),
            (b'{"en": "a", "x": ' + b"[" * 101 + b'"' + b'\\"' * 20_000, "bad-record"),  # in a moment, not in hours
            (b'{"en": ' + b"1" * 5_000 + b"}", "bad-record"),
            (b'{"en": "a", "de": "\xff"}', "invalid-utf8"),
            (b'{"en": "a", "de": "\\ud800"}', "half-character"),
            (b'{"en": "\\udfff", "de": "b"}', "half-character"),
            (b'{"en": "a\xff", "de": "\\ud800"}', "invalid-utf8"),
            (b'{"en": "a", "de": "\\u0000"}', "nul-character"),
            (b'{"en": "", "de": "b"}', "empty-source"),
            (b'{"en": "a", "de": " "}', "empty-target"),
            (b'{"en": "a", "de": "12345678901"}', "too-long"),
        ],
    )
    def test_problems(self, tmp_path: Path, line: bytes, problem: str):
        pairs, report = read(write_jsonl(tmp_path, line + b'\n{"en": "c", "de": "C"}\n'), max_chars=10)
        assert pairs == [Pair(2, "c", "C")]
        assert names(report) == {problem: ["x.jsonl:1"]}

    def test_escapes_do_not_count_as_length(self, tmp_path: Path):
        line = json.dumps({"en": "\U0001f600" * 9_999, "de": "\U0001f600" * 10_000}).encode()
        pairs, _ = read(write_jsonl(tmp_path, line))
        assert [len(pair.target) for pair in pairs] == [10_000]

    @given(data=anything)
    @reuse_folder
    def test_any_bytes(self, tmp_path: Path, data: bytes):
        pairs, report = read(write_jsonl(tmp_path, data), max_chars=4)
        assert len(pairs) + sum(report.counts.values()) == report.num_lines


def test_strict_stops_at_the_first_problem(tmp_path: Path):
    source = write_files(tmp_path, b"a\n\nc\n", b"A\nB\n")
    pairs = read_pairs(source, report=ReadReport(), strict=True)
    assert next(pairs) == Pair(1, "a", "A")
    with pytest.raises(ValueError, match=r"x\.en, line 2: empty-source: .*; repair it"):
        next(pairs)
    with pytest.raises(ValueError, match=r"x\.en, line 2: unequal-lines"):
        list(read_pairs(write_files(tmp_path, b"a\nb\n", b"A\n"), report=ReadReport(), strict=True))


class TestLines:
    def test_one_item_for_every_line(self, tmp_path: Path):
        path = tmp_path / "x.en"
        path.write_bytes(b"one\n\nb\xffd\n0123456789ABC\na\0b\nlast")
        report = ReadReport()
        assert list(read_lines(path, report=report, max_chars=10)) == [
            Line(1, "one", None),
            Line(2, "", None),
            Line(3, "b\ufffdd", "invalid-utf8"),
            Line(4, "0123456789", "too-long"),
            Line(5, "a\ufffdb", "nul-character"),
            Line(6, "last", None),
        ]
        assert (report.num_lines, report.num_kept) == (6, 6)
        assert names(report) == {"invalid-utf8": ["x.en:3"], "too-long": ["x.en:4"], "nul-character": ["x.en:5"]}

    @given(data=anything)
    @reuse_folder
    def test_as_many_items_as_lines(self, tmp_path: Path, data: bytes):
        path = tmp_path / "x.en"
        path.write_bytes(data)
        lines = list(read_lines(path, report=(report := ReadReport()), max_chars=4))
        body = data.removeprefix(b"\xef\xbb\xbf")
        assert len(lines) == report.num_lines == len(body.removesuffix(b"\n").split(b"\n")) * bool(body)
        assert all(len(line.text) <= 4 for line in lines)


class TestOtherEncodings:
    @pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
    def test_the_whole_file_is_refused(self, tmp_path: Path, encoding: str):
        data = "\ufeffHallo\nWelt\n".encode(encoding)
        expected = encoding.upper().removesuffix("-LE").removesuffix("-BE")
        message = rf"x\.\w+: expected UTF-8, got {expected}; convert it with iconv -f {expected} -t UTF-8"
        for source in (write_files(tmp_path, data, b"a\n"), write_tsv(tmp_path, data), write_jsonl(tmp_path, data)):
            with pytest.raises(ValueError, match=message):
                read(source)
        (tmp_path / "x.en").write_bytes(data)
        with pytest.raises(ValueError, match=message):
            list(read_lines(tmp_path / "x.en", report=ReadReport()))

    def test_the_wrong_side_is_named(self, tmp_path: Path):
        source = write_files(tmp_path, b"a\n", "a\n".encode("utf-16"))
        with pytest.raises(ValueError, match=r"x\.de: expected UTF-8, got UTF-16"):
            read(source)

    def test_standard_input(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xff\xfea\0\n\0")))
        with pytest.raises(ValueError, match="standard input: expected UTF-8, got UTF-16"):
            list(read_lines("-", report=ReadReport()))


class TestReport:
    def test_first_places_only(self):
        report = ReadReport(num_lines=1_010, num_kept=1_000)
        for line in range(1, 11):
            report.add("too-long", Place("x.en", line))
        assert report.lines() == [
            "1,010 lines read, 1,000 kept, 10 left out",
            f"too-long: 10 ({PROBLEMS['too-long']}): x.en:1, x.en:2, x.en:3, x.en:4, x.en:5, ...",
        ]

    def test_json(self):
        report = ReadReport(num_lines=3, num_kept=2)
        report.add("bad-record", Place("x.tsv", 2))
        assert json.loads(json.dumps(report.to_json())) == {
            "num_lines": 3,
            "num_kept": 2,
            "num_left_out": 1,
            "problems": {"bad-record": {"count": 1, "first": [{"file": "x.tsv", "line": 2}]}},
        }
