"""`rela average`."""

import json
import warnings
from pathlib import Path

import pytest
from tests.training.helpers import make_store, model_bytes, tiny_config, train

from rela.cli._app import run
from rela.cli._commands import COMMANDS, GROUPS


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    train(tiny_config(make_store(folder / "text"), budget__steps=6), folder / "run")
    return folder


@pytest.fixture(autouse=True)
def _folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setenv("RELA_DEBUG", "0")  # restored afterwards, although the program sets it
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.chdir(folder)


def average(*arguments: str) -> int:
    return run(COMMANDS, GROUPS, ["average", *arguments])


def test_the_last_two(capsys: pytest.CaptureFixture[str]) -> None:
    assert average("run", "--last", "2", "--out", "two", "--json", "two.json") == 0
    assert capsys.readouterr().out == "two: the average of updates 4, 6\n"
    assert json.loads(Path("two.json").read_text()) == {"model": "two", "steps": [4, 6]}
    assert Path("two/model.safetensors").read_bytes() != model_bytes(Path("run"))


def test_into_the_run_itself(capsys: pytest.CaptureFixture[str]) -> None:
    before = model_bytes(Path("run"))
    assert average("run", "--last", "1") == 0
    assert model_bytes(Path("run")) != before
    assert average("run", "--last", "3", "--json", "-") == 0
    assert model_bytes(Path("run")) == before
    printed = capsys.readouterr().out
    assert json.loads(printed[printed.index("{") :])["steps"] == [2, 4, 6]


def test_fewer_than_asked_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert average("run", "--out", "five") == 0
    assert capsys.readouterr().err == "rela: note: the run has 3 checkpoints, not 5; these were averaged\n"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("nosuch",), 1, "nosuch: expected a run with checkpoints, got none; `rela train` makes them"),
        (("run", "--out", "text"), 1, "text: expected a new folder or a model to replace, got something else"),
        (("run", "--out", "run"), 1, "run: expected a new folder or a model to replace"),
        (("run", "--last", "0"), 2, "--last"),
        ((), 2, "RUN"),
    ],
)
def test_mistakes(arguments: tuple[str, ...], code: int, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert average(*arguments) == code
    assert message in capsys.readouterr().err


def test_a_damaged_checkpoint_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    file = Path("run/checkpoints/step-0000004/model.safetensors")
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    try:
        assert average("run", "--last", "2", "--out", "damaged") == 1
    finally:
        file.write_bytes(whole)
    assert f"{file}: expected a safetensors file, got a damaged one" in capsys.readouterr().err
    assert not Path("damaged").exists()
