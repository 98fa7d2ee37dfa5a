"""Wrong use, and being stopped: what commands share to say in one line what to do."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

import typer


@contextmanager
def wrong_use(option: str | None = None) -> Generator[None]:
    """What the library finds wrong about the values of options is wrong use. ``option`` stands before the message."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(str(error) if option is None else f"{option}: {error}") from None


@contextmanager
def told_when_stopped(how_to_go_on: Callable[[], str], *others: type[Exception]) -> Generator[None]:
    """Ctrl-C, or another exception that stands for it, is answered by one line on standard error."""
    try:
        yield
    except (KeyboardInterrupt, *others):
        sys.stderr.write(f"rela: stopped; {how_to_go_on()}\n")
        raise


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
