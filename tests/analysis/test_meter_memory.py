"""The compiled meter under sanitizers, and before pages that must not be touched."""

import os
import subprocess
from pathlib import Path

import pytest
from tests.analysis.meters import COMPILER, SOURCE, flags_for, needs_compiler

MAIN = Path(__file__).with_name("meter_main.c")


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("path", ["wide", "narrow"])
@pytest.mark.parametrize("checks", ["-fsanitize=address,undefined", "-DGUARDED -fsanitize=undefined"])
def test_no_byte_too_far_and_none_left_behind(checks: str, path: str, tmp_path: Path):
    assert COMPILER is not None
    command = [COMPILER.path, *COMPILER.arguments, "-g", "-O1", "-std=gnu11", "-fopenmp", *flags_for(path)]
    command += [*checks.split(), "-fno-sanitize-recover=all", f"-I{SOURCE.parent}", str(MAIN)]
    built = subprocess.run([*command, "-o", str(tmp_path / "main"), "-lm"], capture_output=True, text=True, check=False)
    if "cannot find" in built.stderr:
        pytest.skip(f"the compiler came without sanitizers: {built.stderr.splitlines()[-1]}")
    assert built.returncode == 0, built.stderr
    environment = os.environ | {"OMP_NUM_THREADS": "2"}
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
