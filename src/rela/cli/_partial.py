"""Where translations go: standard output, a pipe, or a file that gets its name when it is complete."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Generator
from pathlib import Path
from typing import IO, Any

from rela._files import write_text


class StandardOutput:
    """Standard output, in UTF-8 whatever the locale; ``silent`` if something else has it."""

    num_windows = 0

    def __init__(self, *, silent: bool) -> None:
        self._silent = silent
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8", newline="\n")

    def write(self, text: str) -> None:
        """The lines of one sentence."""
        if not self._silent:
            with _named("standard output"):
                sys.stdout.write(text)

    def end_window(self) -> None:
        """Whoever reads gets whole windows at once."""
        with _named("standard output"):
            sys.stdout.flush()

    def finish(self) -> None:
        """All is written."""
        self.end_window()


class PlainFile:
    """A device or a pipe, which is written and never replaced."""

    num_windows = 0

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[str] = path.open("w", encoding="utf-8", newline="\n")

    def __enter__(self) -> PlainFile:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):  # what could not be written was reported when it happened
            self._file.close()

    def write(self, text: str) -> None:
        """The lines of one sentence."""
        with _named(str(self._path)):
            self._file.write(text)

    def end_window(self) -> None:
        """Write a whole window."""
        with _named(str(self._path)):
            self._file.flush()

    def finish(self) -> None:
        """All is written."""
        self.end_window()


class PartialFile:
    """A file that grows beside its place, by whole windows, and is renamed when it is complete.

    ``NAME.partial`` has the text, ``NAME.partial.json`` how it was made: to go on with it, the recipe must be the same.
    ``numbered`` lines begin with the number of their sentence, which may have several.
    """

    def __init__(self, path: Path, recipe: dict[str, Any], *, resume: bool, numbered: bool) -> None:
        self._path = path.resolve()  # a link stays a link
        self._partial = self._path.with_name(f"{self._path.name}.partial")
        self._recipe_file = self._path.with_name(f"{self._path.name}.partial.json")
        self._pending: list[str] = []
        self.num_windows = 0
        if resume and self._partial.exists():
            self._check_recipe(recipe)
            self.num_windows = keep_whole_windows(self._partial, recipe["window"], numbered=numbered)
        else:
            self._partial.unlink(missing_ok=True)  # before the recipe, which it may not be made by
            write_text(self._recipe_file, json.dumps(recipe, indent=2) + "\n")
        with _named(str(path)):
            self._file: IO[str] = self._partial.open("a", encoding="utf-8", newline="\n")

    def __enter__(self) -> PartialFile:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):  # what could not be written was reported when it happened
            self._file.close()

    def write(self, text: str) -> None:
        """The lines of one sentence."""
        self._pending.append(text)

    def end_window(self) -> None:
        """Write a whole window."""
        with _named(str(self._path)):
            self._file.write("".join(self._pending))
            self._file.flush()
        self._pending.clear()

    def finish(self) -> None:
        """Write the rest, and give the file its name."""
        self.end_window()
        with _named(str(self._path)):
            os.fsync(self._file.fileno())
            self._partial.replace(self._path)
            self._recipe_file.unlink()

    def _check_recipe(self, recipe: dict[str, Any]) -> None:
        made_by: dict[str, Any] = {}
        with contextlib.suppress(OSError, ValueError, TypeError):
            made_by = dict(json.loads(self._recipe_file.read_text(encoding="utf-8")))
        for name, value in recipe.items():
            before = made_by.get(name, "something unknown")
            if before != value:
                raise ValueError(
                    f"--resume: {self._partial} was begun with {name.replace('_', '-')} {before}, got {value}; give "
                    "the same options, or leave --resume out to begin anew"
                )


def keep_whole_windows(path: Path, window: int, *, numbered: bool) -> int:
    """Cut a file of translations after its last whole window; returns the number of windows.

    Of numbered lines a sentence may have several, so a window is known to be whole when the next one has begun.
    """
    windows = size = place = 0
    with path.open("rb") as file:
        for count, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                break
            if numbered:
                number = line.partition(b"\t")[0]
                if not number.isdigit():
                    break
                if (int(number) - 1) // window > windows:
                    windows, size = (int(number) - 1) // window, place
            place += len(line)
            if not numbered and count % window == 0:
                windows, size = count // window, place
    os.truncate(path, size)
    return windows


@contextlib.contextmanager
def _named(name: str) -> Generator[None]:
    """Errors of writing name what could not be written."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, name) from None
