"""Standard streams. Whoever starts a program may have closed them; Python then has None in their place."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import BinaryIO, Final, NoReturn

STANDARD_INPUT: Final = "standard input"
STANDARD_OUTPUT: Final = "standard output"


def standard_input() -> BinaryIO:
    """The bytes of standard input; an OSError that names it if it is closed."""
    if sys.stdin is None:
        _refuse(STANDARD_INPUT, "give a file instead of -, or leave <&- out")
    return sys.stdin.buffer


def has_standard_output() -> bool:
    """False if it is closed: what nobody waits for need not be printed then."""
    return not (sys.stdout is None or isinstance(sys.stdout, ClosedOutput))


def check_standard_output() -> None:
    """Raise an OSError if it is closed: for those who are going to need it, before they work for minutes."""
    if not has_standard_output():
        _refuse_output()


def drop_output() -> None:
    """What standard output still holds, and whatever else is printed, goes nowhere: nobody reads it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class ClosedOutput(io.TextIOBase):
    """Stands in for standard output when it is closed: what is written to it is an error that says so."""

    def write(self, _: str, /) -> int:
        """Refuse."""
        _refuse_output()


def fill_in_closed() -> None:
    """Put something in the place of closed streams; messages that nobody can read go nowhere.

    Their numbers are taken up too: else the next file that is opened would get one, and with it whatever a library
    in C prints.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free: this one
    if sys.stdout is None:
        sys.stdout = ClosedOutput()
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 (no path of ours; stays open)


def _refuse_output() -> NoReturn:
    _refuse(STANDARD_OUTPUT, "name a file, or leave >&- out")


def _refuse(name: str, remedy: str) -> NoReturn:
    raise OSError(errno.EBADF, f"expected it to be open, got it closed; {remedy}", name)
