"""`rela analyze`: what goes in and out, what is said, and what is refused."""

import gzip
import io
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.analysis.studies import make_model, write_corpus, write_lines
from tests.cli.translating import names, same_package

from rela.analysis import study
from rela.cli._app import run
from rela.cli._commands import COMMANDS, GROUPS

FILES = ("--src", "test.en", "--tgt", "test.de", "--out", "out")
GOLD = ("--gold-sure", "test.sure", "--gold-possible", "test.possible")

Analyze = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Analyze:
    """Runs the command in this process, in a folder with a model, a text, its links and tags."""
    monkeypatch.setenv("RELA_DEBUG", "0")
    monkeypatch.chdir(tmp_path)
    make_model(tmp_path / "run" / "model", made_by={"seed": 1})
    write_corpus(tmp_path, 12)

    def call_analyze(*arguments: str, stdin: bytes = b"", model: str = "run") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            code = run(COMMANDS, GROUPS, ["analyze", model, *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call_analyze


def results() -> dict[str, Any]:
    return json.loads(Path("out/results.json").read_text(encoding="utf-8"))


class TestOutputs:
    def test_results_examples_and_page(self, call: Analyze):
        code, out, err = call(*FILES, *GOLD, "--tags", "test.tags.de", "--examples", "4")
        assert (code, err) == (0, "")
        assert names(Path("out")) == ["attention.npz", "report.html", "results.json"]
        found = results()
        lines = out.splitlines()
        doubt = "so few that what stands out may be chance"
        assert lines[0] == f"rela-g: 12 pairs ({doubt}), too few batches to tell the cost"
        assert lines[1] == f"  - {found['models'][0]['findings'][0]['text']}"
        assert lines[-2] == "out: results.json, attention.npz; figures and tables: rela report out"
        assert lines[-1] == "look at out/report.html"
        assert "<html" in Path("out/report.html").read_text(encoding="utf-8")

    def test_json(self, call: Analyze):
        code, out, err = call(*FILES, "--json", "-")
        assert (code, err) == (0, "")
        assert json.loads(out) == results()
        assert call(*FILES, "--json", "copy.json")[0] == 0
        assert json.loads(Path("copy.json").read_text(encoding="utf-8"))["data"] == results()["data"]

    def test_several_models(self, call: Analyze):
        make_model(Path("other"), seed=1, made_by={"seed": 7})
        make_model(Path("softmax"), "softmax")
        code, out, _ = call(*FILES, "--compare", "other", "--compare", "softmax")
        assert code == 0
        found = results()
        assert [model["name"] for model in found["models"]] == ["rela-g seed 1", "rela-g seed 7", "softmax"]
        assert [group["models"] for group in found["groups"]] == [["rela-g seed 1", "rela-g seed 7"], ["softmax"]]
        assert all(f"{model['name']}: 12 pairs" in out for model in found["models"])

    def test_what_is_left_out_is_said(self, call: Analyze):
        write_lines(Path("test.en"), ["dog", "", "a dog " * 30, "cat", "dog " * 3000])
        write_lines(Path("test.de"), ["Hund", "Hund", "Hund", "Katze", "Haus"])
        code, _, err = call(*FILES, "--max-pieces", "40", "--json", "-")
        assert code == 0
        assert err.splitlines() == [
            "rela: note: left out: empty-source: 1 (nothing but blanks on the source side): test.en:2",
            "rela: note: left out: too-long: 1 (lines with more than 10,000 characters; see --max-pieces)",
            "rela: note: left out: too-many-pieces: 1 (pairs with more than 40 pieces on a side; see --max-pieces)",
        ]
        assert results()["data"]["skipped"] == {"empty-source": 1, "too-long": 1, "too-many-pieces": 1}

    def test_the_wrong_way_round(self, call: Analyze):
        code, _, err = call("--src", "test.de", "--tgt", "test.en", "--out", "out")
        assert code == 0
        assert "looks like de; was another file or another model meant?" in err


class TestOptions:
    def test_none_of_anything(self, call: Analyze):
        assert call(*FILES, "--hallucinated", "0", "--examples", "0")[0] == 0
        assert not any(name.startswith("hallucinated") for name in results()["models"][0]["measures"])

    def test_numbers_of_pairs(self, call: Analyze):
        assert call(*FILES, "--hallucinated", "5", "--ablate", "3", "--examples", "2", "--seed", "4")[0] == 0
        measures = results()["models"][0]["measures"]
        assert "|real:5|shuffled:5|" in measures["hallucinated.auc"]["signature"]
        assert "|seed:4|" in measures["hallucinated.auc"]["signature"]
        assert "|silenced-on:3|rows:null|" in measures["cross.ablation.null"]["signature"]
        assert call(*FILES, "--ablate", "50")[0] == 0  # more than there are
        assert "|silenced-on:12|" in results()["models"][0]["measures"]["encoder.ablation"]["signature"]

    def test_tokenised_and_replaced(self, call: Analyze):
        assert call(*FILES)[0] == 0
        before = results()["models"][0]["measures"]
        assert call(*FILES, "--tokenised", "--replace", "Hund=Katze", "--replace", "Haus=Hund")[0] == 0
        after = results()["models"][0]["measures"]
        assert before["loss"]["value"] != after["loss"]["value"]
        assert "|words:blanks|replaced:Hund=Katze,Haus=Hund|" in after["cross.null.word"]["signature"]
        assert "|words:split|v" in before["cross.null.word"]["signature"]

    @pytest.mark.parametrize("option", [("--base", "1"), ("--flip",)])
    def test_gold_in_other_forms(self, call: Analyze, option: tuple[str, ...]):
        assert call(*FILES, "--gold-sure", "test.sure")[0] == 0
        before = results()
        lines: list[str] = []
        for line in Path("test.sure").read_text(encoding="utf-8").splitlines():
            links = [(int(i), int(j)) for i, _, j in (link.partition("-") for link in line.split())]
            lines.append(" ".join(f"{j}-{i}" if option == ("--flip",) else f"{i + 1}-{j + 1}" for i, j in links))
        write_lines(Path("other.sure"), lines)
        assert call(*FILES, "--gold-sure", "other.sure", *option)[0] == 0
        assert results()["models"][0]["best"] == before["models"][0]["best"]

    def test_opposite(self, call: Analyze):
        make_model(Path("back"), seed=4, languages=("de", "en"))
        assert call(*FILES, *GOLD, "--opposite", "back")[0] == 0
        measure = results()["models"][0]["measures"]["symmetrised.aer"]
        assert measure["labels"]["method"] == ["forward", "backward", "intersection", "union", "grow-diag-final-and"]

    def test_packed_files(self, call: Analyze):
        assert call(*FILES, "--tags", "test.tags.de")[0] == 0
        before = results()["models"][0]["measures"]
        for name in ("test.en", "test.de", "test.tags.de"):
            Path(f"{name}.gz").write_bytes(gzip.compress(Path(name).read_bytes()))
        assert call("--src", "test.en.gz", "--tgt", "test.de.gz", "--tags", "test.tags.de.gz", "--out", "out")[0] == 0
        after = results()["models"][0]["measures"]
        assert {name: found["value"] for name, found in before.items()} == {
            name: found["value"] for name, found in after.items()
        }

    def test_the_tagger(self, call: Analyze):
        pytest.importorskip("HanTa")
        assert call(*FILES, "--tagger", "hanta")[0] == 0
        found = results()
        assert found["data"]["tags"] == "hanta-de"
        measure = found["models"][0]["measures"]["cross.null.tag"]
        assert "|tags:hanta-de|" in measure["signature"]
        assert {"NOUN", "PUNCT"} <= set(measure["labels"]["tag"])

    def test_a_model_directory_itself(self, call: Analyze):
        assert call(*FILES, model="run/model")[0] == 0


class TestStopped:
    def test_told_how_to_go_on(self, call: Analyze, monkeypatch: pytest.MonkeyPatch):
        real = study.ExamplesFile.add

        def stop(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(study.ExamplesFile, "add", stop)
        code, _, err = call(*FILES)
        assert code == 130
        assert err == "rela: stopped; what was measured is kept, and the same command goes on from there\n"
        monkeypatch.setattr(study.ExamplesFile, "add", real)
        code, _, err = call(*FILES)
        assert (code, err) == (
            0,
            "rela: note: out/partial has the beginning of the same analysis; going on from there\n",
        )
        assert names(Path("out")) == ["attention.npz", "report.html", "results.json"]

    def test_before_anything_was_measured(self, call: Analyze, monkeypatch: pytest.MonkeyPatch):
        def stop(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(study.Measuring, "run", stop)
        code, _, err = call(*FILES)
        assert (code, err) == (130, "rela: stopped; nothing was measured yet\n")

    @pytest.mark.slow
    def test_ctrl_c(self, call: Analyze, tmp_path: Path):
        """A real one, in the second window, which takes long."""
        for side in ("en", "de"):
            write_lines(tmp_path / f"long.{side}", ["dog"] * 2048 + ["dog cat " * 200] * 2000)
        arguments = ["analyze", "run", "--src", "long.en", "--tgt", "long.de", "--out", "out", "--hallucinated", "0"]
        with subprocess.Popen(
            [sys.executable, "-m", "rela", *arguments, "--threads", "1"],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            cwd=tmp_path,
            env=same_package(),
        ) as process:
            assert process.stderr is not None
            while not (tmp_path / "out" / "partial" / "0.npz").exists():
                assert process.poll() is None
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            errors = process.stderr.read().decode()
            assert process.wait(60) == 130
        assert errors == "rela: stopped; what was measured is kept, and the same command goes on from there\n"
        assert names(tmp_path / "out") == ["partial"]


class TestRefused:
    @pytest.mark.parametrize(
        ("arguments", "code", "message"),
        [
            (["--gold-possible", "test.possible"], 2, "--gold-possible: expected --gold-sure as well"),
            (["--base", "1"], 2, "--flip and --base: expected --gold-sure as well"),
            (["--flip"], 2, "--flip and --base: expected --gold-sure as well"),
            (["--opposite", "run"], 2, "--opposite: expected --gold-sure as well"),
            (["--opposite", "run", *GOLD], 1, "--opposite: expected a model from de to en, got one from en to de"),
            (["--tags", "test.tags.de", "--tagger", "hanta"], 2, "--tags and --tagger: expected one of them"),
            (["--tagger", "spacy"], 2, "--tagger: expected hanta, got 'spacy'"),
            (["--replace", "x"], 2, "--replace: expected OLD=NEW"),
            (["--out", "test.en"], 2, "--out: expected a folder, got the file 'test.en'"),
            (["--device", "nonsense"], 2, "device: expected cpu, cuda or cuda:1, got 'nonsense'"),
            (["--json", "test.de"], 2, "--json: expected another file than --tgt"),
            (["--compare", "run/model"], 1, "expected different models, got"),
            (["--compare", "none"], 1, "none: expected a model directory"),
            (["--src", "none"], 1, "none: expected a file (source), there is none"),
            (["--src", "-"], 1, "-: expected a file (source), since an analysis reads it more than once; got a stream"),
            (["--tags", "."], 1, "expected a file (tags), got a folder"),
            (["--gold-sure", "test.en"], 1, "test.en, line 1: expected links such as 0-0"),
            (["--tags", "test.en"], 1, "test.en, line "),
        ],
    )
    def test_in_one_line(self, call: Analyze, arguments: list[str], code: int, message: str):
        got, out, err = call(*FILES, *arguments)
        assert (got, out) == (code, "")
        assert message in err
        assert err.count("\n") == 1

    def test_a_language_without_a_tagger(self, call: Analyze):
        make_model(Path("french"), languages=("en", "fr"))
        code, _, err = call(*FILES, "--tagger", "hanta", model="french")
        assert code == 2
        assert "--tagger: language: expected one of de, en, nl" in err

    def test_an_empty_text(self, call: Analyze):
        for name in ("none.en", "none.de"):
            Path(name).touch()
        code, _, err = call("--src", "none.en", "--tgt", "none.de", "--out", "out")
        assert code == 1
        assert err == "rela: error: none.en: expected at least one pair to analyse, got none: the files are empty\n"
        assert not Path("out").exists()

    def test_a_failure_leaves_what_was_there(self, call: Analyze):
        """Of a folder that was there before, nothing goes; of an analysis that measured nothing, nothing stays."""
        Path("test.sure").write_text("0-99\n" * 12, encoding="utf-8")
        Path("out").mkdir()
        Path("out/mine.txt").touch()
        assert call(*FILES, "--gold-sure", "test.sure")[0] == 1
        assert [path.name for path in Path("out").iterdir()] == ["mine.txt"]

    def test_texts_of_unequal_length(self, call: Analyze):
        write_lines(Path("short.de"), ["Hund"])
        code, _, err = call("--src", "test.en", "--tgt", "short.de", "--out", "out")
        assert code == 1
        assert "expected as many lines in both" in err
        assert "got 12 and 1" in err

    def test_one_pair(self, call: Analyze):
        for name in ("one.en", "one.de"):
            write_lines(Path(name), ["Hund"])
        code, out, _ = call("--src", "one.en", "--tgt", "one.de", "--out", "out")
        assert code == 0
        assert "rela-g: 1 pair (so few that what stands out may be chance), too few batches" in out

    def test_a_folder_that_may_not_be_written(self, call: Analyze):
        if os.geteuid() == 0:
            pytest.skip("root may write everywhere")
        Path("out").mkdir(mode=0o500)
        code, _, err = call(*FILES)
        assert code == 1
        assert "out" in err
