"""The command `rela`: one thin file a command, which parses, calls and prints.

Nothing here imports torch before a command runs, so that `--help` answers at once.
"""

from rela.cli._app import main

__all__ = ["main"]
