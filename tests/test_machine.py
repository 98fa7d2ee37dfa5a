"""Facts about the machine, read from descriptions of other machines too."""

import importlib.metadata
from pathlib import Path

import pytest

from rela import _machine

X86 = """\
processor\t: 0
model name\t: Example CPU @ 2.00GHz
physical id\t: 0
core id\t: 0
flags\t\t: fpu sse4_2 avx avx2 fma avx512f

processor\t: 1
model name\t: Example CPU @ 2.00GHz
physical id\t: 0
core id\t: 0
flags\t\t: fpu sse4_2 avx avx2 fma avx512f
"""

ARM = """\
processor\t: 0
Features\t: fp asimd sve bf16
CPU part\t: 0xd40
"""


def test_two_threads_of_one_core(tmp_path: Path):
    (tmp_path / "cpuinfo").write_text(X86)
    cpu = _machine.read_cpu(tmp_path / "cpuinfo")
    assert (cpu.model, cpu.num_cores) == ("Example CPU @ 2.00GHz", 1)
    assert cpu.simd == ("sse4_2", "avx", "avx2", "fma", "avx512f")


def test_arm_has_features_and_tells_no_cores(tmp_path: Path):
    (tmp_path / "cpuinfo").write_text(ARM)
    cpu = _machine.read_cpu(tmp_path / "cpuinfo")
    assert cpu.simd == ("asimd", "bf16", "sve")
    assert cpu.num_cores is None
    assert cpu.model


def test_no_description_at_all(tmp_path: Path):
    cpu = _machine.read_cpu(tmp_path / "cpuinfo")
    assert cpu.simd == ()
    assert cpu.num_threads >= cpu.num_threads_usable >= 1


def test_compiler_is_the_one_that_cc_names(tmp_path: Path):
    script = tmp_path / "mycc"
    script.write_text("#!/bin/sh\necho mycc 1.2\necho more\n")
    script.chmod(0o755)
    found = _machine.find_compiler({"PATH": str(tmp_path), "CC": "mycc"})
    assert found == _machine.Compiler(path=str(script), version="mycc 1.2")
    assert _machine.find_compiler({"PATH": str(tmp_path), "CC": "othercc"}) is None
    assert _machine.find_compiler({"PATH": str(tmp_path)}) is None


def test_a_compiler_that_fails_is_none(tmp_path: Path):
    script = tmp_path / "cc"
    script.write_text("#!/bin/sh\nexit 3\n")
    script.chmod(0o755)
    assert _machine.find_compiler({"PATH": str(tmp_path)}) is None


PROJECT = """\
[project]
name = "rela-attention"
[project.optional-dependencies]
translate = ["pytest>=8.3", "surely-not-a-distribution"]
dev = ["rela-attention[translate]", "pytest-xdist[psutil]>=3.6; python_version > '3'"]
"""


def test_extras_of_a_source_tree(tmp_path: Path):
    """The metadata of an editable installation may be older than it."""
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    assert _machine.read_extras(tmp_path / "pyproject.toml") == {
        "translate": {"pytest": _machine.installed_version("pytest"), "surely-not-a-distribution": None},
        "dev": {"pytest-xdist": _machine.installed_version("pytest-xdist")},
    }
    assert {"translate", "tensorboard", "dev"} <= _machine.read_extras().keys()


@pytest.mark.parametrize("text", [None, "no TOML", "[project]\nname = 'another'\n", "[tool.ruff]\n"])
def test_extras_come_from_the_metadata_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None):
    if text is not None:
        (tmp_path / "pyproject.toml").write_text(text)
    lines = ["torch>=2.6", "pytest>=8.3; extra == 'dev'"]
    monkeypatch.setattr(importlib.metadata, "requires", {_machine.DISTRIBUTION: lines}.__getitem__)
    extras = _machine.read_extras(tmp_path / "pyproject.toml")
    assert extras == {"dev": {"pytest": _machine.installed_version("pytest")}}


def test_version_of_what_is_not_installed():
    assert _machine.installed_version("surely-not-a-distribution") is None


def test_products_of_bfloat16(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "cpuinfo").write_text(X86.replace("avx512f", "avx512f amx_tile"))
    (tmp_path / "plain").write_text(X86)
    amx, plain = _machine.read_cpu(tmp_path / "cpuinfo"), _machine.read_cpu(tmp_path / "plain")
    tried = tmp_path / "tried"
    for name, end in {"dies": "kill -ILL $$", "works": "exit 0", "fails": "exit 1"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\necho x >> {tried}\n{end}\n")
        (tmp_path / name).chmod(0o755)
    for name, deadly in {"dies": True, "works": False, "fails": False}.items():
        monkeypatch.setattr(_machine.sys, "executable", str(tmp_path / name))
        assert _machine.bfloat16_is_deadly(amx) is deadly
        assert not _machine.bfloat16_is_deadly(plain)
    assert len(tried.read_text().splitlines()) == 3
