"""`rela reproduce`: some of it quickly, and all of the built-in corpus in the long tests."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.cli.helpers import rela
from tests.experiments.reproduce.made_up import make_study

TINY = ("reproduce", "--corpus", "grammar", "--scale", "tiny")
MOST_SECONDS = 15 * 60


def test_what_takes_no_training(tmp_path: Path) -> None:
    done = rela(*TINY, "--only", "table4,figure1", "--out", f"{tmp_path}/out", "--work", f"{tmp_path}/work")
    assert done.returncode == 0, done.stderr
    assert "0 trainings are wanted" in done.stdout
    page = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "239,200" in page
    assert "figures/figure-01-overview.svg" in page
    assert sorted(path.name for path in (tmp_path / "out" / "tables").iterdir()) == ["table-4.md", "table-4.tex"]


def test_what_is_there_is_shown_without_training(tmp_path: Path) -> None:
    arguments = ("--show", "--out", f"{tmp_path}/out", "--work", f"{tmp_path}/work")
    nothing = rela(*TINY, *arguments)
    assert nothing.returncode == 2
    assert "run it first" in nothing.stderr
    make_study(tmp_path, but=("relu",))
    done = rela("reproduce", "--corpus", "multi30k-en-de", "--scale", "laptop", *arguments, "--json", "-")
    assert done.returncode == 0, done.stderr
    assert "table-1" in json.loads(done.stdout)["tables"]
    assert not (tmp_path / "work").exists()


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    done = rela(*TINY, "--dry-run", "--out", f"{tmp_path}/out", "--work", f"{tmp_path}/work", "--json", "-")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["jobs"][0] == "grammar/softmax-1"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--corpus", "klingon"), "klingon"),
        (("--scale", "huge"), "--scale: expected one of tiny, laptop, paper, got 'huge'"),
        (("--only", "table7"), "'table7'"),
        (("--systems", "rela"), "expected systems out of softmax"),
        (("--seeds", "one"), "--seeds: expected numbers such as 1,2,3; got 'one'"),
        (("--scale", "paper", "--corpus", "wmt14-en-de"), "expected GPUs, got none"),
    ],
)
def test_wrong_use(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    done = rela("reproduce", *arguments, "--out", f"{tmp_path}/out", "--work", f"{tmp_path}/work")
    assert done.returncode == 2
    assert message in done.stderr
    assert not list(tmp_path.iterdir())


def begin(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """The program in the background, in a group of its own."""
    return subprocess.Popen(
        [Path(sys.executable).with_name("rela"), *TINY, *arguments, "--out", folder / "out", "--work", folder / "work"],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    """Until a file is there."""
    while not path.exists():
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.2)


def kept(folder: Path, name: str) -> dict[str, Any]:
    return json.loads((folder / "out" / "data" / "grammar" / name).read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT])
def test_what_was_stopped_goes_on(tmp_path: Path, sent: signal.Signals) -> None:
    """To the same scores as what was not; and settings that changed meanwhile are refused."""
    arguments = ("--only", "table1", "--systems", "softmax", "--seeds", "1")
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    process = begin(whole, *arguments)
    said = process.communicate()[0]
    assert process.returncode == 0, said
    process = begin(stopped, *arguments)
    checkpoint = stopped / "work" / "grammar" / "softmax-1" / "checkpoints"
    while not (checkpoint.exists() and any(checkpoint.iterdir())):
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.1)
    os.kill(process.pid, sent)
    said = process.communicate()[0]
    assert process.returncode != 0
    if sent == signal.SIGINT:
        assert "the same command goes on from there" in said
    process = begin(stopped, *arguments)
    said = process.communicate()[0]
    assert process.returncode == 0, said
    first, second = (kept(folder, "softmax-1.test.json")["test"] for folder in (whole, stopped))
    assert first == second
    assert kept(whole, "softmax-1.train.json")["dev_loss"] == kept(stopped, "softmax-1.train.json")["dev_loss"]
    again = begin(stopped, *arguments)
    assert "0 are still to be done" in again.communicate()[0]
    path = stopped / "out" / "data" / "grammar" / "softmax-1.train.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"warmup": 60', '"warmup": 61'), encoding="utf-8")
    refused = begin(stopped, *arguments)
    assert "rate.warmup" in refused.communicate()[0]
    assert refused.returncode != 0


@pytest.mark.slow
def test_every_table_and_figure_of_the_built_in_corpus(tmp_path: Path) -> None:
    began = time.monotonic()
    done = rela(*TINY, "--out", f"{tmp_path}/out", "--work", f"{tmp_path}/work", "--json", f"{tmp_path}/result.json")
    took = time.monotonic() - began
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "result.json").read_text(encoding="utf-8"))
    tables = {f"table-{number}" for number in (1, 2, 3, 4, 6)} | {"table-5-grammar"}
    assert tables <= set(result["tables"])
    found = {name.split("-")[1] for name in result["figures"]}
    assert found == {*(f"{number:02}" for number in range(1, 11)), "training", "differences"}
    assert not result["left_out"]
    assert [claim["number"] for claim in result["claims"]] == list(range(1, 16))
    unanswered = [
        statement
        for claim in result["claims"]
        for statement in claim["statements"]
        if statement["answer"] == "not measured" and "no middle" not in statement["test"]
    ]
    assert not unanswered
    assert took < MOST_SECONDS
