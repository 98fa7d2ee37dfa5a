"""Progress of commands that count what they do."""

import io

import pytest
from rich.console import Console

from rela.cli import _progress
from rela.cli._progress import CountProgress


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
