"""`rela demo`, as a user runs it."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.cli.helpers import rela

from rela.cli._app import run
from rela.cli._commands import COMMANDS, GROUPS
from rela.cli.demo import EXAMPLE
from rela.text.grammar import generate
from rela.training.signals import InterruptedRunError


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setenv("RELA_DEBUG", "0")
    monkeypatch.chdir(tmp_path)


def demo(*arguments: str) -> int:
    return run(COMMANDS, GROUPS, ["demo", *arguments])


def test_an_attention_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert demo("--attention", "rela-x") == 2
    assert capsys.readouterr().err.startswith("rela: error: --attention: ")
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InterruptedRunError(), 130),
        (InterruptedRunError(signal.SIGTERM), 143),
        (KeyboardInterrupt(), 130),
    ],
)
def test_stopped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException, code: int
) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr("rela.experiments.demo.run_demo", stop)
    assert demo("--json", "-") == code
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "rela: stopped; the same command goes on from here\n")


def test_what_is_to_be_tried_next_has_known_words() -> None:
    known = {word for pair in generate("train", count=5000) for word in pair.source_words}
    assert set(EXAMPLE.removesuffix(".").split()) <= known


@pytest.mark.slow
def test_as_it_is_promised(tmp_path: Path) -> None:
    """BLEU of 80 on unseen sentences, of 60 on unseen combinations; in minutes, if nothing else runs."""
    done = rela("demo", "--run", str(tmp_path / "demo"), "--json", str(tmp_path / "demo.json"))
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "demo.json").read_text())
    assert found["bleu"] >= 80
    assert found["bleu_compositional"] >= 60
    assert found["seconds"] < 900  # the promise is 300, of a machine with nothing else to do
    assert found["aer"] < 0.35
    assert "What to do next" in done.stdout
    assert len(found["findings"]) == 3
    assert all(finding in " ".join(done.stdout.split()) for finding in found["findings"])
    assert Path(found["report"]).is_file()
