"""The walls of the house: a room imports only rooms above it in the table of docs/architecture.md."""

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "rela"

# Rooms that import no other room at all, and the packages they must do without.
SECLUDED = {"report": {"torch"}}


class Import(NamedTuple):
    """One imported module, by its full name."""

    line: int
    module: str


def read_rooms() -> list[str]:
    """The rooms in the order of the table in docs/architecture.md, top to bottom."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    return re.findall(r"^\| `(\w+)/` \|", text, flags=re.MULTILINE)


def find_imports(tree: ast.Module, package: list[str]) -> Iterator[Import]:
    """All imports of a file, at any depth, also those for type checkers and those by name in a string.

    `from a import b` counts as `a.b`: `b` may be a module.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (Import(node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            parts = [*above, *([node.module] if node.module else [])]
            yield from (Import(node.lineno, ".".join([*parts, alias.name])) for alias in node.names)
        elif isinstance(node, ast.Call) and called_name(node) in {"import_module", "__import__", "attach"}:
            values = (part.value for part in ast.walk(node) if isinstance(part, ast.Constant))
            yield from (Import(node.lineno, str(value)) for value in values if is_module_name(value))


def called_name(call: ast.Call) -> str | None:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)


def is_module_name(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"rela(\.\w+)+|torch", value) is not None


def find_violations(source: Path, rooms: Sequence[str]) -> list[str]:
    """Every import in `source` (the folder of the package rela) that goes through a wall."""
    found: list[str] = []
    for path in sorted(source.rglob("*.py")):
        inside = path.relative_to(source)
        room = inside.parts[0] if len(inside.parts) > 1 else None
        if room is None and path.name in {"__init__.py", "__main__.py", "functional.py"}:
            continue  # the public surface shows names of all rooms; `python -m rela` is the command line
        if room is not None and room not in rooms:
            found.append(f"{inside}: the room '{room}' is not in the table of docs/architecture.md")
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
        for line, module in find_imports(tree, ["rela", *inside.parent.parts]):
            if reason := reason_against(room, module, rooms):
                found.append(f"{inside}:{line}: imports {module}: {reason}")
    return found


def reason_against(room: str | None, module: str, rooms: Sequence[str]) -> str | None:
    """Why a file of `room` (None: a file beside the rooms) may not import `module`; None if it may."""
    top, *rest = module.split(".")
    if top != "rela":
        return f"'{room}' does without {top}" if top in SECLUDED.get(room or "", ()) else None
    if not rest or (rest[0] not in rooms and not rest[0].startswith("_")):
        return "name the room that it comes from"
    if rest[0].startswith("_") or rest[0] == room:
        return None
    if room is None:
        return "files beside the rooms are under all of them, and import none"
    if room in SECLUDED:
        return f"'{room}' imports no other room"
    if rooms.index(rest[0]) > rooms.index(room):
        return f"'{rest[0]}' is below '{room}'"
    return None


def test_rooms_are_read_from_the_table():
    rooms = read_rooms()
    assert (rooms[0], rooms[-1]) == ("attention", "cli")
    assert len(rooms) == len(set(rooms)) == 15
    assert set(SECLUDED) <= set(rooms)


def test_no_import_goes_through_a_wall():
    assert (SOURCE / "cli" / "__init__.py").is_file()
    assert find_violations(SOURCE, read_rooms()) == []


class TestChecker:
    """The checker itself, on a made-up house."""

    @staticmethod
    def violations(tmp_path: Path, file: str, code: str) -> list[str]:
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code, encoding="utf-8")
        return find_violations(tmp_path, ["attention", "text", "report", "cli"])

    @pytest.mark.parametrize(
        "code",
        [
            "import rela.text",
            "from rela import text",
            "from rela.text import bpe",
            "from rela.text.bpe import Bpe",
            "from ..text import bpe",
            "from .. import text",
            "def f():\n    import rela.text.bpe",
            "if TYPE_CHECKING:\n    from rela.text import bpe",
            "importlib.import_module('rela.text.bpe')",
            "__getattr__, __dir__ = attach(__name__, {'Bpe': 'rela.text.bpe'})",
        ],
    )
    def test_finds_an_import_from_below(self, tmp_path: Path, code: str):
        found = self.violations(tmp_path, "attention/module.py", code)
        assert len(found) == 1, found
        assert "'text' is below 'attention'" in found[0]

    def test_says_where(self, tmp_path: Path):
        found = self.violations(tmp_path, "text/deep/bpe.py", "import json\nimport rela.cli\n")
        assert found == ["text/deep/bpe.py:2: imports rela.cli: 'cli' is below 'text'"]

    def test_depth_of_relative_imports(self, tmp_path: Path):
        assert self.violations(tmp_path, "attention/kernels/blocked.py", "from ..text import x") == []
        found = self.violations(tmp_path, "attention/kernels/blocked.py", "from ...text import x")
        assert "'text' is below 'attention'" in found[0]
        found = self.violations(tmp_path, "attention/kernels/__init__.py", "from ...text import x")
        assert "'text' is below 'attention'" in found[0]

    @pytest.mark.parametrize(
        "code",
        ["from rela.attention import x", "from rela import attention", "from . import bpe", "import numpy"],
    )
    def test_allows_the_room_itself_and_those_above(self, tmp_path: Path, code: str):
        assert self.violations(tmp_path, "text/store.py", code) == []

    @pytest.mark.parametrize("code", ["from rela._version import __version__", "from rela import _version"])
    def test_files_beside_the_rooms_are_for_all(self, tmp_path: Path, code: str):
        assert self.violations(tmp_path, "report/page.py", code) == []

    def test_files_beside_the_rooms_import_none(self, tmp_path: Path):
        found = self.violations(tmp_path, "_machine.py", "from rela.attention import kernels")
        assert "import none" in found[0]

    @pytest.mark.parametrize("code", ["import rela", "from rela import MultiheadAttention"])
    def test_the_public_surface_is_for_users(self, tmp_path: Path, code: str):
        assert "name the room" in self.violations(tmp_path, "cli/bench.py", code)[0]

    @pytest.mark.parametrize(
        ("code", "reason"),
        [
            ("import torch", "'report' does without torch"),
            ("from torch import nn", "'report' does without torch"),
            ("from rela.attention import spec", "'report' imports no other room"),
        ],
    )
    def test_a_secluded_room(self, tmp_path: Path, code: str, reason: str):
        assert reason in self.violations(tmp_path, "report/page.py", code)[0]

    def test_a_room_that_nobody_planned(self, tmp_path: Path):
        assert "is not in the table" in self.violations(tmp_path, "utils/misc.py", "")[0]

    def test_the_public_surface_may_import_all(self, tmp_path: Path):
        assert self.violations(tmp_path, "__init__.py", "from rela.cli import main") == []
