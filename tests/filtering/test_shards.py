"""Shards are found, cut into windows as on one machine, and sampled; parts are whole or not there."""

import os
from pathlib import Path
from typing import Any

import pytest
from tests.filtering.scoring import made_pairs
from tests.filtering.sharding import ROWS

from rela.filtering.ray_engine import RayOptions
from rela.filtering.scorer import Scorer
from rela.filtering.shards import (
    FORMATS,
    SAMPLED_WINDOWS,
    PartForm,
    ResultFolder,
    Shard,
    ShardFile,
    find_files,
    problems_in_part,
    render_part,
    sample_shards,
)
from rela.text.readers import PairSource
from rela.text.rows import read_windows


def cut_off(*_: object) -> None:
    pytest.fail("cut off")


class TestFinding:
    @pytest.fixture
    def place(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        for name in ("x/1.tsv", "x/2.tsv.gz", "y/1.jsonl", "y/_temporary/3.tsv", "y/.4.tsv", "z/readme.md"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(b"12345")
        monkeypatch.chdir(tmp_path)
        return tmp_path

    def names(self, *inputs: str) -> list[str]:
        return [file.name for file in find_files(inputs, "out")]

    def test_one_file(self, place: Path):
        (found,) = find_files(["x/1.tsv"], "out")
        assert found == ShardFile("1.tsv", f"{place}/x/1.tsv", 5, found.version)
        os.utime(place / "x" / "1.tsv", ns=(0, 1))  # changed, and as long as before
        assert find_files(["x/1.tsv"], "out")[0].version != found.version

    def test_folders_and_patterns(self, place: Path):
        assert self.names("x") == ["1.tsv", "2.tsv.gz"]
        assert self.names("y", f"file://{place}/x/*.tsv") == ["x/1.tsv", "y/1.jsonl"]
        assert self.names("z/readme.md") == ["readme.md"]

    def test_elsewhere(self, place: Path):
        url = f"memory://{place}"
        ResultFolder(url).write("deep/1.tsv", b"123")
        ResultFolder(url).write("2.tsv", b"1")
        found = find_files([url], "out")
        assert [file[:3] for file in found] == [("2.tsv", f"{url}/2.tsv", 1), ("deep/1.tsv", f"{url}/deep/1.tsv", 3)]
        assert find_files([url], "out") == found
        assert [window.pairs for window in Shard("2.tsv", 1, PairSource.tsv(found[0].url)).windows()] == [[]]
        with pytest.raises(ValueError, match="expected shards of one file system, got file and memory"):
            find_files([url, "x"], "out")

    @pytest.mark.parametrize(
        ("inputs", "output", "error"),
        [
            (["nothing"], "out", r"nothing: expected a file of pairs, or a folder or pattern of such, there is none"),
            (["*.csv"], "out", "there is none"),
            (["x", "x/1.tsv"], "out", r"expected each shard once, got .*/x/1\.tsv again"),
            (["z"], "out", r"got .*readme\.md as well; give a pattern, such as 'z/\*\.tsv\.gz'"),
            (["x"], "x/out", "expected an output outside of the folder of the input"),
        ],
    )
    @pytest.mark.usefixtures("place")
    def test_refusals(self, inputs: list[str], output: str, error: str):
        with pytest.raises((ValueError, FileNotFoundError), match=error):
            find_files(inputs, output)


def test_windows_are_those_of_one_machine(options: RayOptions):
    for shard in options.shards:
        local = list(read_windows(shard.source, header=shard.source.kind == "tsv"))
        assert list(shard.windows(header=True)) == local


class TestSamples:
    def test_of_few_shards(self, options: RayOptions):
        survey = sample_shards(options.shards, header=True)
        assert survey.num_rows == ROWS
        assert len(survey.sample) == 2000

    def test_of_many_shards(self, tmp_path: Path):
        (tmp_path / "one.tsv").write_bytes(b"dog\tHund\n" * 5)
        shards = [Shard(str(number), 1, PairSource.tsv(tmp_path / "one.tsv")) for number in range(1000)]
        assert sample_shards(shards, header=False).num_windows == len(shards[::16]) <= SAMPLED_WINDOWS


@pytest.mark.parametrize("spans", [False, True])
@pytest.mark.parametrize("form", FORMATS)
def test_problems_are_read_back(options: RayOptions, tmp_path: Path, form: PartForm, spans: bool):
    rows = [b"\t".join(map(str.encode, pair)) for pair in made_pairs(5)]
    rows[1:1] = [b"no tabs", b"dog\t" + b"Hund " * 1100, b"\xff\tx"]
    (tmp_path / "in.tsv").write_bytes(b"".join(row + b"\n" for row in rows))
    source = PairSource.tsv(tmp_path / "in.tsv")
    scorer = Scorer.load(options.model)
    scored = [(window, scorer.score_window(window.pairs, spans=spans)) for window in read_windows(source, size=3)]
    header = b"names\n" if form == "tsv" else b""
    data = render_part(scored, form, source, header)
    found = problems_in_part(data, form, header=True, spans=spans)  # only TSV has it in its parts
    assert found == [None, "bad-record", "too-many-pieces", "invalid-utf8", None, None, None, None]


class TestFolders:
    @pytest.fixture(params=["memory://{}/results/", "file://{}/results", "{}/results"])
    def results(self, request: pytest.FixtureRequest, tmp_path: Path) -> ResultFolder:
        return ResultFolder(request.param.format(tmp_path))

    def test_files(self, results: ResultFolder):
        for data in (b"1", b"22"):
            results.write("a/b/part", data)
            assert results.read("a/b/part") == data
        results.write("c", b"")
        assert results.list() == {"a/b/part", "c"}
        assert results.read_all(["c", "a/b/part"]) == [b"", b"22"]
        assert results.has("c")
        assert not results.has("a/b/c")

    def test_whole_or_not_there(self, results: ResultFolder, monkeypatch: pytest.MonkeyPatch):
        system: Any = results.__dict__["_system"]
        with monkeypatch.context() as patch:
            patch.setattr(type(system), "mv", cut_off)
            with pytest.raises(pytest.fail.Exception):
                results.write("new/part", b"123")
        assert "new/part" not in results.list()
        results.clean()
        results.write("new/part", b"123")
        assert results.read("new/part") == b"123"
