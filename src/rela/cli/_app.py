"""From the list of commands to the program: options of all commands, errors, exit codes."""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from rela._version import __version__
from rela.cli._commands import COMMANDS, GROUPS, Command

DEBUG_VARIABLE = "RELA_DEBUG"
USER_ERRORS = (ValueError, OSError, ModuleNotFoundError)
"""What a user can mend. Anything else is a defect of ours and keeps its traceback."""

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells have it


def main() -> None:
    """Runs the command line and ends the process with its exit code."""
    sys.exit(run(COMMANDS, GROUPS, sys.argv[1:]))


def run(commands: Sequence[Command], groups: Mapping[str, str], arguments: Sequence[str]) -> int:
    """Runs one command line; returns 0 for done, 1 for failed, 2 for wrong use, 130 for interrupted."""
    try:
        build_app(commands, groups)(args=list(arguments), prog_name="rela")
    except SystemExit as exit_:  # typer's way to return
        return exit_.code if isinstance(exit_.code, int) else EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except USER_ERRORS as error:
        if os.environ.get(DEBUG_VARIABLE) == "1":
            raise
        sys.stderr.write(f"rela: error: {in_one_line(error)}\n")
        return EXIT_FAILED
    return 0


def build_app(commands: Sequence[Command], groups: Mapping[str, str]) -> typer.Typer:
    """Makes the typer application of a list of commands."""
    app = typer.Typer(
        name="rela",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # plain text: an error stays on its line, and rich need not be loaded
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog="Exit codes: 0 done, 1 failed, 2 wrong use. Help on a command: rela COMMAND --help",
    )
    app.callback()(_common_options)
    apps = {"": app}
    for name, text in groups.items():
        apps[name] = typer.Typer(help=text, no_args_is_help=True, rich_markup_mode=None)
        app.add_typer(apps[name], name=name)
    for command in commands:
        group, _, name = command.name.rpartition(" ")
        apps[group].command(name, epilog=f"Example: {command.example}")(command.run)
    return app


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


def in_one_line(error: BaseException) -> str:
    """An error's message on one line."""
    text = str(error) or type(error).__name__
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        text = f"{error.filename}: {error.strerror}"  # without the number of the error
    elif isinstance(error, ModuleNotFoundError):
        text += "; `rela doctor` says what is missing and how to install it"
    return " ".join(text.split())
