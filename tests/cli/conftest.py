"""Fixtures for the tests of `rela translate`."""

import io
import sys
import warnings
from pathlib import Path

import pytest
from tests.cli.translating import Run
from tests.model.folders import make_folder

from rela.cli._app import run
from rela.cli._commands import COMMANDS, GROUPS


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("models") / "model")


@pytest.fixture
def call(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command in this process: exit code, standard output, standard error."""
    monkeypatch.setenv("RELA_DEBUG", "0")
    monkeypatch.chdir(tmp_path)

    def translate(*arguments: str, stdin: str | bytes = b"", folder: Path = model) -> tuple[int, str, str]:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            code = run(COMMANDS, GROUPS, ["translate", "--model", str(folder), "--beam", "2", *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return translate
