"""What the tests of `rela translate` share."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import rela

LINES = ["the dog runs", "", "a cat", "der Hund läuft", "  ", "small house, old dog", "green", "the cat sleeps ."]
TEXT = "".join(f"{line}\n" for line in LINES)
Run = Callable[..., tuple[int, str, str]]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def command(model: Path, *arguments: str) -> list[str]:
    """For a process of its own."""
    return [sys.executable, "-m", "rela", "translate", "--model", str(model), "--threads", "1", *arguments]


def same_package() -> dict[str, str]:
    """The environment in which a process in any folder finds the package that is tested here."""
    return {**os.environ, "PYTHONPATH": str(Path(rela.__file__).resolve().parents[1])}
