"""The compiled meter under sanitizers, and before pages that must not be touched."""

from pathlib import Path

import pytest
from tests.analysis.meters import SOURCE, flags_for, needs_compiler
from tests.sanitized import assert_clean

MAIN = Path(__file__).with_name("meter_main.c")


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("path", ["wide", "narrow"])
@pytest.mark.parametrize("checks", ["-fsanitize=address,undefined", "-DGUARDED -fsanitize=undefined"])
def test_no_byte_too_far_and_none_left_behind(checks: str, path: str, tmp_path: Path):
    flags = ["-O1", "-std=gnu11", *flags_for(path), *checks.split(), "-fno-sanitize-recover=all"]
    assert_clean(MAIN, flags, SOURCE.parent, tmp_path)
