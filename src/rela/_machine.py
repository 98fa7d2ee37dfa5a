"""Facts about the machine: interpreter, processor, compiler, installed packages. Needs no torch."""

import importlib.metadata
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DISTRIBUTION = "rela-attention"
_PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"

# fmt: off
SIMD_FLAGS = (
    "sse4_2", "avx", "avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512bw", "avx512dq",
    "avx512vl", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16",
    "asimd", "asimdhp", "bf16", "sve", "sve2", "sme",
)
# fmt: on
"""The instruction sets that matter to attention kernels, as Linux names them (x86, then ARM)."""

WITHOUT_AMX = ("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
"""The variable that keeps the library behind torch's products from using AMX."""


@dataclass(frozen=True, kw_only=True)
class Cpu:
    """The processor; `num_cores` is None where the system does not tell."""

    model: str
    simd: tuple[str, ...]
    num_cores: int | None
    num_threads: int
    num_threads_usable: int


@dataclass(frozen=True, kw_only=True)
class Compiler:
    """A C compiler that was found, and the options that CC gives it."""

    path: str
    version: str
    arguments: tuple[str, ...] = ()


def read_cpu(cpuinfo: Path = Path("/proc/cpuinfo")) -> Cpu:
    """The processor of this machine; `cpuinfo` is Linux's description of it."""
    blocks = _read_blocks(cpuinfo)
    first = blocks[0] if blocks else {}
    flags = set((first.get("flags") or first.get("Features") or "").split())
    cores = {(block.get("physical id"), block["core id"]) for block in blocks if "core id" in block}
    num_threads = os.cpu_count() or 1
    return Cpu(
        model=first.get("model name") or _model_without_cpuinfo(),
        simd=tuple(flag for flag in SIMD_FLAGS if flag in flags),
        num_cores=len(cores) or None,
        num_threads=num_threads,
        num_threads_usable=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else num_threads,
    )


def _read_blocks(cpuinfo: Path) -> list[dict[str, str]]:
    """One mapping for each hardware thread; empty where there is no such file."""
    if not cpuinfo.is_file():
        return []
    blocks = cpuinfo.read_text(encoding="utf-8", errors="replace").strip().split("\n\n")
    pairs = ([line.partition(":") for line in block.splitlines()] for block in blocks)
    return [{key.strip(): value.strip() for key, _, value in block} for block in pairs]


def _model_without_cpuinfo() -> str:
    if platform.system() == "Darwin" and (model := _first_line("sysctl", "-n", "machdep.cpu.brand_string")):
        return model
    return platform.processor() or platform.machine() or "unknown"


def find_compiler(environ: Mapping[str, str] = os.environ) -> Compiler | None:
    """The C compiler that `CC` names or, without it, the first of cc, gcc and clang; None if none runs."""
    try:
        wanted = shlex.split(environ.get("CC", ""))  # CC may carry options: "ccache gcc", "gcc -m64"
    except ValueError:  # a quotation without an end
        return None
    for name in wanted[:1] or ["cc", "gcc", "clang"]:
        path = shutil.which(name, path=environ.get("PATH"))
        if path and (version := _first_line(path, *wanted[1:], "--version")):
            return Compiler(path=path, version=version, arguments=tuple(wanted[1:]))
    return None


def bfloat16_is_deadly(cpu: Cpu, environ: Mapping[str, str] = os.environ) -> bool:
    """True if a product of bfloat16 matrices kills the process: some virtual machines announce AMX and do not have it.

    Another process tries it, which takes the seconds that torch needs to be imported, and only where AMX is announced.
    """
    if "amx_tile" not in cpu.simd:
        return False
    program = "import torch; x = torch.ones(64, 64, dtype=torch.bfloat16); x @ x"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, env=dict(environ), check=False)
    return done.returncode < 0


def _first_line(*command: str) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip().partition("\n")[0] or None


def installed_version(distribution: str) -> str | None:
    """The version of an installed distribution, without importing it; None if it is not there."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def read_extras(project: Path = _PROJECT) -> dict[str, dict[str, str | None]]:
    """For each extra of this package, the versions of what it asks for; None marks what is absent.

    From the `project` file if the package runs from its source tree: the metadata of an editable installation are
    those of the day when it was installed, and without an installation there are none. Empty if there are neither.
    """
    extras: dict[str, dict[str, str | None]] = {}
    for extra, requirement in _read_requirements(project):
        name = re.match(r"[\w.-]+", requirement)
        if name and name[0] != DISTRIBUTION:  # an extra may ask for others of this package
            extras.setdefault(extra, {})[name[0]] = installed_version(name[0])
    return extras


def _read_requirements(project: Path) -> Iterator[tuple[str, str]]:
    """Extras, and a requirement of each."""
    if (stated := _read_project(project)) is not None:
        for extra, requirements in stated.get("optional-dependencies", {}).items():
            yield from ((extra, requirement) for requirement in requirements)
        return
    try:
        requirements = importlib.metadata.requires(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        return
    for requirement in requirements:
        if extra := re.search(r"""extra\s*==\s*['"]([\w.-]+)['"]""", requirement):
            yield extra[1], requirement


def _read_project(project: Path) -> dict[str, Any] | None:
    """The table `project` of a pyproject.toml of this package; None if there is none, or another's."""
    try:
        stated = tomllib.loads(project.read_text(encoding="utf-8")).get("project", {})
    except (OSError, ValueError):  # not there, or no TOML
        return None
    return stated if stated.get("name") == DISTRIBUTION else None
