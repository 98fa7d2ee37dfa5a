"""Wrong use, and being stopped: what commands share to say in one line what to do."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import typer

EXIT_TERMINATED = 128 + signal.SIGTERM  # as shells have it


class _TerminatedError(BaseException):
    """SIGTERM, while somebody wants to say something about it."""


@contextmanager
def wrong_use(option: str | None = None) -> Generator[None]:
    """What the library finds wrong about the values of options is wrong use. ``option`` stands before the message."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(str(error) if option is None else f"{option}: {error}") from None


def refuse_unused(context: typer.Context, why: str, *names: str) -> None:
    """Options that would be ignored, by their parameters' names, are wrong use if they were given.

    ``why`` is the option that makes them useless.
    """
    options = {parameter.name: parameter.opts[0] for parameter in context.command.params}
    # By its name: typer has its own copy of click's sources, or click's, by its version.
    given = [name for name in names if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"]
    if given:
        listed = " and ".join(options[name] for name in given)
        raise typer.BadParameter(f"{why}: expected no option of what it leaves out, got {listed}; leave out either")


@contextmanager
def told_when_stopped(how_to_go_on: Callable[[], str], *others: type[Exception]) -> Generator[None]:
    """Ctrl-C, SIGTERM, or another exception that stands for them, is answered by one line on standard error."""
    try:
        with _hearing_sigterm():
            yield
    except (KeyboardInterrupt, _TerminatedError, *others) as error:
        sys.stderr.write(f"rela: stopped; {how_to_go_on()}\n")
        if isinstance(error, _TerminatedError):
            raise typer.Exit(EXIT_TERMINATED) from None
        raise


@contextmanager
def _hearing_sigterm() -> Generator[None]:
    """SIGTERM is an exception inside, unless somebody has another use for it. Only the main thread gets signals."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    process = os.getpid()

    def answer(number: int, _: object) -> None:
        if is_loading_torch() or os.getpid() != process:  # a copy of ours has nothing to say
            os._exit(EXIT_TERMINATED)
        signal.signal(number, signal.SIG_DFL)  # a second one ends what takes too long to end
        raise _TerminatedError

    signal.signal(signal.SIGTERM, answer)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def is_loading_torch() -> bool:
    """Whether an exception out of a signal would meet C++ code that aborts on it."""
    spec: Any = getattr(sys.modules.get("torch"), "__spec__", None)
    return bool(getattr(spec, "_initializing", False))


def replacements_of(texts: list[str]) -> dict[str, str]:
    """What is given with --replace: words, and what the model shall read for them."""
    found: dict[str, str] = {}
    for text in texts:
        old, equals, new = text.partition("=")
        if not (old and equals and new.strip()) or len(old.split()) > 1:
            raise typer.BadParameter(f"--replace: expected OLD=NEW, such as daß=dass, got {text!r}")
        if found.setdefault(old, new) != new:
            raise typer.BadParameter(
                f"--replace: expected each word once, got {old!r} as {found[old]!r} and as {new!r}"
            )
    return found
