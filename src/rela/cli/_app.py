"""From the list of commands to the program: options of all commands, errors, exit codes."""

import contextlib
import errno
import functools
import itertools
import json
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from rela._files import naming
from rela._machine import DISTRIBUTION, read_extras
from rela._streams import STANDARD_OUTPUT, drop_output
from rela._version import __version__
from rela.cli._commands import COMMANDS, GROUPS, Command
from rela.cli._usage import is_loading_torch

DEBUG_VARIABLE = "RELA_DEBUG"
WRONG_USE: type[Exception] = typer.BadParameter.__mro__[1]  # typer's, and click's, UsageError
USER_ERRORS = (ValueError, OSError, MemoryError, ModuleNotFoundError)
"""What a user can mend. Anything else is a defect of ours and keeps its traceback."""

TOO_LARGE = ("allocate memory", "out of memory", "Storage size calculation overflowed", "integer multiplication")
"""What torch says, without an error class for it, when a size is too large for this machine."""

REMEDIES = {
    errno.ENOENT: "check the path",
    errno.ENOTDIR: "check the path",
    errno.EISDIR: "give a file",
    errno.EACCES: "check its permissions",
    errno.ENOSPC: "make room, or choose another place",
    errno.EDQUOT: "make room, or choose another place",
    errno.EFBIG: "see `ulimit -f`, or choose another place",
}
"""What to do about what the system says."""

EXIT_FAILED = 1
EXIT_WRONG_USE = 2
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells have it
EXIT_NOBODY_READS = 141  # 128 + SIGPIPE: whoever read our standard output has gone, as `head` does


def main() -> None:
    """Runs the command line and ends the process with its exit code."""
    _answer_while_loading()
    with _quiet_end():
        sys.exit(run(COMMANDS, GROUPS, sys.argv[1:]))


def _answer_while_loading() -> None:
    """Ctrl-C while torch is loaded ends the process at once: the exception would meet C++ code that aborts on it.

    Commands load it before they begin their work.
    """

    def answer(number: int, frame: Any) -> None:
        if is_loading_torch():
            os._exit(EXIT_INTERRUPTED)
        signal.default_int_handler(number, frame)

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, answer)


def run(commands: Sequence[Command], groups: Mapping[str, str], arguments: Sequence[str]) -> int:
    """Runs one command line; returns 0 for done, 1 for failed, 2 for wrong use, 130 for interrupted, 141 for unread."""
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            code = build_app(commands, groups)(args=list(arguments), prog_name="rela", standalone_mode=False)
        except (KeyboardInterrupt, typer.Abort):
            return EXIT_INTERRUPTED
        except WRONG_USE as error:
            return _explain(error, arguments)
        except Exception as error:  # ours are raised again
            if os.environ.get(DEBUG_VARIABLE) == "1" or not _can_be_mended(error):
                raise
            line = f"rela: error: {in_one_line(error)}"
            sys.stderr.write(f"{line}\n")
            _tell_torchrun(line)
            return EXIT_FAILED
    return code if isinstance(code, int) else 0


def _tell_torchrun(line: str) -> None:
    """For the report at the end of torchrun's own long output, in the file and the form it asks for."""
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if path:
        details = {"py_callstack": line, "timestamp": str(int(time.time()))}
        with contextlib.suppress(OSError):
            Path(path).write_text(json.dumps({"message": {"message": line, "extraInfo": details}}), encoding="utf-8")


def _can_be_mended(error: Exception) -> bool:
    return isinstance(error, USER_ERRORS) or _is_too_large(error)


def _is_too_large(error: BaseException) -> bool:
    return isinstance(error, RuntimeError) and any(words in str(error) for words in TOO_LARGE)


def _explain(error: Any, arguments: Sequence[str]) -> int:
    """One line on wrong use: what was expected, what came. Or the help, if a command was left out."""
    text = " ".join(error.format_message().split())
    if text.startswith("Usage:"):
        error.show()
        return EXIT_WRONG_USE
    text = text.rstrip(".").removeprefix("Invalid value: ")
    if "got " not in text and (given := _given(error, arguments)) is not None:
        text += f", got {given!r}"
    path = error.ctx.command_path if error.ctx is not None else "rela"
    sys.stderr.write(f"rela: error: {text}; see `{path} --help`\n")
    return EXIT_WRONG_USE


def _given(error: Any, arguments: Sequence[str]) -> str | None:
    """The value that was given to the option that an error is about."""
    options = getattr(getattr(error, "param", None), "opts", ())
    found = None  # of an option that is given twice, the last one counts
    for argument, following in itertools.pairwise([*arguments, ""]):
        name, equals, value = argument.partition("=")
        if name in options:
            found = value if equals else following
    return found


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    with contextlib.suppress(BrokenPipeError):  # a note that nobody reads is no reason to stop
        sys.stderr.write(f"rela: note: {' '.join(str(message).removeprefix('rela: ').split())}\n")


def build_app(commands: Sequence[Command], groups: Mapping[str, str]) -> typer.Typer:
    """Makes the typer application of a list of commands."""
    app = typer.Typer(
        name="rela",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # plain text: an error stays on its line, and rich need not be loaded
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog="Exit codes: 0 done, 1 failed, 2 wrong use, 130 interrupted. Help on a command: rela COMMAND --help",
    )
    app.callback()(_common_options)
    apps = {"": app}
    for name, text in groups.items():
        apps[name] = typer.Typer(help=text, no_args_is_help=True, rich_markup_mode=None)
        app.add_typer(apps[name], name=name)
    for command in commands:
        group, _, name = command.name.rpartition(" ")
        apps[group].command(name, epilog=f"Example: {command.example}")(_with_flush(command.run))
    return app


def _with_flush(run: Callable[..., None]) -> Callable[..., None]:
    """The command, and what it printed written out: a full disk is its error, not one of the interpreter's end."""

    @functools.wraps(run)
    def wrapped(*arguments: Any, **options: Any) -> None:
        try:
            run(*arguments, **options)
            _flush()
        except BrokenPipeError:  # before typer takes it for a failure
            raise typer.Exit(EXIT_NOBODY_READS) from None

    return wrapped


@contextlib.contextmanager
def _quiet_end() -> Generator[None]:
    """What standard output still holds and cannot take is dropped, or Python would complain once more at its end."""
    try:
        yield
    finally:
        try:
            _flush()
        except OSError:
            drop_output()


def _flush() -> None:
    with naming(STANDARD_OUTPUT):
        sys.stdout.flush()


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rela {__version__}")
        raise typer.Exit


def _common_options(
    version: Annotated[  # noqa: ARG001 (its callback does the work)
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", envvar=DEBUG_VARIABLE, help="Show the traceback of an error.")
    ] = False,
) -> None:
    """Rectified linear attention (ReLA): sparse attention for PyTorch, and the tools around it."""
    # Kept in the environment, where `run` and the processes that a command starts find it.
    os.environ[DEBUG_VARIABLE] = "1" if debug else "0"


def _remedy(error: ModuleNotFoundError) -> str:
    """How to get what is missing: by the extra that asks for it, if there is one."""
    name = (error.name or "").partition(".")[0]
    name = {"yaml": "pyyaml"}.get(name, name)  # the one whose package has another name
    for extra, versions in read_extras().items():
        if name in versions:
            return f'pip install "{DISTRIBUTION}[{extra}]"'
    return "`rela doctor` says what is missing and how to install it"


def in_one_line(error: BaseException) -> str:
    """An error's message on one line."""
    text = str(error) or type(error).__name__
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        text = f"{error.filename}: {error.strerror}"  # without the number of the error
        remedy = REMEDIES.get(error.errno or 0)
        if remedy is not None and ";" not in error.strerror:  # else whoever raised it has a better one
            text += f"; {remedy}"
    elif _is_too_large(error):
        text += "; choose smaller sizes"
    elif isinstance(error, ModuleNotFoundError) and "pip install" not in text:
        text += f"; {_remedy(error)}"
    return " ".join(text.split())
