"""Compiling the native kernels on the user's machine, at first use, once."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import subprocess
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

from rela._machine import find_compiler
from rela._warn import warn

_SOURCE: Final = Path(__file__).with_name("native.c")
_FLAGS: Final = ("-O3", "-march=native", "-fopenmp", "-fPIC", "-shared")
_LANGUAGES: Final = {  # C++ without its standard library: the C compiler links it
    ".c": ("-std=gnu11",),
    ".cpp": ("-x", "c++", "-std=gnu++17", "-fno-exceptions", "-fno-rtti"),
}
_TIMEOUT_SECONDS: Final = 300


class Built(NamedTuple):
    """The loaded library, or the reason why there is none."""

    library: ctypes.CDLL | None
    reason: str


@functools.cache
def load(source: Path | None = None) -> Built:
    """The native kernels, or another C or C++ file of ours, compiled if this machine has not done so before."""
    if platform.system() != "Linux":
        return Built(None, f"they are built on Linux only, not on {platform.system()}")
    compiler = find_compiler()
    if compiler is None:
        wanted = os.environ.get("CC")
        wrong = f"CC={wanted} is not there or does not answer --version: set it right, or unset it"
        reason = wrong if wanted else "install gcc or clang, or set CC"
        return Built(None, f"no C compiler found: {reason}")
    command = [compiler.path, *compiler.arguments]
    try:
        return Built(_open(source or _SOURCE, command, compiler.version), f"compiled by {' '.join(command)}")
    except subprocess.CalledProcessError as error:
        return Built(None, f"{' '.join(command)} failed: {_error_line(error.stderr)}")
    except (OSError, subprocess.TimeoutExpired) as error:
        return Built(None, f"cannot build or load them: {error}")


@functools.cache
def notice() -> None:
    """Say, once in a process, why the native kernels are missing."""
    warn(
        f"rela: no native CPU kernels ({load().reason}); the slower blocked ones are used. `rela doctor` says more; "
        "RELA_KERNEL=blocked silences this."
    )


def _open(source: Path, command: list[str], version: str) -> ctypes.CDLL:
    """Load the library from the cache; one that cannot be loaded is built again, once."""
    folder = _cache_folder()
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="rela-kernels-") as scratch:  # a loaded library needs its file no more
            return ctypes.CDLL(str(_compiled(source, command, version, Path(scratch))))
    path = _compiled(source, command, version, folder)
    try:
        return ctypes.CDLL(str(path))
    except OSError:
        path.unlink(missing_ok=True)
        return ctypes.CDLL(str(_compiled(source, command, version, folder)))


def _compiled(source: Path, command: list[str], version: str, folder: Path) -> Path:
    """The library's path in the folder, keyed by everything that decides what is in it."""
    flags = (*_FLAGS, *_LANGUAGES[source.suffix])
    parts = (source.read_text(), *command, version, *flags, platform.machine(), _cpu_flags())
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]
    path = folder / f"{source.stem}-{key}.so"
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=folder) as scratch:  # renamed when whole: two processes may build at once
            partial = Path(scratch) / "native.so"
            arguments = [*command, *flags, str(source), "-o", str(partial), "-lm"]
            subprocess.run(arguments, capture_output=True, text=True, check=True, timeout=_TIMEOUT_SECONDS)
            if not partial.is_file():
                raise OSError(f"{' '.join(command)} made no file: is it a C compiler?")
            partial.replace(path)
    return path


def _cache_folder() -> Path | None:
    """RELA_CACHE, or the user's cache; None if that cannot be written."""
    chosen = os.environ.get("RELA_CACHE")
    base = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rela"
    folder = base / "kernels"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except OSError as error:
        if chosen:
            raise OSError(f"RELA_CACHE={chosen}: {error.strerror}; choose a folder that can be written") from None
    return None


def _cpu_flags() -> str:
    """What -march=native depends on: the same home folder may serve different machines."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())


def _error_line(text: str | None) -> str:
    lines = [line for line in (text or "").splitlines() if line.strip()]
    return next((line for line in lines if "error" in line), lines[-1] if lines else "no message")
