"""The native decoder under sanitizers, for this CPU, for any x86-64 and without instructions of its own."""

import os
import platform
import subprocess
from pathlib import Path

import pytest

from rela._machine import find_compiler
from rela.decoding import choice

MAIN = Path(__file__).with_name("engine_main.cpp")
SOURCE = Path(choice.__file__).with_name("engine.cpp")
COMPILER = find_compiler()
VARIANTS = {"own": ["-march=native"], "plain": [], "portable": ["-DPORTABLE"]}


@pytest.mark.skipif(COMPILER is None or platform.system() != "Linux", reason="no C++ compiler")
@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_no_byte_too_far_and_none_left_behind(variant: str, tmp_path: Path):
    assert COMPILER is not None
    command = [COMPILER.path, *COMPILER.arguments, "-x", "c++", "-std=gnu++17", "-fno-exceptions", "-fno-rtti", "-g"]
    command += ["-O1", "-fopenmp", *VARIANTS[variant], "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    command += ["-Wall", "-Wextra", "-Werror", f"-I{SOURCE.parent}", str(MAIN), "-o", str(tmp_path / "main"), "-lm"]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if "cannot find" in built.stderr:
        pytest.skip(f"the compiler came without sanitizers: {built.stderr.splitlines()[-1]}")
    assert built.returncode == 0, built.stderr
    environment = os.environ | {"OMP_NUM_THREADS": "2"}
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
