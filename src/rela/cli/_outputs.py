"""Where outputs of many lines go, and what tells inputs and models apart: for commands that read text."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from rela._files import PACKINGS, digest, ending_of, is_in_place
from rela._streams import STANDARD_INPUT
from rela._warn import warn
from rela.cli._output import STDOUT, check_destination
from rela.cli._partial import Origin, PartialFile, PlainFile, Recipe, StandardOutput
from rela.cli._usage import told_when_stopped

if TYPE_CHECKING:
    from rich.console import Console

    from rela.model.directory import Languages

WINDOW: Final = 2048
"""Lines that are read and sorted together."""

_CHARS_PER_PIECE: Final = 64
"""Characters read for each piece that is kept. A piece has half as many bytes at most, so what goes is cut anyway."""

_OTHER_PACKINGS: Final = (".7z", ".br", ".bz2", ".lz4", ".lzma", ".rar", ".z", ".zip")
_SHOWN: Final = 5  # line numbers in a warning

Output = StandardOutput | PlainFile | PartialFile


def check_output(output: Path | None) -> Path | None:
    """For the option ``--output``: None for standard output."""
    checked = check_destination(None if output is None else str(output))
    return None if checked in (None, STDOUT) else output


def check_packing(path: Path | None, option: str) -> None:
    """Refuse the ending of a packing that is not made here: the file would not be what its name says."""
    if path is not None and path.suffix.lower() in _OTHER_PACKINGS:
        raise typer.BadParameter(
            f"{option}: expected a name that ends in {', '.join(PACKINGS)} for a packed file, got {str(path)!r}"
        )


def longest_line(max_pieces: int) -> int:
    """Characters of a line that are read, if so many pieces of it are kept."""
    from rela.text.readers import MAX_CHARS

    return max(MAX_CHARS, _CHARS_PER_PIECE * max_pieces)


@contextlib.contextmanager
def open_output(
    path: Path | None, recipe: Callable[[], Recipe], *, resume: bool | None, silent: bool
) -> Generator[Output]:
    """``resume`` is what :class:`PartialFile` takes; ``silent`` if something else has standard output."""
    if path is None:
        yield StandardOutput(silent=silent)
    elif is_in_place(path):
        if resume:
            raise typer.BadParameter(f"--resume: expected --output to be a file, got the device or pipe {str(path)!r}")
        with PlainFile(path) as out:
            yield out
    else:
        opened: list[PartialFile] = []
        with (
            told_when_stopped(lambda: opened[0].how_to_go_on() if opened else "nothing was done yet: begin again"),
            PartialFile(path, recipe(), resume=resume) as out,
        ):
            opened.append(out)
            yield out


def input_identity(source: str) -> dict[str, Any] | None:
    """What tells an input from others; None for a stream. Whole files are hashed, which takes little time."""
    path = Path(source)
    if source == STDOUT or is_in_place(path):
        return None  # a pipe, which can be read once only
    return {"bytes": path.stat().st_size, "sha256": digest(path)}


def input_name(source: str) -> str:
    """For people."""
    return STANDARD_INPUT if source == STDOUT else str(Path(source).resolve())


def model_origin(folder: Path, **more: Any) -> Origin:
    """The weights' file carries a fingerprint of the other files of its model, without which it does not load."""
    from rela.model.directory import WEIGHTS_FILE, find_model_folder

    found = find_model_folder(folder).resolve()
    return Origin(str(found), {"sha256": digest(found / WEIGHTS_FILE), **more})


def line_numbers(numbers: list[int]) -> str:
    """How many, and the first of them."""
    more = ", ..." if len(numbers) > _SHOWN else ""
    return f"{len(numbers):,} ({'lines' if len(numbers) > 1 else 'line'} {', '.join(map(str, numbers[:_SHOWN]))}{more})"


def check_direction(source: str, languages: Languages | None) -> None:
    """Say so if a file's name has the language that comes out of a model, not the one that goes in."""
    if languages is not None and languages.source != languages.target and ending_of(source) == languages.target:
        warn(
            f"the model translates from {languages.source} to {languages.target}, and {source} looks like "
            f"{languages.target}; was another file or another model meant?"
        )


@contextlib.contextmanager
def output_progress(output: Path | None, console: Console, what: str) -> Generator[Callable[[int], None]]:
    """Shows progress if the output goes to a file; else nothing may stand between its lines."""
    if output is None:
        yield lambda _: None
        return
    from rela.cli._progress import CountProgress

    with CountProgress(console, "sentences") as progress:
        yield lambda count: progress.advance(what, count)
