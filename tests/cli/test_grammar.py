"""`rela grammar`, as a user runs it."""

import json
from pathlib import Path

import pytest

from rela.cli._app import run
from rela.cli._commands import COMMANDS, GROUPS


def grammar(*arguments: str) -> int:
    return run(COMMANDS, GROUPS, ["grammar", *arguments])


def test_files_with_gold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    counts = ("--count", "train=30", "--count", "test=20")
    assert grammar(str(tmp_path / "corpus"), *counts, "--json", str(tmp_path / "result.json")) == 0
    assert capsys.readouterr().out == f"{tmp_path}/corpus: 30 pairs of train, 20 pairs of test\n"
    assert json.loads((tmp_path / "result.json").read_text())["pairs"] == {"train": 30, "test": 20}
    files = {path.name: path.read_text().splitlines() for path in (tmp_path / "corpus").iterdir()}
    gold = ("en", "de", "sure", "possible", "tags.en", "tags.de")
    assert sorted(files) == sorted(["train.en", "train.de", *(f"test.{ending}" for ending in gold)])
    assert {len(lines) for name, lines in files.items() if name.startswith("test")} == {20}
    for links, source, target in zip(files["test.sure"], files["test.tags.en"], files["test.tags.de"], strict=True):
        for link in links.split():
            i, j = map(int, link.split("-"))
            assert i < len(source.split())
            assert j < len(target.split())


def test_the_seed_is_that_of_training(tmp_path: Path) -> None:
    for seed in ("1", "2"):
        assert grammar(str(tmp_path / seed), "--count", "train=20", "--count", "dev=20", "--seed", seed) == 0
    files = [{path.name: path.read_text() for path in (tmp_path / seed).iterdir()} for seed in ("1", "2")]
    assert sorted(name for name in files[0] if files[0][name] != files[1][name]) == ["train.de", "train.en"]


def test_files_that_are_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "test.sure").write_text("mine", encoding="utf-8")
    counts = ("--count", "dev=5", "--count", "test=5")
    assert grammar(str(tmp_path), *counts) == 1
    assert capsys.readouterr().err == (
        f"rela: error: {tmp_path}/test.sure: there is something already; name another folder, or say --overwrite\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["test.sure"]
    assert (tmp_path / "test.sure").read_text(encoding="utf-8") == "mine"
    assert grammar(str(tmp_path), *counts, "--overwrite") == 0
    assert len((tmp_path / "test.sure").read_text(encoding="utf-8").splitlines()) == 5


def test_a_split_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert grammar(str(tmp_path / "corpus"), "--count", "dev=5", "--count", "dev=6") == 2
    assert "--count: expected each split once, got dev twice; give one number for it" in capsys.readouterr().err
    assert not (tmp_path / "corpus").exists()


@pytest.mark.parametrize(
    ("count", "message"),
    [
        ("train", "--count: expected SPLIT=N, such as train=10000, got 'train'"),
        ("train=0", "--count: expected SPLIT=N, such as train=10000, got 'train=0'"),
        ("tset=3", "--count: splits must be among train, dev, test, test-compositional, not tset"),
    ],
)
def test_wrong_use(tmp_path: Path, count: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert grammar(str(tmp_path / "corpus"), "--count", count) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "corpus").exists()
