"""Progress of commands that count what they do."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.cli.translating import LINES, TEXT, Run

from rela.cli import _progress
from rela.cli._progress import CountProgress
from rela.decoding import translator as translator_module
from rela.decoding.translator import Translation, Translator


def shown(*, terminal: bool, quiet: bool = False) -> str:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=terminal, quiet=quiet, width=100, highlight=False, markup=False)
    with CountProgress(console, "pairs") as progress:
        progress.advance("encoding [red]x", 4000)
        progress.advance("encoding [red]x", 4000)
        progress.reach("http://x", 5, 1000)
    return stream.getvalue()


def test_lines_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(terminal=False) == ""  # nothing in the first seconds
    monkeypatch.setattr(_progress, "_SECONDS_BETWEEN_LINES", -1.0)
    assert shown(terminal=False).splitlines() == [
        "encoding [red]x: 4,000 pairs",
        "encoding [red]x: 8,000 pairs",
        "http://x: 5 of 1,000 pairs",
    ]
    assert shown(terminal=False, quiet=True) == ""


def test_bars_on_a_terminal() -> None:
    text = shown(terminal=True)
    assert "encoding [red]x" in text
    assert "8,000 pairs" in text
    assert shown(terminal=True, quiet=True) == ""


def test_translating_moves_batch_by_batch(call: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Within a window too: one may take minutes."""
    events: list[int | str] = []
    translate = Translator.translate

    def watch(self: Translator, sentences: Sequence[str], **options: Any) -> list[Translation]:
        found = translate(self, sentences, **options)
        events.append("window")
        return found

    def advance(_: CountProgress, what: str, count: int) -> None:
        events.append(count)

    monkeypatch.setattr(Translator, "translate", watch)
    monkeypatch.setattr(CountProgress, "advance", advance)
    monkeypatch.setattr(translator_module, "_BATCH_PLACES", 30)
    (tmp_path / "in").write_text(TEXT, encoding="utf-8")
    assert call("in", "-o", "out")[0] == 0
    assert events.count("window") == 1
    assert events[-1] == "window"
    assert len(events) > 3
    assert sum(count for count in events if isinstance(count, int)) == len(LINES)
