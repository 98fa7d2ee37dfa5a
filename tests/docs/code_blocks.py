"""Finds the code blocks of a Markdown file and says what is to be done with each line."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

RUN_LANGUAGES = {"python", "bash"}
SHOWN_LANGUAGES = {"text", "json", "yaml", "toml", "c"}

# Lines of bash blocks that are shown but not run: how they begin, and why. Every other line that is not a
# `rela` command is refused, so nothing is left out by accident.
SKIPPED_COMMANDS = {
    "make ": "would run the tests inside the tests, or make the environment that runs them",
    "pip install ": "needs the network and would change the environment that runs the tests",
    "git clone ": "needs the network",
    "cd ": "goes with git clone",
}


class Block(NamedTuple):
    """A fenced block: its language, its text, and the line of its first line of text."""

    language: str
    text: str
    line: int


class Command(NamedTuple):
    """One line of a bash block, with lines that a backslash continues joined."""

    text: str
    line: int
    skipped: bool


def find_blocks(path: Path) -> list[Block]:
    """The fenced blocks of a Markdown file.

    Raises:
        ValueError: a fence without a known language, or one that does not end.
    """
    blocks: list[Block] = []
    opened: tuple[str, str, int] | None = None  # fence, language, line
    lines: list[str] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if opened and line.strip() == opened[0]:
            blocks.append(Block(opened[1], "\n".join(lines) + "\n", opened[2] + 1))
            opened = None
        elif opened:
            lines.append(line)
        elif fence := re.match(r"\s*(`{3,}|~{3,})\s*(\S*)", line):
            if re.fullmatch(r"\{[a-z-]+\}", fence[2]):  # a directive of the documentation's site
                opened, lines = (fence[1], "text", number), []
                continue
            if fence[2] not in RUN_LANGUAGES | SHOWN_LANGUAGES:
                raise ValueError(
                    f"{path.name}:{number}: expected a code block in one of "
                    f"{sorted(RUN_LANGUAGES | SHOWN_LANGUAGES)}, got {fence[2]!r}"
                )
            opened, lines = (fence[1], fence[2], number), []
    if opened:
        raise ValueError(f"{path.name}:{opened[2]}: this code block does not end")
    return blocks


def find_commands(block: Block, name: str) -> Iterator[Command]:
    """The commands of a bash block of the file `name`.

    Raises:
        ValueError: a line that is neither a `rela` command nor one that may be skipped.
    """
    text, start = "", block.line
    for number, line in enumerate(block.text.splitlines(), start=block.line):
        start = start if text else number
        text += line.removesuffix("\\")
        if line.endswith("\\"):
            continue
        command, text = text.split(" #")[0].strip(), ""
        if not command or command.startswith("#"):
            continue
        skipped = f"{command} ".startswith(tuple(SKIPPED_COMMANDS))
        if not skipped and not command.startswith(("rela ", "torchrun ")) and " | rela " not in command:
            raise ValueError(
                f"{name}:{start}: expected a `rela` command (also under torchrun or in a pipe) or one that begins with "
                f"{[prefix.strip() for prefix in SKIPPED_COMMANDS]}, got {command!r}"
            )
        yield Command(command, start, skipped)
