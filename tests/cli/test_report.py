"""`rela report`."""

import json
import sys
from pathlib import Path

import pytest
from tests.report.helpers import write_bench, write_results

from rela.cli._app import run
from rela.cli._commands import COMMANDS, GROUPS


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setenv("RELA_DEBUG", "0")
    monkeypatch.chdir(tmp_path)
    write_results(Path("results"), layers=1, heads=2, sentences=2, words=3)


def report(*arguments: str) -> int:
    return run(COMMANDS, GROUPS, ["report", *arguments])


def test_beside_the_results(capsys: pytest.CaptureFixture[str]):
    write_bench(Path("speed"))
    assert report("results", "--bench", "speed/results.json", "--paper") == 0
    printed = capsys.readouterr().out
    assert "results/report.html: " in printed
    assert "results/figures: 10 figures (svg, png): figure-01-overview, figure-02-decoding-speed" in printed
    assert "results/tables: 9 tables (md, tex): models, aer" in printed
    assert "left out: table ablation: no ablation in the results" in printed
    assert "(paper)" in Path("results/tables/aer.md").read_text(encoding="utf-8")
    assert Path("results/report.html").is_file()


def test_elsewhere_as_json(capsys: pytest.CaptureFixture[str]):
    assert report("results/results.json", "--out", "new/report", "--no-figures", "--json", "-") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["schema"] == "rela-report/1"
    assert told["page"] == "new/report/report.html"
    assert told["figures"] == []
    assert "new/report/tables/aer.tex" in told["tables"]
    assert all(Path(name).is_file() for name in (told["page"], *told["tables"]))
    assert told["left_out"]["all figures"] == "--no-figures was given"
    assert not Path("new/report/figures").exists()


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    for name in list(sys.modules):
        if name.startswith(("matplotlib", "rela.report.figures")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert report("results") == 0
    printed = capsys.readouterr().out
    assert 'left out: all figures: matplotlib is not installed; pip install "rela-attention[report]"' in printed
    assert Path("results/tables/aer.md").is_file()
    assert Path("results/report.html").is_file()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("nosuch",), 1, "nosuch: expected a file of results, there is none"),
        (("results", "--bench", "nosuch.json"), 1, "nosuch.json: expected a file of results"),
        (("results", "--bench", "b.json", "--no-figures"), 2, "--no-figures: expected it without --bench"),
        (("results", "--json", "results/results.json"), 2, "--json: expected another file than RESULTS"),
        ((), 2, "RESULTS"),
    ],
)
def test_mistakes(arguments: tuple[str, ...], code: int, message: str, capsys: pytest.CaptureFixture[str]):
    assert report(*arguments) == code
    assert message in capsys.readouterr().err
    assert not Path("results/report.html").exists()
