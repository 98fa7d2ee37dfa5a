"""`rela doctor`: what is installed, what is missing, which attention kernel and decoder would be used, and why."""

import importlib
import platform
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

import typer

from rela._machine import (
    WITHOUT_AMX,
    Compiler,
    Cpu,
    bfloat16_is_deadly,
    find_compiler,
    installed_version,
    read_cpu,
    read_extras,
)
from rela._version import __version__
from rela.cli._output import JsonOption, console_for, write_json

if TYPE_CHECKING:
    from rich.console import Console

REQUIRED = ("torch", "numpy", "entmax")
"""The packages without which nothing computes, in the order in which they need each other."""


@dataclass(frozen=True, kw_only=True)
class Package:
    """A required package: its version, and the error when it cannot be imported."""

    name: str
    version: str | None
    error: str | None


@dataclass(frozen=True, kw_only=True)
class Torch:
    """What torch says of itself."""

    version: str
    num_threads: int
    cpu_capability: str
    cuda_device: str | None


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """An attention kernel or a decoder, whether it can run here, and whether it would."""

    name: str
    available: bool | None
    chosen: bool
    reason: str


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Something that keeps rela, or a part of it, from working, and what to do about it."""

    what: str
    remedy: str


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """All that `rela doctor` finds; its JSON has the same fields."""

    rela: str
    python: str
    python_path: str
    platform: str
    cpu: Cpu
    compiler: Compiler | None
    packages: tuple[Package, ...]
    extras: dict[str, dict[str, str | None]]
    torch: Torch | None
    kernels: tuple[Kernel, ...]
    decoders: tuple[Kernel, ...]
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]


def doctor(json_to: JsonOption = None) -> None:
    """Say what is installed, what is missing, which attention kernel and which decoder would be used, and why.

    Ends with exit code 1 when something keeps rela from working, and says what to do about it.
    """
    diagnosis = examine()
    if json_to is not None:
        write_json(asdict(diagnosis), json_to)
    show(diagnosis, console_for(json_to))
    if diagnosis.problems:
        raise typer.Exit(1)


def examine() -> Diagnosis:
    """Looks at the machine and the packages; never fails because of what it finds."""
    packages = tuple(_examine_package(name) for name in REQUIRED)
    problems = list(_problems_of(packages))
    kernels: tuple[Kernel, ...] = ()
    if not problems:
        try:
            kernels = _examine_kernels()
        except Exception as error:  # whatever keeps them from loading is what the user came to hear
            what = f"no attention kernel: {_describe(error)}"
            problems.append(Problem(what=what, remedy="unset RELA_KERNEL, or reinstall rela"))
    decoders: tuple[Kernel, ...] = ()
    if not problems and find_spec("msgspec"):  # of the extra `translate`
        try:
            decoders = _examine_decoders()
        except Exception as error:
            what = f"no decoder: {_describe(error)}"
            problems.append(Problem(what=what, remedy="unset RELA_DECODER, or reinstall rela"))
    cpu = read_cpu()
    works = packages[0].error is None
    return Diagnosis(
        rela=__version__,
        python=platform.python_version(),
        python_path=sys.executable,
        platform=platform.platform(),
        cpu=cpu,
        compiler=find_compiler(),
        packages=packages,
        extras=read_extras(),
        torch=_examine_torch() if works else None,
        kernels=kernels,
        decoders=decoders,
        problems=tuple(problems),
        warnings=tuple(_warnings_of(cpu)) if works else (),
    )


def _warnings_of(cpu: Cpu) -> Iterator[Problem]:
    if bfloat16_is_deadly(cpu):
        what = "products of bfloat16 matrices kill the process: the processor announces AMX and does not have it"
        yield Problem(
            what=what, remedy=f"export {'='.join(WITHOUT_AMX)} before Python starts; float32 is not concerned"
        )


def _examine_package(name: str) -> Package:
    try:
        importlib.import_module(name)
    except Exception as error:  # a broken binary raises OSError, RuntimeError, ...; all of it is a finding
        return Package(name=name, version=installed_version(name), error=_describe(error))
    return Package(name=name, version=installed_version(name), error=None)


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _problems_of(packages: tuple[Package, ...]) -> Iterator[Problem]:
    broken = {package.name for package in packages if package.error is not None}
    for package in packages:
        if package.name not in broken or (package.name == "entmax" and "torch" in broken):
            continue  # entmax imports torch: what ails torch is said once
        if package.version is None:
            what, remedy = f"{package.name} is missing", f"pip install {package.name}"
        else:
            what = f"{package.name} {package.version} is installed but broken"
            remedy = f"pip install --force-reinstall {package.name}"
        yield Problem(what=f"{what}: {package.error}", remedy=remedy)


def _examine_torch() -> Torch:
    import torch

    return Torch(
        version=torch.__version__,
        num_threads=torch.get_num_threads(),
        cpu_capability=torch.backends.cpu.get_cpu_capability(),
        cuda_device=torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    )


def _examine_kernels() -> tuple[Kernel, ...]:
    from rela.attention import kernels

    return tuple(
        Kernel(name=kernel.name, available=kernel.available, chosen=kernel.chosen, reason=kernel.reason)
        for kernel in kernels.describe()
    )


def _examine_decoders() -> tuple[Kernel, ...]:
    from rela.decoding.choice import describe

    return tuple(
        Kernel(name=decoder.name, available=decoder.available, chosen=decoder.chosen, reason=decoder.reason)
        for decoder in describe()
    )


def show(diagnosis: Diagnosis, console: "Console") -> None:
    """Prints a diagnosis for people."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for label, text in _rows(diagnosis):
        table.add_row(label, Text(text))
    for label, style, found in (("warning", "yellow", diagnosis.warnings), ("problem", "red", diagnosis.problems)):
        for problem in found:
            table.add_row(label, Text(problem.what, style=style))
            table.add_row("remedy", Text(problem.remedy))
    console.print(table)
    console.print("not ready" if diagnosis.problems else "ready")


def _rows(diagnosis: Diagnosis) -> Iterator[tuple[str, str]]:
    cpu, torch, compiler = diagnosis.cpu, diagnosis.torch, diagnosis.compiler
    yield "rela", diagnosis.rela
    yield "python", f"{diagnosis.python} ({diagnosis.python_path})"
    yield "platform", diagnosis.platform
    yield "cpu", cpu.model
    yield "simd", " ".join(cpu.simd) or "unknown"
    yield "cores", str(cpu.num_cores or "unknown")
    yield "hardware threads", f"{cpu.num_threads}, {cpu.num_threads_usable} of them for this process"
    yield "compiler", f"{compiler.version} ({compiler.path})" if compiler else "no C compiler found"
    for package in diagnosis.packages:
        yield package.name, _status(package)
    if torch:
        yield "torch threads", f"{torch.num_threads}, with {torch.cpu_capability} instructions"
        yield "torch cuda", torch.cuda_device or "not available"
    for extra, versions in diagnosis.extras.items():
        parts = (f"{name} {version or 'absent'}" for name, version in versions.items())
        yield f"extra {extra}", ", ".join(parts)
    for what, choices in (("kernel", diagnosis.kernels), ("decoder", diagnosis.decoders)):
        for choice in choices:
            states = {True: "available", False: "not available", None: "not tried"}
            state = "used" if choice.chosen else states[choice.available]
            yield f"{what} {choice.name}", f"{state}: {choice.reason}"


def _status(package: Package) -> str:
    if package.error is None:
        return package.version or "importable, version unknown"
    return "broken" if package.version else "missing"
