"""What commands write is never what they read."""

from pathlib import Path

import pytest

from rela.cli._app import run
from rela.cli._commands import COMMANDS, GROUPS


def test_json_onto_what_is_prepared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELA_DEBUG", "0")  # restored afterwards, although the program sets it
    for name in ("a.en", "a.de"):
        (tmp_path / name).write_text("text\n")
    arguments = ["--pairs", f"train={tmp_path}/a.en,{tmp_path}/a.de", "--source", "en", "--target", "de"]
    assert run(COMMANDS, GROUPS, ["prepare", str(tmp_path / "out"), *arguments, "--json", f"{tmp_path}/a.de"]) == 2
    assert "--json: expected another file than --pairs, got" in capsys.readouterr().err
    assert (tmp_path / "a.de").read_text() == "text\n"
