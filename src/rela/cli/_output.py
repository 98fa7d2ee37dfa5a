"""What all commands share to print: `--json` for machines, a console for people."""

import json
import os
import stat
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rela._files import behind_link, is_in_place, naming, write_text
from rela._streams import STANDARD_OUTPUT, drop_output, has_standard_output
from rela._warn import warn

if TYPE_CHECKING:
    from rich.console import Console

STDOUT = "-"
_STREAMS = ("/dev/stdout", "/dev/stderr", "/dev/fd/", "/proc/")  # where open files have names
NARROWEST = 80
"""Columns that tables may count on. In a narrower window their lines break; nothing is cut off."""


def check_destination(destination: str | None) -> str | None:
    """Refuses a file that cannot be written before the command works for minutes, not after."""
    if destination is None or destination == STDOUT:
        return destination
    path = Path(destination)
    if path.is_dir():
        raise typer.BadParameter(f"expected a file, got the folder {destination!r}; add a file name")
    if not path.parent.is_dir():
        raise typer.BadParameter(f"the folder of {destination!r} does not exist; make it first")
    if path.is_file() and str(path.absolute()).startswith(_STREAMS):
        raise typer.BadParameter(
            f"expected a file by its own name, got {destination!r}, which stands for one that is open already"
        )
    if not os.access(path if is_in_place(path) else path.resolve().parent, os.W_OK):
        raise typer.BadParameter(f"{destination!r} may not be written; choose another file")
    return destination


JsonOption = Annotated[
    str | None,
    typer.Option(
        "--json",
        metavar="FILE",
        callback=check_destination,
        help="Write the result as JSON to FILE, or to standard output when FILE is -.",
        show_default=False,
    ),
]
"""The type of every command's parameter `json_to`, with the default None."""


def write_json(data: Any, destination: str) -> None:
    """Writes `data` to a file, whole or not at all, or to standard output when `destination` is "-".

    Raises:
        ValueError: `data` has a NaN or an infinity, for which JSON has no form.
    """
    text = json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    if destination == STDOUT:
        with naming(STANDARD_OUTPUT):
            sys.stdout.write(text)
            sys.stdout.flush()
        return
    with naming(destination):
        write_text(behind_link(destination), text)


def _is_same(path: Path, target: Path) -> bool:
    """Whether two paths are one file, by whatever names."""
    try:
        return path.resolve() == target or path.samefile(target)
    except OSError:  # one of them is not there
        return False


def check_not_input(destination: Path | str | None, option: str, inputs: Mapping[str, Iterable[Path | str]]) -> None:
    """Refuse to write onto what is read; ``inputs`` are files by the name of their option."""
    if destination in (None, STDOUT):
        return
    target = Path(destination).resolve()
    for name, paths in inputs.items():
        if any(path != STDOUT and _is_same(Path(path), target) for path in paths):
            raise typer.BadParameter(
                f"{option}: expected another file than {name}, got {str(destination)!r} for both; name a new one"
            )


def check_not_standard_output(inputs: Mapping[str, Iterable[Path | str]]) -> None:
    """Refuse to append to what is read: `rela ... x.tsv >> x.tsv` would not come to an end, or read its own rows."""
    try:
        out = os.fstat(sys.stdout.fileno())
    except (OSError, ValueError):  # it is no file
        return
    if not stat.S_ISREG(out.st_mode):
        return
    for name, paths in inputs.items():
        for path in paths:
            if path != STDOUT and Path(path).is_file() and os.path.samestat(Path(path).stat(), out):
                raise typer.BadParameter(
                    f"standard output: expected another file than {name}, got {str(path)!r} for both; name a new one"
                )


def console_for(json_to: str | None, *, goes_on: bool = False) -> "Console":
    """The console for people; silent while the JSON has standard output, or nobody has.

    If whoever read it has gone, as `head` does, printing raises a BrokenPipeError; on a full disk, another OSError.
    ``goes_on`` is for work whose result is elsewhere: it goes on in silence, and a full disk is a note.
    """
    from rich.console import Console

    class ReadConsole(Console):
        def on_broken_pipe(self) -> None:  # of rich's own accord, this ends the process
            raise BrokenPipeError

        def print(self, *objects: Any, **options: Any) -> None:
            try:
                with naming(STANDARD_OUTPUT):
                    super().print(*objects, **options)
            except OSError as error:
                if not goes_on:
                    raise
                self.quiet = True
                drop_output()
                if not isinstance(error, BrokenPipeError):
                    warn(f"{STANDARD_OUTPUT}: {error.strerror}; the work goes on, and nothing more is printed")

    # Names of files may look like markup; and a line stays a line, however long, for those who read or paste it.
    quiet = json_to == STDOUT or not has_standard_output()
    console = ReadConsole(quiet=quiet, highlight=False, markup=False, emoji=False, soft_wrap=True)
    console.width = max(console.width, NARROWEST)
    return console
