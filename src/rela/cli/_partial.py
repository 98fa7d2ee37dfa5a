"""Where translations go: standard output, a pipe, or a file that gets its name when it is complete."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import sys
from collections.abc import Generator
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

import typer

from rela._files import naming, write_text
from rela._lock import take
from rela._streams import STANDARD_OUTPUT
from rela._warn import warn


@dataclass
class OddLines:
    """The numbers of lines that people should know of."""

    truncated: list[int] = field(default_factory=list[int])
    unfinished: list[int] = field(default_factory=list[int])

    def first(self, count: int) -> OddLines:
        """Those among so many lines."""
        return OddLines([n for n in self.truncated if n <= count], [n for n in self.unfinished if n <= count])


class StandardOutput:
    """Standard output, in UTF-8 whatever the locale; ``silent`` if something else has it."""

    num_windows = 0

    def __init__(self, *, silent: bool) -> None:
        self.odd = OddLines()
        self._silent = silent
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8", newline="\n")

    def write(self, text: str) -> None:
        """The lines of one sentence."""
        if not self._silent:
            with naming(STANDARD_OUTPUT):
                sys.stdout.write(text)

    def end_window(self) -> None:
        """Whoever reads gets whole windows at once."""
        with naming(STANDARD_OUTPUT):
            sys.stdout.flush()

    def finish(self) -> None:
        """All is written."""
        self.end_window()


class PlainFile:
    """A device or a pipe, which is written and never replaced."""

    num_windows = 0

    def __init__(self, path: Path) -> None:
        self.odd = OddLines()
        self._path = path
        self._file: IO[str] = path.open("w", encoding="utf-8", newline="\n")

    def __enter__(self) -> PlainFile:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):  # what could not be written was reported when it happened
            self._file.close()

    def write(self, text: str) -> None:
        """The lines of one sentence."""
        with naming(self._path):
            self._file.write(text)

    def end_window(self) -> None:
        """Write a whole window."""
        with naming(self._path):
            self._file.flush()

    def finish(self) -> None:
        """All is written."""
        self.end_window()


@dataclass(frozen=True)
class Origin:
    """What translations are made from or by: its name for people, and what tells it from others, if that is known."""

    name: str
    identity: dict[str, Any] | None


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """All that decides what the translations are."""

    options: dict[str, Any]
    input: Origin
    model: Origin


class PartialFile:
    """A file that grows beside its place, by whole windows, and is renamed when it is complete.

    ``NAME.partial`` has the text, ``NAME.partial.json`` how it was made and which lines were odd: to go on with it, the
    recipe must be the same.
    If ``nbest`` is more than 1, lines begin with the number of their sentence, which may have several.

    ``resume`` True goes on with what is there or is refused, False begins anew, and None goes on if that is known to
    come to the same.
    """

    def __init__(self, path: Path, recipe: Recipe, *, resume: bool | None) -> None:
        self._path = path.resolve()  # a link stays a link
        self._partial = self._path.with_name(f"{self._path.name}.partial")
        self._recipe_file = self._path.with_name(f"{self._path.name}.partial.json")
        self._pending: list[str] = []
        self._window: int = recipe.options["window"]
        self.num_windows = 0
        self.odd = OddLines()
        self._odd_written = OddLines()
        self._recipe = recipe
        self._file = self._open()
        try:
            if resume and (self._is_begun() or self._recipe_file.is_file()):
                self._check_recipe(recipe)
            if self._is_begun() and (resume or (resume is None and self._is_made_by(recipe))):
                numbered = recipe.options["nbest"] > 1
                self.num_windows = keep_whole_windows(self._partial, self._window, numbered=numbered)
                self.odd = self._read_odd().first(self.num_windows * self._window)
            else:
                self._set_aside()
                with naming(path):
                    self._write_recipe()
        except BaseException:
            self._file.close()
            raise
        self._num_done = self.num_windows
        if resume is None and self._num_done:
            warn(
                f"{self._partial} has the first {self._num_done * self._window:,} lines, of the same input, model and "
                "options; going on from there"
            )

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
        with self._growing():
            if self.odd != self._odd_written:
                self._write_recipe()
            self._write_pending()
        self._num_done += 1

    def finish(self) -> None:
        """Write the rest, and give the file its name."""
        with self._growing():
            self._write_pending()
            os.fsync(self._file.fileno())
            self._partial.replace(self._path)
            self._recipe_file.unlink()

    def _write_recipe(self) -> None:
        text = json.dumps({**asdict(self._recipe), "odd": asdict(self.odd)}, indent=2)
        write_text(self._recipe_file, f"{text}\n")
        self._odd_written = deepcopy(self.odd)

    def _read_odd(self) -> OddLines:
        try:
            return OddLines(**json.loads(self._recipe_file.read_text(encoding="utf-8"))["odd"])
        except (OSError, ValueError, TypeError, KeyError):
            return OddLines()

    def _write_pending(self) -> None:
        self._file.write("".join(self._pending))
        self._file.flush()
        self._pending.clear()

    def how_to_go_on(self) -> str:
        """For people whose output was cut off."""
        if not self._num_done:
            return f"not one window of {self._window:,} lines was done, so the same command begins anew"
        lines = self._num_done * self._window
        return f"{self._partial} has the first {lines:,} lines, and the same command with --resume goes on from there"

    @contextlib.contextmanager
    def _growing(self) -> Generator[None]:
        """Errors of writing name the file, and say how to go on when there is room again."""
        try:
            yield
        except OSError as error:
            raise OSError(error.errno, f"{error.strerror}; {self.how_to_go_on()}", str(self._path)) from None

    def _open(self) -> IO[str]:
        """The file, for this process alone. It gets its name at the end: whoever waited has to look for a new one."""
        while True:
            with naming(self._path):
                file = self._partial.open("a", encoding="utf-8", newline="\n")
            try:
                take(
                    file.fileno(),
                    f"{self._partial}: expected no other process to write here, got one; wait for it, or name another "
                    "--output",
                )
                with contextlib.suppress(FileNotFoundError):
                    if os.path.samestat(os.fstat(file.fileno()), self._partial.stat()):
                        return file
            except BaseException:
                file.close()
                raise
            file.close()

    def _is_begun(self) -> bool:
        return self._partial.stat().st_size > 0

    def _set_aside(self) -> None:
        """Keep what another recipe made, until the next time; nobody should lose hours by a slip."""
        if self._is_begun():
            old = self._partial.with_name(f"{self._partial.name}.old")
            shutil.copyfile(self._partial, old)
            warn(f"{self._partial} has lines of an output that was cut off; they are kept as {old.name}")
            self._file.truncate(0)

    def _is_made_by(self, recipe: Recipe) -> bool:
        if recipe.input.identity is None:  # a stream, which may be another one
            return False
        try:
            self._check_recipe(recipe)
        except typer.BadParameter:
            return False
        return True

    def _check_recipe(self, recipe: Recipe) -> None:
        """What this file was begun with, and what is given now, must be the same; else it stays as it is."""
        try:
            made_by = json.loads(self._recipe_file.read_text(encoding="utf-8"))
            options = dict(made_by["options"])
            origins = {name: Origin(**made_by[name]) for name in ("input", "model")}
        except (OSError, ValueError, TypeError, KeyError):
            raise typer.BadParameter(
                f"--resume: expected {self._recipe_file}, which says how {self._partial.name} was made, got none or a "
                "damaged one; leave --resume out to begin anew"
            ) from None
        for name, value in recipe.options.items():
            if options.get(name) != value:
                raise typer.BadParameter(
                    f"--resume: {self._partial} was begun with {name.replace('_', '-')} {options.get(name)}, got "
                    f"{value}; give the same options, or leave --resume out to begin anew"
                )
        for what, before in origins.items():
            now: Origin = getattr(recipe, what)
            if before.identity != now.identity:
                other = (
                    "was changed since then"
                    if before.name == now.name
                    else f"is another one than {before.name}, which it was begun with"
                )
                raise typer.BadParameter(
                    f"--resume: expected the {what} that {self._partial} was begun with, got another: {now.name} "
                    f"{other}; give the same {what}, or leave --resume out to begin anew"
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
