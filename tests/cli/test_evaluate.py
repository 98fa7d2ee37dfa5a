"""`rela evaluate`."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.helpers import rela

from rela.cli._app import run
from rela.cli._commands import COMMANDS, GROUPS

REFERENCE = "The cat sat on the mat.\nIt is raining today, so we stay.\nNobody knows why.\n"
OURS = "The cat sat on a mat.\nIt is raining today, so we stay.\nNobody knows it.\n"
THEIRS = "A cat is on a mat.\nIt rains today and we stay.\nNobody knows.\n"


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setenv("RELA_DEBUG", "0")  # restored afterwards, although the program sets it
    if "PYTHONPATH" in os.environ:  # which may be relative to the folder that the tests were started in
        monkeypatch.setenv("PYTHONPATH", str(Path(os.environ["PYTHONPATH"]).resolve()))
    for name, text in {"ref": REFERENCE, "ours": OURS, "theirs": THEIRS, "short": "a\n", "empty": ""}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "latin").write_bytes("Straße\n\nüber\n".encode("latin-1"))
    monkeypatch.chdir(tmp_path)


def test_scores_and_signatures() -> None:
    done = rela("evaluate", "ours", "--reference", "ref", "--language", "en", "--bootstrap", "40")
    assert (done.returncode, done.stderr) == (0, "")
    for words in (
        "ours, 3 lines, references: ref",
        "BLEU|nrefs:1|bs:40|seed:12345|case:mixed|eff:no|tok:13a|smooth:exp|version:",
        "chrF2|nrefs:1|bs:40|seed:12345|",
        "BLEU|multi-bleu|tok:sacremoses-",
        " ± ",
    ):
        assert words in done.stdout
    assert "p boot" not in done.stdout


def test_json_alone_and_what_it_holds() -> None:
    done = rela(
        *("evaluate", "ours", "--reference", "ref", "--reference", "theirs", "--system", "theirs", "--system", "ref"),
        *("--metric", "bleu", "--metric", "chrf++", "--lowercase", "--bootstrap", "40", "--json", "-"),
    )
    result = json.loads(done.stdout)
    assert result["schema"] == "rela-evaluate/1"
    assert (result["hypotheses"], result["references"], result["num_lines"]) == ("ours", ["ref", "theirs"], 3)
    assert list(result["scores"]) == ["bleu", "chrf++"]
    assert result["scores"]["bleu"]["interval"]["num_samples"] == 40
    assert "nrefs:2|bs:40|seed:12345|case:lc" in result["scores"]["bleu"]["signature"]
    assert [(c["system"], c["name"]) for c in result["comparisons"]] == [
        ("theirs", "BLEU"),
        ("theirs", "chrF2++"),
        ("ref", "BLEU"),
        ("ref", "chrF2++"),
    ]
    assert all(0 < c["p_bootstrap"] <= 1 and 0 < c["p_randomisation"] <= 1 for c in result["comparisons"])


def test_systems_side_by_side(tmp_path: Path) -> None:
    done = rela(
        "evaluate",
        "ours",
        "--reference",
        "ref",
        "--system",
        "theirs",
        "--metric",
        "bleu",
        "--no-bootstrap",
        "--json",
        "out.json",
    )
    assert "compared with ours" in done.stdout
    comparison = json.loads((tmp_path / "out.json").read_text())["comparisons"][0]
    assert comparison["p_bootstrap"] is None
    assert f"{comparison['delta']:+.2f}" in done.stdout
    assert f"{comparison['p_randomisation']:.4f}" in done.stdout


def test_the_table_fits_eighty_columns() -> None:
    done = rela(
        "evaluate",
        "ref",
        "--reference",
        "ref",
        "--system",
        "theirs",
        "--pretokenised",
        "--metric",
        "tokenised",
        COLUMNS="40",
    )
    assert "100.0/100.0/100.0/100.0" in done.stdout
    assert "…" not in done.stdout


def test_hypotheses_from_standard_input() -> None:
    program = Path(sys.executable).with_name("rela")
    command = [program, "evaluate", "-", "--reference", "ref", "--no-bootstrap", "--json", "-"]
    done = subprocess.run(command, input=REFERENCE, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["scores"]["bleu"]["score"] == pytest.approx(100)


def test_notes_are_one_line() -> None:
    Path("tokenised").write_text("a .\nb .\nc .\n")
    done = rela("evaluate", "tokenised", "--reference", "ref", "--system", "ours", "--metric", "bleu", "--no-bootstrap")
    assert done.returncode == 0
    assert done.stderr.startswith("rela: note: 3 of 3 hypotheses end in ' .'")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("short", "--reference", "ref"), "expected 3 lines as in ref, got 1 in short; line n"),
        (("ours", "--reference", "ref", "--system", "short"), "expected 3 lines as in ref, got 1 in short; line n"),
        (("ours", "--reference", "ref", "--reference", "short"), "expected 3 lines as in ref, got 1 in short; line n"),
        (("empty", "--reference", "ref"), "expected one sentence a line in empty, got an empty file"),
        (("latin", "--reference", "ref"), "expected UTF-8 in latin, got the byte 0xdf in line 1;"),
        (("nowhere", "--reference", "ref"), "nowhere: No such file or directory"),
    ],
)
def test_files_that_cannot_be_scored(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(COMMANDS, GROUPS, ["evaluate", *arguments]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"rela: error: {message}")
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ours",), "--reference"),
        (("ours", "--reference", "-"), "only HYPOTHESES may be -"),
        (("ours", "--reference", "ref", "--system", "theirs", "--system", "theirs"), "each file once, got theirs"),
        (("ours", "--reference", "ref", "--metric", "ter"), "metrics out of bleu, chrf, chrf++, tokenised; got ter"),
        (("ours", "--reference", "ref", "--metric", "tokenised"), "expected a language for tokenised BLEU"),
        (("ours", "--reference", "ref", "--tokenize", "14a"), "got '14a'"),
        (("ours", "--reference", "ref", "--bootstrap", "39"), "--bootstrap"),
        (("ours", "--reference", "ref", "--bootstrap", "50", "--no-bootstrap"), "--no-bootstrap"),
        (("ours", "--reference", "ref", "--language", "DE"), "got 'DE'"),
        (("ours", "--reference", "ref", "--json", "ref"), "--json: expected another file than --reference, got 'ref'"),
        (("ours", "--reference", "ref", "--json", "ours"), "--json: expected another file than HYPOTHESES, got 'ours'"),
    ],
)
def test_wrong_use(arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(COMMANDS, GROUPS, ["evaluate", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.endswith("see `rela evaluate --help`\n")


FULL = "No space left on device; make room, or choose another place"


def test_a_full_disk(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run(COMMANDS, GROUPS, ["evaluate", "ours", "--reference", "ref", "--no-bootstrap", "--json", "/dev/full"]) == 1
    )
    assert capsys.readouterr().err == f"rela: error: /dev/full: {FULL}\n"
    for json_to in ([], ["--json", "-"]):
        done = shell("--no-bootstrap", *json_to, redirection="> /dev/full")
        assert (done.returncode, done.stderr) == (1, f"rela: error: standard output: {FULL}\n")


@pytest.mark.parametrize(
    ("redirection", "arguments", "code", "message"),
    [
        (">&-", (), 1, "rela: error: standard output: expected it to be open, got it closed; name a file"),
        (">&-", ("--json", "-"), 1, "rela: error: standard output: expected it to be open, got it closed"),
        (">&-", ("--json", "out.json"), 0, ""),
        ("<&-", ("--json", "out.json"), 0, ""),
    ],
)
def test_closed_streams(redirection: str, arguments: tuple[str, ...], code: int, message: str) -> None:
    done = shell("--no-bootstrap", *arguments, redirection=redirection)
    assert done.returncode == code
    assert done.stderr.startswith(message)
    assert done.stderr.count("\n") == bool(message)
    assert Path("out.json").exists() == (code == 0)


def test_a_closed_standard_input() -> None:
    done = shell("--no-bootstrap", redirection="<&-", hypotheses="-")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("rela: error: standard input: expected it to be open, got it closed; give a file")


def shell(*arguments: str, redirection: str, hypotheses: str = "ours") -> subprocess.CompletedProcess[str]:
    line = shlex.join([sys.executable, "-m", "rela", "evaluate", hypotheses, "--reference", "ref", *arguments])
    return subprocess.run(["sh", "-c", f"{line} {redirection}"], capture_output=True, text=True, check=False)


def test_ctrl_c(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rela.evaluation.evaluate", stop)
    assert run(COMMANDS, GROUPS, ["evaluate", "ours", "--reference", "ref"]) == 130
    captured = capsys.readouterr()
    assert captured.err == "rela: stopped; no scores were written: the same command begins anew\n"
    assert captured.out == ""
