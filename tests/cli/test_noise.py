"""`rela noise` and `rela bench noise`: what they write, say and refuse."""

import gzip
import json
import os
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.filtering.scoring import made_pairs, make_scorer
from tests.training.helpers import make_store, tiny_config, train

from rela.bench.results import check
from rela.cli._app import run
from rela.cli._commands import COMMANDS, GROUPS
from rela.filtering.noises import NOISES

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    monkeypatch.setenv("RELA_DEBUG", "0")
    monkeypatch.chdir(tmp_path)
    for seed, split in enumerate(("dev", "test")):
        pairs = made_pairs(80, seed=seed)
        for side, name in enumerate(("en", "de")):
            (tmp_path / f"{split}.{name}").write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")

    def command(*arguments: str) -> tuple[int, str, str]:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            code = run(COMMANDS, GROUPS, list(arguments))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return command


FILES = ("--src", "test.en", "--tgt", "test.de")
LEARN = ("--learn-src", "dev.en", "--learn-tgt", "dev.de")


class TestNoise:
    def test_labels_tell_what_was_done(self, call: Call, tmp_path: Path):
        code, out, _ = call("noise", *FILES, "-o", "crawl.tsv", "--labels", "labels", "--json", "counts.json")
        assert code == 0
        rows = [line.split("\t") for line in (tmp_path / "crawl.tsv").read_text(encoding="utf-8").splitlines()]
        labels = (tmp_path / "labels").read_text().splitlines()
        targets = (tmp_path / "test.de").read_text(encoding="utf-8").splitlines()
        assert len(rows) == len(labels) == 80
        assert all(
            (row[1] == target) == (label == "good") for row, label, target in zip(rows, labels, targets, strict=True)
        )
        counts = json.loads((tmp_path / "counts.json").read_text())["counts"]
        assert counts == {label: labels.count(label) for label in counts}
        assert f"{80 - counts['good']} of them spoiled" in out

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--kinds", "shuffled,salad"], "--kinds: expected some of shuffled"),
            (["--share", "2"], "2"),
            (["-o", "test.en"], "--output: expected another file than --src"),
            (["-o", "-"], "expected files, got standard output"),
            (["--labels", "crawl.tsv"], "--labels: expected another file than --output"),
            (["--labels", "labels.bz2"], "--labels: expected a name that ends in .gz, .xz, .zst for a packed file"),
            (["--kinds", "number,number"], "--kinds: expected each kind once"),
        ],
    )
    def test_wrong_use(self, call: Call, arguments: list[str], message: str):
        code, _, err = call("noise", *FILES, "-o", "crawl.tsv", *arguments)
        assert code == 2
        assert message in err

    def test_pipes_stay_pipes(self, call: Call, tmp_path: Path):
        os.mkfifo(tmp_path / "pipe")
        found: list[bytes] = []
        reader = threading.Thread(target=lambda: found.append((tmp_path / "pipe").read_bytes()))
        reader.start()
        code, _, err = call("noise", *FILES, "-o", "pipe", "--language", "xx")
        reader.join()
        assert code == 0
        assert found[0].count(b"\n") == 80
        assert (tmp_path / "pipe").is_fifo()
        assert "no words for numbers are known in 'xx'" in err

    def test_what_is_left_out_is_said(self, call: Call, tmp_path: Path):
        with (tmp_path / "test.en").open("a") as english, (tmp_path / "test.de").open("a") as german:
            english.write("\na\tb\nlong\nalone\n")
            german.write("x\nc\n" + "9" * 5000 + "\n")
        code, out, err = call("noise", *FILES, "-o", "crawl.tsv", "--kinds", "number", "--share", "1")
        assert code == 0
        assert "left out: empty-source 1, tab 1, unequal-lines 1" in err
        assert "81 pairs" in out
        (tmp_path / "tabs").write_text("a\tb\nc\td\n")
        code, _, err = call("noise", "--src", "tabs", "--tgt", "test.de", "-o", "c.tsv")
        assert code == 1
        assert "expected at least one sentence pair, got none; all are left out: tab 2, unequal-lines" in err
        foreign = "un\tdeux\nun\u2028deux\n\ntrois\n".encode()
        (tmp_path / "fr.gz").write_bytes(gzip.compress(foreign))
        spoil = ("--kinds", "wrong-language", "--share", "1", "--foreign", "fr.gz")
        code, _, err = call("noise", *FILES, "-o", "c.tsv.gz", *spoil)
        assert code == 0
        assert "2 of 4 lines are empty, too long, no text, or have tabs" in err
        rows = gzip.decompress((tmp_path / "c.tsv.gz").read_bytes()).decode().split("\n")[:-1]
        assert {row.split("\t")[1] for row in rows} == {"un\u2028deux", "trois"}
        (tmp_path / "fr").write_text("\n")
        assert "expected sentences of a third language" in call("noise", *FILES, "-o", "c.tsv", "--foreign", "fr")[2]


class TestBench:
    def test_table(self, call: Call, tmp_path: Path):
        make_scorer(tmp_path / "model")
        code, out, err = call("bench", "noise", "model", *FILES, *LEARN, "--json", "noise.json")
        assert code == 0, err
        assert "shuffled" in out
        found = json.loads((tmp_path / "noise.json").read_text())
        (entry,) = found["models"]
        assert entry["attention"] == "rela-g"
        assert "noise|data:test|pairs:80|calibrated-on:80|foreign:source|seed:1" in entry["signature"]
        assert set(entry["noises"]) == set(NOISES)
        for scores in entry["noises"].values():
            assert {"quality", "quality_all", "null_rate", "cross_entropy", "attention_penalty"} <= set(scores["auc"])
            assert all(0 <= value <= 1 for value in (*scores["auc"].values(), *scores["precision"].values()))
        assert entry["noises"]["appended"]["auc"]["length_ratio"] > 0.6

    def test_over_time(self, call: Call, tmp_path: Path):
        train(tiny_config(make_store(tmp_path / "data")), tmp_path / "run")
        code, out, err = call(
            "bench", "noise", "run", *FILES, "--over-time", "shuffled", "--count", "60", "--json", "curves.json"
        )
        assert code == 0, err
        (run_,) = json.loads((tmp_path / "curves.json").read_text())["runs"]
        assert [moment["step"] for moment in run_["moments"]] == [4, 6, 8]
        assert all(len(moment["heads"]) == 1 and len(moment["heads"][0]) == 2 for moment in run_["moments"])
        assert "update 8: null rate" in out

    def test_wrong_use(self, call: Call, tmp_path: Path):
        make_scorer(tmp_path / "model")
        assert call("bench", "noise", "model", *FILES, "--over-time", "salad")[0] == 2
        assert call("bench", "noise", "model", *FILES, *LEARN, "--over-time", "shuffled")[0] == 2
        assert call("bench", "noise", "model", *FILES)[0] == 2
        (tmp_path / "fr").write_text("one\n")
        assert call("bench", "noise", "model", *FILES, *LEARN, "--foreign", "fr", "--json", "fr")[0] == 2
        code, _, err = call("bench", "noise", "model", *FILES, *LEARN, "--foreign", "fr")
        assert code == 1
        assert "beside each of 80 pairs, the last of which stands in line 80; got a file of fewer lines" in err
        code, _, err = call("bench", "noise", "model", *FILES, "--learn-src", FILES[1], "--learn-tgt", LEARN[3])
        assert code == 2
        assert "expected other pairs than those that are tested on, got 'test.en' for both" in err
        (tmp_path / "fr").write_bytes(b"un\n\xff\n")
        assert (
            "fr, line 2: expected a sentence, got invalid-utf8"
            in call("bench", "noise", "model", *FILES, *LEARN, "--foreign", "fr")[2]
        )


def test_bench_score(call: Call, tmp_path: Path):
    make_scorer(tmp_path / "model")
    code, out, err = call("bench", "score", "model", *FILES, "--workers", "1", "--json", "score.json")
    assert code == 0, err
    assert "80 pairs in" in out
    assert "memory of all processes: at most" in out
    found = json.loads((tmp_path / "score.json").read_text())
    check(found)
    (entry,) = found["models"]
    assert entry["measures"]["score.share_of_bare"]["target"] == 0.8
    assert entry["measures"]["score.flipped"]["value"] <= 1e-4
    assert 0 < entry["measures"]["score.memory_peak_gb"]["value"] < 4
