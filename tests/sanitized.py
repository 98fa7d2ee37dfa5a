"""Programs of ours in C and C++, built with what finds their mistakes, and run."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from rela._machine import find_compiler

COMPILER = find_compiler()
NO_SILENT_MISTAKES = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def assert_clean(program: Path, flags: Sequence[str], include: Path, folder: Path) -> None:
    """Build ``program`` (it includes a source of ours, from ``include``) in ``folder``, run it on two threads, and
    expect that it neither complains nor crashes."""
    assert COMPILER is not None
    built = folder / "main"
    command = [COMPILER.path, *COMPILER.arguments, "-g", "-fopenmp", *flags, f"-I{include}", str(program)]
    made = subprocess.run([*command, "-o", str(built), "-lstdc++", "-lm"], capture_output=True, text=True, check=False)
    if "cannot find" in made.stderr:
        pytest.skip(f"the compiler came without sanitizers: {made.stderr.splitlines()[-1]}")
    assert made.returncode == 0, made.stderr
    environment = os.environ | {"OMP_NUM_THREADS": "2"}
    done = subprocess.run([built], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
