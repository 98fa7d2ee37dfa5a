"""The help of every command, as the program prints it."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from rela.cli._commands import COMMANDS


class Commands(SphinxDirective):
    """``{rela-commands}``: a section for each command, with its help."""

    def run(self) -> list[nodes.Node]:
        found: list[nodes.Node] = []
        for command in sorted(COMMANDS, key=lambda command: command.name):
            title = f"rela {command.name}"
            section = nodes.section(ids=[nodes.make_id(title)])
            section += nodes.title(title, title)
            text = _help(command.name.split())
            section += nodes.literal_block(text, text, language="text")
            found.append(section)
        return found


def _help(name: list[str]) -> str:
    program = Path(sys.executable).with_name("rela")
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}
    done = subprocess.run([program, *name, "--help"], capture_output=True, text=True, check=True, env=environment)
    return done.stdout.strip()


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_directive("rela-commands", Commands)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
