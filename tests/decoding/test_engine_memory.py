"""The native decoder under sanitizers: for this CPU, with fewer of its instructions, and with none of its own."""

import platform
from pathlib import Path

import pytest
from tests.sanitized import COMPILER, NO_SILENT_MISTAKES, assert_clean

from rela.decoding import choice

MAIN = Path(__file__).with_name("engine_main.cpp")
LANGUAGE = ("-x", "c++", "-std=gnu++17", "-fno-exceptions", "-fno-rtti", "-O1", "-Wall", "-Wextra", "-Werror")
FEWER = {  # a CPU that lacks what is left out here builds the same twice
    "without VNNI": ["-march=native", "-mno-avx512vnni", "-mno-avxvnni"],
    "256 bits": ["-march=native", "-mno-avx512f"],
    "256 bits without VNNI": ["-march=native", "-mno-avx512f", "-mno-avxvnni"],
}
VARIANTS = {
    "own": ["-march=native"],
    "plain": [],
    "portable": ["-DPORTABLE"],
    **(FEWER if platform.machine() == "x86_64" else {}),
}


@pytest.mark.skipif(COMPILER is None or platform.system() != "Linux", reason="no C++ compiler")
@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_no_byte_too_far_and_none_left_behind(variant: str, tmp_path: Path):
    flags = [*LANGUAGE, *VARIANTS[variant], *NO_SILENT_MISTAKES]
    assert_clean(MAIN, flags, Path(choice.__file__).parent, tmp_path)
