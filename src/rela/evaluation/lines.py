"""Files of one sentence a line, and lines that belong together."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from pathlib import Path

from rela.text.compression import STDIN, open_text
from rela.text.marks import without_mark


def read_lines(path: str | Path) -> list[str]:
    r"""The lines of a UTF-8 file, packed (.gz, .xz, .zst) or not, or of standard input when `path` is "-".

    A line ends at "\n" and nowhere else: U+2028, form feeds and their like are part of a sentence. A byte order mark at
    the start is taken off.

    Raises:
        ValueError: the file is empty or is not UTF-8.
    """
    name = "standard input" if path == STDIN else str(path)
    with open_text(path) as stream:
        data = without_mark(stream.read(), path)
    if not data:
        raise ValueError(f"expected one sentence a line in {name}, got an empty file; was it written to the end?")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        number = data.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"expected UTF-8 in {name}, got the byte 0x{data[error.start]:02x} in line {number}; "
            "convert the file, for example with iconv"
        ) from None
    return text.removesuffix("\n").split("\n")


def check_parallel(named: Sequence[tuple[str, Sequence[str]]]) -> None:
    """Checks that all texts have as many lines as the first, and at least one; each comes with a name for the error.

    Raises:
        ValueError: a text has no lines or another number of them.
        TypeError: a text is a single string, or its lines are not strings.
    """
    for name, lines in named:
        if isinstance(lines, str):
            raise TypeError(f"expected {name} as a list of lines, got one string; put it in brackets")
        _check_list(lines, f"{name} as a list of lines")
        for number, line in enumerate(lines, start=1):
            if not isinstance(line, str):  # pyright: ignore[reportUnnecessaryIsInstance] (callers need not be typed)
                raise TypeError(
                    f"expected {name} as a list of strings, got {_kind(line)} as line {number}; an empty line is ''"
                )
    (first, expected), *others = named
    if not expected:
        raise ValueError(f"expected at least one line in {first}, got none")
    for name, lines in others:
        if len(lines) != len(expected):
            raise ValueError(
                f"expected {len(expected)} lines as in {first}, got {len(lines)} in {name}; "
                "line n of one must belong to line n of the other"
            )


def check_corpus(hypotheses: Sequence[str], references: Sequence[Sequence[str]], name: str = "hypotheses") -> None:
    """Checks one system's translations and the references as functions of this room take them.

    Raises:
        ValueError: there is no reference, there are no lines, or not as many in each.
        TypeError: one of them is not made of lines; `references` is a list of references, each a list of lines.
    """
    _check_list(references, "a list of references, each a list of lines")
    if not references:
        raise ValueError("expected at least one reference, got none")
    if isinstance(references, str) or isinstance(references[0], str):
        raise TypeError("expected a list of references, each a list of lines, got one reference; put it in brackets")
    numbered = [(f"references[{index}]", lines) for index, lines in enumerate(references)]
    check_parallel([*numbered, (name, hypotheses)])


def _check_list(value: object, what: str) -> None:
    """Refuses what can be gone through but once, if at all."""
    if not isinstance(value, Sized):
        raise TypeError(f"expected {what}, got {_kind(value)}; make a list of it")


def _kind(value: object) -> str:
    """The type of a value, for errors."""
    return "None" if value is None else f"one of type {type(value).__name__}"
