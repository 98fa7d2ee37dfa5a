"""`rela score` and `rela filter`: what goes in and out, what is refused, and what is said."""

import gzip
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.translating import names, same_package
from tests.filtering.scoring import made_pairs, make_scorer

from rela._lock import FolderLock
from rela.cli._app import run
from rela.cli._commands import COMMANDS, GROUPS
from rela.filtering.scores import COLUMNS

PAIRS = made_pairs(120, seed=21)
TSV = "".join(f"{source}\t{target}\n" for source, target in PAIRS)

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "model"
    make_scorer(folder)
    return folder


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Call:
    """Runs a command in this process, in a folder with pairs."""
    monkeypatch.setenv("RELA_DEBUG", "0")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.tsv").write_text(TSV, encoding="utf-8")

    def command(*arguments: str | Path, stdin: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            code = run(COMMANDS, GROUPS, [str(argument) for argument in arguments])
        sys.stdout.flush()
        captured = capfdbinary.readouterr()
        return code, captured.out.decode(errors="replace"), captured.err.decode()

    return command


class TestScore:
    def test_files_and_standard_streams(self, call: Call, model: Path, tmp_path: Path):
        code, out, err = call("score", model, "in.tsv", "--workers", "1")
        assert code == 0
        assert [line.split("\t")[:2] for line in out.splitlines()] == [list(pair) for pair in PAIRS]
        assert all(len(line.split("\t")) == 2 + len(COLUMNS) + 1 for line in out.splitlines())
        assert "120 pairs scored" in err
        assert "of the speed of bare forced decoding" in err
        assert call("score", model, "-", "--workers", "1", stdin=TSV.encode())[1] == out
        assert call("score", model, "in.tsv", "-o", "out.tsv", "--workers", "1")[:2] == (0, "")
        assert (tmp_path / "out.tsv").read_text(encoding="utf-8") == out
        assert names(tmp_path) == ["in.tsv", "out.tsv"]

    @pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="no files in memory")
    def test_a_file_in_memory_is_replaced(self, call: Call, model: Path):
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            output = Path(folder) / "out.tsv"
            output.write_text("old")
            assert call("score", model, "in.tsv", "-o", output, "--workers", "1")[0] == 0
            assert output.read_text(encoding="utf-8").count("\n") == 120

    def test_json_lines(self, call: Call, model: Path):
        code, out, _ = call("score", model, "in.tsv", "--json", "-", "--spans", "--workers", "1")
        rows = [json.loads(line) for line in out.splitlines()]
        assert code == 0
        assert [(row["source"], row["target"]) for row in rows] == PAIRS
        assert all({"null_rate", "cross_entropy", "quality", "suspicious", "line"} <= set(row) for row in rows)
        assert call("score", model, "in.tsv", "-o", "out.jsonl", "--spans", "--workers", "1")[0] == 0
        assert Path("out.jsonl").read_text(encoding="utf-8") == out

    def test_a_single_pair(self, call: Call, model: Path):
        """By the calibration that the model remembers."""
        code, out, _ = call(
            "score", model, "--json", "-", "--workers", "1", stdin=b"the dog runs\tder Hund l\xc3\xa4uft\n"
        )
        assert code == 0
        assert 0 <= json.loads(out)["quality"] <= 1

    def test_packed_and_parquet(self, call: Call, model: Path, tmp_path: Path):
        plain = call("score", model, "in.tsv", "--workers", "1")[1]
        (tmp_path / "in.tsv.gz").write_bytes(gzip.compress(TSV.encode()))
        assert call("score", model, "in.tsv.gz", "-o", "out.tsv.gz", "--workers", "1")[0] == 0
        assert gzip.decompress((tmp_path / "out.tsv.gz").read_bytes()).decode() == plain
        assert call("score", model, "in.tsv", "-o", "out.parquet", "--workers", "1")[0] == 0
        table = pq.read_table(tmp_path / "out.parquet")
        assert table.num_rows == 120
        assert (
            call("score", model, "out.parquet", "--keys", "source,target", "-o", "b.parquet", "--workers", "1")[0] == 0
        )

    def test_endings(self, call: Call, model: Path, tmp_path: Path):
        assert call("score", model, "in.tsv", "-o", "out.PARQUET", "--workers", "1")[0] == 0
        assert pq.read_table(tmp_path / "out.PARQUET").num_rows == 120
        code, _, err = call("score", model, "in.tsv", "-o", "out.parquet.gz", "--workers", "1")
        assert code == 2
        assert "--output: expected a table that ends in .parquet, which is packed inside" in err

    def test_two_files_columns_and_header(self, call: Call, model: Path, tmp_path: Path):
        plain = call("score", model, "in.tsv", "--workers", "1")[1]
        for side, name in enumerate(("in.en", "in.de")):
            (tmp_path / name).write_text("".join(f"{pair[side]}\n" for pair in PAIRS), encoding="utf-8")
        assert call("score", model, "--src", "in.en", "--tgt", "in.de", "--workers", "1")[1] == plain
        turned = "id\tde\ten\n" + "".join(f"{n}\t{t}\t{s}\n" for n, (s, t) in enumerate(PAIRS))
        (tmp_path / "t.tsv").write_text(turned, encoding="utf-8")
        code, out, _ = call("score", model, "t.tsv", "--columns", "3,2", "--header", "--workers", "1")
        lines = out.splitlines()
        assert code == 0
        assert lines[0].split("\t") == ["id", "de", "en", *COLUMNS, "problem"]
        assert [line.split("\t")[3:] for line in lines[1:]] == [line.split("\t")[2:] for line in plain.splitlines()]

    def test_jsonl_keys_are_found(self, call: Call, model: Path, tmp_path: Path):
        rows = [{"translation": {"en": source, "de": target}} for source, target in PAIRS]
        (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        code, out, _ = call("score", model, "in.jsonl", "--workers", "1")
        assert code == 0
        assert all(json.loads(line)["problem"] is None for line in out.splitlines())

    def test_malformed_rows_are_said(self, call: Call, model: Path, tmp_path: Path):
        (tmp_path / "in.tsv").write_bytes(TSV.encode() + b"one\n\xff\tb\n")
        code, out, err = call("score", model, "in.tsv", "--workers", "1")
        assert code == 0
        assert len(out.splitlines()) == 122
        said = "2 of 122 rows are malformed and have no scores: bad-record 1, invalid-utf8 1"
        assert said in err
        assert said in call("score", model, "-", "--workers", "1", stdin=TSV.encode() + b"one\n\xff\tb\n")[2]

    def test_calibrations(self, call: Call, model: Path, tmp_path: Path):
        by_model = call("score", model, "in.tsv", "--workers", "1")[1]
        by_input = call(
            "score", model, "in.tsv", "--workers", "1", "--calibrate-on", "input", "--save-calibration", "c.json"
        )[1]
        assert by_input != by_model
        assert call("score", model, "in.tsv", "--workers", "1", "--calibrate-on", "c.json")[1] == by_input
        assert call("score", model, "in.tsv", "--workers", "1", "--calibrate-on", "in.tsv")[1] == by_input
        assert call("score", model, "in.tsv", "--workers", "1", "--calibrate-on", "model")[1] == by_model

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["no.tsv"], "no.tsv: expected a file of pairs, there is none"),
            (["in.tsv", "--columns", "0,1"], "--columns: expected two numbers from 1 on"),
            (["in.tsv", "--keys", "a,b"], "--keys: expected JSONL or Parquet, got TSV"),
            (["in.tsv", "--src", "a", "--tgt", "b"], "expected a file of pairs, or --src and --tgt"),
            (["--src", "a"], "expected --src FILE and --tgt FILE together"),
            (["in.tsv", "--format", "xml"], "--format: expected tsv, jsonl, parquet, got 'xml'"),
            (["in.tsv", "-o", "in.tsv"], "--output: expected another file than the input"),
            (
                ["in.tsv", "--calibrate-on", "c.tsv", "-o", "c.tsv"],
                "than the pairs or the calibration of --calibrate-on",
            ),
            (["in.tsv", "--columns", "1,9999999999"], "--columns: expected numbers of columns of at most 9 digits"),
            (["in.tsv", "-o", "a.tsv.bz2"], "--output: expected a name that ends in .gz, .xz, .zst for a packed file"),
            (["in.tsv", "-o", "a.json"], "--output: expected a name that ends in .jsonl"),
            (["in.tsv", "--json", "a.parquet"], "--json: expected a file of JSON lines, got 'a.parquet'"),
            (["in.tsv", "--calibrate-on", "."], "a file of pairs or a calibration, got the folder ."),
            (["in.tsv", "-o", "a", "--json", "b"], "expected --output or --json, got both"),
            (["in.tsv", "--calibrate-on", "none.tsv"], "none.tsv"),
            (["-", "--save-calibration", "c.json"], "--save-calibration: expected a file of pairs, got a pipe"),
            (["in.tsv", "--save-calibration", "in.tsv"], "--save-calibration: expected another file than the input"),
            (["in.tsv", "--save-calibration", "no/c.json"], "the folder of 'no/c.json' does not exist"),
        ],
    )
    def test_wrong_use(self, call: Call, model: Path, arguments: list[str], message: str):
        code, out, err = call("score", model, *arguments)
        assert code in (1, 2)
        assert out == ""
        assert message in err

    def test_nothing_that_is_read_is_written_over(self, call: Call, model: Path, tmp_path: Path):
        weights = (model / "model.safetensors").read_bytes()
        for option in ("-o", "--json", "--save-calibration"):
            code, _, err = call("score", model, "in.tsv", option, model / "model.safetensors")
            assert code == 2
            assert "expected another file than a file of the model" in err
        assert (model / "model.safetensors").read_bytes() == weights
        code, _, err = call(
            *("score", model, "in.tsv", "--engine", "ray", "--out", "parts", "--save-calibration", "in.tsv")
        )
        assert code == 2
        assert "--save-calibration: expected another file than the input" in err
        program = Path(sys.executable).with_name("rela")
        with (tmp_path / "in.tsv").open("rb") as file:
            command = [program, "score", model, "-o", "in.tsv", "--workers", "1"]
            done = subprocess.run(command, stdin=file, cwd=tmp_path, capture_output=True, check=False)
        assert done.returncode == 2, done.stderr
        for arguments in (["in.tsv"], ["other.tsv", "-o", "/dev/stdout"]):
            (tmp_path / "other.tsv").write_text(TSV, encoding="utf-8")
            with (tmp_path / "in.tsv").open("ab") as file:
                command = [program, "score", model, *arguments, "--workers", "1"]
                done = subprocess.run(command, stdout=file, cwd=tmp_path, stderr=subprocess.PIPE, check=False)
            assert done.returncode == 2, done.stderr
        assert (tmp_path / "in.tsv").read_text(encoding="utf-8") == TSV


class TestOddInputs:
    def test_a_pipe_with_a_name(self, call: Call, model: Path, tmp_path: Path):
        plain = call("score", model, "in.tsv", "--workers", "1")[1]
        os.mkfifo(tmp_path / "pipe")
        with ThreadPoolExecutor() as pool:
            pool.submit((tmp_path / "pipe").write_bytes, TSV.encode())
            assert call("score", model, "pipe", "--workers", "1")[:2] == (0, plain)
        code, _, err = call("filter", "pipe", "--model", model)
        assert code == 2
        assert "expected a file, which is read more than once, got a pipe" in err

    def test_calibration_reads_as_the_input_is_read(self, call: Call, model: Path, tmp_path: Path):
        turned = "id\tde\ten\n" + "".join(f"{n}\t{t}\t{s}\n" for n, (s, t) in enumerate(PAIRS))
        (tmp_path / "t.tsv").write_text(turned, encoding="utf-8")
        options = ["--columns", "3,2", "--header", "--workers", "1", "--calibrate-on"]
        by_input = call("score", model, "t.tsv", *options, "input")[1]
        assert call("score", model, "t.tsv", *options, "t.tsv")[1] == by_input
        rows = [{"a": source, "b": target} for source, target in PAIRS]
        (tmp_path / "r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        code, _, err = call("score", model, "r.jsonl", "--keys", "a,b", "--calibrate-on", "r.jsonl", "--workers", "1")
        assert code == 0, err

    def test_all_columns_come_out(self, call: Call, model: Path, tmp_path: Path):
        lines = ["id\ten\tde", *(f"{n}\t{s}\t{t}" for n, (s, t) in enumerate(PAIRS))]
        (tmp_path / "t.tsv").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        options = ["--columns", "2,3", "--header", "--workers", "1"]
        assert call("score", model, "t.tsv", *options, "-o", "o.jsonl")[0] == 0
        rows = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text(encoding="utf-8").splitlines()]
        assert [row["raw"] for row in rows] == lines[1:]
        assert call("score", model, "t.tsv", *options, "-o", "o.parquet")[0] == 0
        assert pq.read_table(tmp_path / "o.parquet").column("raw").to_pylist() == lines[1:]

    def test_nested_columns_of_a_table(self, call: Call, model: Path, tmp_path: Path):
        rows = [{"en": source, "de": target} for source, target in PAIRS]
        pq.write_table(pa.table({"id": range(len(PAIRS)), "translation": rows}), tmp_path / "t.parquet")
        plain = call("score", model, "in.tsv", "--json", "-", "--workers", "1")[1].splitlines()
        for keys in ([], ["--keys", "translation.en,translation.de"]):
            code, out, err = call("score", model, "t.parquet", *keys, "--workers", "1")
            assert code == 0, err
            found = [json.loads(line) for line in out.splitlines()]
            assert [row["quality"] for row in found] == [json.loads(line)["quality"] for line in plain]
            assert found[3]["translation"] == rows[3]
        code, _, err = call("score", model, "t.parquet", "--keys", "translation.en,translation.fr", "--workers", "1")
        assert code == 1
        assert "expected the columns translation.en and translation.fr, got id, translation" in err

    def test_tables_with_bytes_numbers_and_scores_of_their_own(self, call: Call, model: Path, tmp_path: Path):
        texts = [pair[0].encode() for pair in PAIRS[:-1]] + [b"\xff bad"]
        source = pa.array(texts, pa.binary()).view(pa.string())
        extra: dict[str, Any] = {"x": [float("nan")] * len(PAIRS), "quality": ["mine"] * len(PAIRS)}
        table = pa.table({"source": source, "target": [pair[1] for pair in PAIRS], **extra})
        pq.write_table(table, tmp_path / "t.parquet")
        code, out, err = call("score", model, "t.parquet", "--workers", "1")
        assert code == 0, err
        rows = [json.loads(line) for line in out.splitlines()]
        assert rows[-1]["problem"] == "invalid-utf8"
        assert rows[-1]["target"] == PAIRS[-1][1]
        assert rows[0]["x"] is None
        assert call("score", model, "t.parquet", "-o", "o.parquet", "--workers", "1")[0] == 0
        assert call("score", model, "o.parquet", "-o", "p.parquet", "--workers", "1")[0] == 0
        names_of = pq.read_schema(tmp_path / "p.parquet").names
        assert len(names_of) == len(set(names_of))

    def test_rows_of_json_with_keys_of_ours(self, call: Call, model: Path, tmp_path: Path):
        rows = [{"source": s, "target": t, "line": "mine", "x": float("nan")} for s, t in PAIRS]
        (tmp_path / "r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        code, out, err = call("score", model, "r.jsonl", "--workers", "1")
        assert code == 0, err
        assert all(json.loads(line)["line"] == "mine" for line in out.splitlines())
        _, _, err = call("score", model, "--workers", "1", stdin=(tmp_path / "r.jsonl").read_bytes())
        assert "--format, --columns and --keys say how rows are read" in err

    def test_the_same_pair_again_and_again(self, call: Call, model: Path, tmp_path: Path):
        (tmp_path / "s.tsv").write_text("\t".join(PAIRS[0]) + "\n", encoding="utf-8")
        (tmp_path / "same.tsv").write_text(("\t".join(PAIRS[0]) + "\n") * 80, encoding="utf-8")
        code, out, _ = call("score", model, "same.tsv", "--calibrate-on", "input", "--workers", "1")
        assert code == 0
        assert "nan" not in out

    def test_too_many_pieces_are_counted(self, call: Call, model: Path, tmp_path: Path):
        (tmp_path / "in.tsv").write_text(TSV + "dog\t" + "Hund " * 1100 + "\n", encoding="utf-8")
        said = "1 of 121 rows are malformed and have no scores: too-many-pieces 1"
        assert said in call("score", model, "in.tsv", "--workers", "1")[2]
        assert said in call("score", model, "-", "--workers", "1", stdin=(tmp_path / "in.tsv").read_bytes())[2]


class TestFilter:
    def test_keep(self, call: Call, model: Path, tmp_path: Path):
        (tmp_path / "in.tsv").write_bytes(TSV.encode() + b"one\n")
        code, out, err = call("filter", "in.tsv", "--model", model, "--keep", "0.5", "--workers", "1", "--json", "-")
        assert code == 0
        assert "input 121 = kept 60 + rejected 60 + malformed 1" in err
        folder = tmp_path / "in.tsv.sieve"
        assert names(folder) == ["kept.tsv", "rejected.tsv", "report.html", "scores", "summary.json"]
        assert json.loads(out)["counts"] == {"input": 121, "kept": 60, "rejected": 60, "malformed": 1}
        summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
        assert summary["rule"] == {"by": "quality", "keep": 0.5}
        assert summary["command"].startswith("rela filter in.tsv --model ")
        before = (folder / "kept.tsv").read_bytes()
        code, _, err = call("filter", "in.tsv", "--model", model, "--top", "7", "--workers", "1")
        assert "pairs scored" not in err  # nothing is scored again
        summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
        assert summary["speed"]["pairs_per_second"] is None
        kept = (folder / "kept.tsv").read_bytes()
        assert kept.count(b"\n") == 7
        assert set(kept.splitlines()) <= set(before.splitlines())

    def test_not_into_the_model(self, call: Call, model: Path):
        before = names(model)
        code, _, err = call("filter", "in.tsv", "--model", model, "--out", model, "--workers", "1")
        assert code == 2
        assert "--out: expected a folder for the results, got the model's own" in err
        assert names(model) == before

    def test_what_is_in_the_way_is_said_first(self, call: Call, model: Path, tmp_path: Path):
        (tmp_path / "out" / "kept.tsv").mkdir(parents=True)
        code, _, err = call("filter", "in.tsv", "--model", model, "--out", "out", "--workers", "1")
        assert code == 2
        assert "--out: expected to write 'out/kept.tsv', got a folder of that name" in err
        assert names(tmp_path / "out") == ["kept.tsv"]
        mine = tmp_path / "mine" / "scores" / "my-recipe.json"
        mine.parent.mkdir(parents=True)
        mine.write_text("mine")
        code, _, err = call("filter", "in.tsv", "--model", model, "--out", "mine", "--workers", "1")
        assert code == 1
        assert "got one with my-recipe.json in it" in err
        assert mine.read_text() == "mine"
        (tmp_path / "out.tsv.partial").touch()
        assert "expected a folder for scores, got a file" in call("score", model, "in.tsv", "-o", "out.tsv")[2]

    def test_header_of_nothing(self, call: Call, model: Path, tmp_path: Path):
        (tmp_path / "none.tsv").touch()
        assert call("filter", "none.tsv", "--model", model, "--header", "--out", "out", "--workers", "1")[0] == 0
        assert (tmp_path / "out" / "kept.tsv").read_bytes() == b""
        assert (tmp_path / "out" / "rejected.tsv").read_bytes() == b"reason\tquality\n"

    def test_thresholds_without_end(self, call: Call, model: Path):
        for threshold, kept in (("-1e300", 120), ("1e300", 0)):
            code, _, err = call(
                *("filter", "in.tsv", "--model", model, "--threshold", threshold, "--out", "out", "--workers", "1")
            )
            assert code == 0
            assert f"kept {kept} +" in err
            assert "overflow" not in err

    def test_default_threshold(self, call: Call, model: Path, tmp_path: Path):
        assert call("filter", "in.tsv", "--model", model, "--out", "clean", "--workers", "1")[0] == 0
        summary = json.loads((tmp_path / "clean" / "summary.json").read_text(encoding="utf-8"))
        assert summary["rule"] == {"by": "quality", "threshold": 0.5}

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["in.tsv"], "expected --model MODEL, or --train"),
            (["in.tsv", "--model", "m", "--train"], "expected --model MODEL, or --train"),
            (["-", "--model", "m"], "expected a file, which is read more than once"),
            (["in.tsv", "--model", "m", "--keep", "0.5", "--top", "3"], "expected one of keep, threshold and top"),
            (["in.tsv", "--model", "m", "--by", "null_rate"], "--by: expected --keep, --threshold or --top as well"),
            (["in.tsv", "--model", "m", "--by", "length_ratio", "--keep", "1"], "by: expected one of"),
            (["in.tsv", "--model", "m", "--budget", "3"], "--model: expected no option of what it leaves out"),
            (["in.tsv", "--train", "--languages", "en"], "--languages: expected two"),
            (["in.tsv", "--train", "--attention", "relo"], "unknown attention"),
            (["in.tsv", "--model", "m", "--threshold", "nan"], "--threshold: expected a number, got nan"),
            (["in.tsv", "--train", "--budget", "inf"], "--budget: expected minutes, at most 525,600, got inf"),
            (["in.tsv", "--train", "--seed", str(2**63)], "--seed: expected less than"),
            (["in.tsv", "--train", "--device", "cuda:77"], "cuda:77"),
            (["in.jsonl", "--train", "--keys", "en"], "--keys: expected two different keys"),
            (["in.jsonl", "--train", "--keys", "en,de", "--header"], "--header: expected TSV"),
        ],
    )
    def test_wrong_use(self, call: Call, arguments: list[str], message: str):
        code, _, err = call("filter", *arguments)
        assert code == 2
        assert message in err

    def test_too_few_pairs_to_train_on(self, call: Call):
        code, _, err = call("filter", "in.tsv", "--train")
        assert code == 1
        assert "expected at least 500 good pairs to train a scorer on, got 120" in err

    def test_one_training_a_folder(self, call: Call, tmp_path: Path):
        (tmp_path / "clean").mkdir()
        lock = FolderLock(tmp_path / "clean", "in use")  # as by another command
        code, _, err = call("filter", "in.tsv", "--train", "--out", "clean")
        lock.release()
        assert code == 1
        assert "another `rela filter --train` is at work here" in err
        assert names(tmp_path / "clean") == []
        assert "got 120" in call("filter", "in.tsv", "--train", "--out", "clean")[2]  # the folder is free again

    def test_what_is_missing_is_said_before_a_training(self, call: Call, tmp_path: Path):
        code, _, err = call("filter", "in.tsv", "--train", "--calibrate-on", "nothere.tsv")
        assert code == 1
        assert "--calibrate-on: expected input, model, a file of pairs or a calibration, there is no nothere.tsv" in err
        assert names(tmp_path) == ["in.tsv"]

    def test_nothing_of_the_user_is_overwritten_or_deleted(self, call: Call, model: Path, tmp_path: Path):
        (tmp_path / "kept.tsv").write_text(TSV, encoding="utf-8")
        code, _, err = call("filter", "kept.tsv", "--model", model, "--out", ".", "--workers", "1")
        assert code == 2
        assert "--out: expected another file than the input" in err
        assert (tmp_path / "kept.tsv").read_text(encoding="utf-8") == TSV
        for own, command in (
            ("own/scores/mine", ["filter", "in.tsv", "--model", model, "--out", "own"]),
            ("own2/scores/202401/mine", ["filter", "in.tsv", "--model", model, "--out", "own2"]),
            ("o.tsv.partial/mine", ["score", model, "in.tsv", "-o", "o.tsv"]),
        ):
            (tmp_path / own).mkdir(parents=True)
            code, _, err = call(*command, "--workers", "1")
            assert code == 1
            first = Path(own).parts[1 + own.startswith("own")]
            assert f"expected a new folder, or one of scores, got one with {first} in it" in err
            assert (tmp_path / own).is_dir()


def test_train_a_scorer_on_the_crawl_itself(call: Call, tmp_path: Path):
    pairs = made_pairs(700, seed=4)
    (tmp_path / "crawl.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in pairs) + "broken\n", encoding="utf-8")
    command = ("filter", "crawl.tsv", "--train", "--tokens", "20000", "--languages", "en,de", "--workers", "1")
    code, _, err = call(*command)
    assert code == 0, err
    assert "plan: training on 20,000 target tokens" in err
    assert "input 701 = kept" in err
    folder = tmp_path / "crawl.tsv.sieve"
    assert {"kept.tsv", "rejected.tsv", "report.html", "training", "store"} <= set(names(folder))
    report = (folder / "report.html").read_bytes()
    code, _, err = call(*command)  # all is there already
    assert code == 0
    assert "plan:" not in err
    assert (folder / "report.html").read_bytes().count(b"<") == report.count(b"<")
    quality = folder / "training" / "model" / "quality.json"
    remembered = quality.read_bytes()
    quality.unlink()  # as if it was killed before it was written
    assert call(*command)[0] == 0
    assert quality.read_bytes() == remembered
    for other in (["--seed", "2"], ["--attention", "softmax"]):
        code, _, err = call(*command, *other)
        assert code == 1
        assert f"expected the pairs and options that its scorer was trained with, got other {other[0][2:]}" in err
    (tmp_path / "crawl.tsv").write_text("".join(f"{t}\t{s}\n" for s, t in pairs), encoding="utf-8")
    assert "got other inputs" in call(*command)[2]


@pytest.mark.slow
def test_training_stopped_by_ctrl_c(tmp_path: Path):
    (tmp_path / "crawl.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in made_pairs(600, seed=4)), encoding="utf-8")
    command = [sys.executable, "-m", "rela", "filter", "crawl.tsv", "--train", "--tokens", "2000000", "--out", "clean"]
    process = subprocess.Popen(command, cwd=tmp_path, env=same_package(), stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not (tmp_path / "clean" / "training" / "log.jsonl").exists():
        time.sleep(0.05)
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "rela: stopped; the same command goes on from here" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("workers", ["1", pytest.param("2", marks=pytest.mark.slow)])
def test_killed_and_gone_on(model: Path, tmp_path: Path, workers: str):
    """kill -9 of the whole command, again and again: at the end not a row is lost or doubled."""
    pairs = made_pairs(9000, seed=9, longest=4)
    (tmp_path / "in.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in pairs), encoding="utf-8")
    options = ["-o", "out.tsv", "--workers", workers, "--calibrate-on", "model"]
    command = [sys.executable, "-m", "rela", "score", str(model), "in.tsv", *options]
    done = tmp_path / "out.tsv.partial" / "000000"
    process = subprocess.Popen(command, cwd=tmp_path, env=same_package(), stderr=subprocess.DEVNULL)
    while process.poll() is None and not (done.is_dir() and len(list(done.glob("*.npz"))) >= 2):
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "out.tsv").exists()
    kept = len(list(done.glob("*.npz")))
    assert 2 <= kept <= 5
    again = subprocess.run(command, cwd=tmp_path, env=same_package(), capture_output=True, text=True, check=True)
    assert f"{9000 - kept * 2048 if kept < 5 else 0:,} pairs scored" in again.stderr or kept == 5
    rows = [line.split("\t") for line in (tmp_path / "out.tsv").read_text(encoding="utf-8").splitlines()]
    assert [tuple(row[:2]) for row in rows] == pairs
    assert names(tmp_path) == ["in.tsv", "out.tsv"]
