"""The command `rela`: one thin file a command, which parses, calls and prints.

Nothing here imports torch before a command runs, so that `--help` answers at once.
"""

from rela._streams import fill_in_closed
from rela.cli import _app

__all__ = ["main"]


def main() -> None:
    """Runs the command line and ends the process with its exit code."""
    fill_in_closed()
    _app.main()
