"""Compiling the native code on the user's machine, at first use, once."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import functools
import hashlib
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Final, NamedTuple

import torch

from rela._machine import find_compiler
from rela._warn import warn

_FLAGS: Final = ("-O3", "-march=native", "-fopenmp", "-fPIC")
_TIMEOUT_SECONDS: Final = 600
_DIGEST_BYTES: Final = hashlib.sha256().digest_size
_OPERATORS: Final = Path(__file__).with_name("native.cpp")


class Built(NamedTuple):
    """The loaded library, or the reason why there is none."""

    library: ctypes.CDLL | None
    reason: str


class _Recipe(NamedTuple):
    """A source file, the flags of each of its parts, which are compiled side by side, and those of the linker."""

    source: Path
    parts: tuple[tuple[str, ...], ...]
    link: tuple[str, ...]
    needs: str = ""  # what else decides what comes out


@functools.cache
def load(source: Path) -> Built:
    """A C file of ours, or a C++ file that needs no standard library, compiled if this machine has not done so."""
    flags = {".c": ("-std=gnu11",), ".cpp": ("-std=gnu++17", "-fno-exceptions", "-fno-rtti")}[source.suffix]
    return _load(_Recipe(source, (flags,), ("-lm",)))


@functools.cache
def load_operators() -> Built:
    """The kernels, as operators of the torch that is installed."""
    folder = Path(torch.__file__).parent
    if not (folder / "include/torch/library.h").is_file():
        return Built(None, f"torch {torch.__version__} came without its C++ headers; install it by pip or conda")
    includes = (f"-I{folder}/include", f"-I{folder}/include/torch/csrc/api/include")
    common = ("-std=gnu++20", "-fvisibility=hidden", f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}")
    parts = ((*common, "-DRELA_WITHOUT_TORCH"), (*common, "-DRELA_ONLY_OPERATORS", "-O1", *includes))
    link = (f"-L{folder}/lib", "-ltorch_cpu", "-lc10", "-lstdc++", "-lm")
    return _load(_Recipe(_OPERATORS, parts, link, torch.__version__))


@functools.cache
def notice() -> None:
    """Say, once in a process, why the native kernels are missing."""
    warn(
        f"rela: no native CPU kernels ({load_operators().reason}); the slower blocked ones are used. `rela doctor` "
        "says more; RELA_KERNEL=blocked silences this."
    )


def _load(recipe: _Recipe) -> Built:
    if platform.system() != "Linux":
        return Built(None, f"they are built on Linux only, not on {platform.system()}")
    compiler = find_compiler()
    if compiler is None:
        wanted = os.environ.get("CC")
        wrong = f"CC={wanted} is not there or does not answer --version: set it right, or unset it"
        reason = wrong if wanted else "install gcc and g++, or clang, or set CC"
        return Built(None, f"no C compiler found: {reason}")
    command = [compiler.path, *compiler.arguments]
    try:
        return Built(_open(recipe, command, compiler.version), f"compiled by {' '.join(command)}")
    except subprocess.CalledProcessError as error:
        return Built(None, f"{' '.join(command)} failed: {_error_line(error.stderr)}")
    except (OSError, subprocess.TimeoutExpired) as error:
        return Built(None, f"cannot build or load them: {error}")


def _open(recipe: _Recipe, command: list[str], version: str) -> ctypes.CDLL:
    """Load the library from the cache, even from one that is read-only; what is missing or damaged is built."""
    name = _name(recipe, command, version)
    folder = _cache_folder()
    if _is_whole(folder / name):
        with contextlib.suppress(OSError):  # it is as it was made, but does not load any more
            return ctypes.CDLL(str(folder / name))
        with contextlib.suppress(OSError):
            (folder / name).unlink()
    if not _can_write(folder):
        with tempfile.TemporaryDirectory(prefix="rela-kernels-") as scratch:  # a loaded library needs its file no more
            return ctypes.CDLL(str(_build(recipe, command, Path(scratch))))
    return ctypes.CDLL(str(_compiled(recipe, command, folder / name)))


def _name(recipe: _Recipe, command: list[str], version: str) -> str:
    """Of the library's file: everything that decides what is in it."""
    source = recipe.source
    flags = (flag for part in (*recipe.parts, recipe.link) for flag in part)
    parts = (source.read_text(), *command, version, *_FLAGS, *flags, recipe.needs, platform.machine(), _cpu_flags())
    return f"{source.stem}-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:20]}.so"


def _compiled(recipe: _Recipe, command: list[str], path: Path) -> Path:
    with _turn(path.with_suffix(".lock")):  # of two processes that want it, one builds
        if not _is_whole(path):
            prefix = f"{path.stem}."
            for left in path.parent.glob(f"{prefix}*/"):  # by one that was killed
                shutil.rmtree(left, ignore_errors=True)
            with tempfile.TemporaryDirectory(dir=path.parent, prefix=prefix) as scratch:
                partial = _build(recipe, command, Path(scratch))
                _seal(partial)
                partial.replace(path)  # at once, when it is whole
    return path


def _seal(path: Path) -> None:
    """End the file with a digest of what is in it. The loader does not look behind its sections."""
    with path.open("r+b") as file:
        digest = hashlib.sha256(file.read()).digest()
        file.write(digest)
        file.flush()
        os.fsync(file.fileno())


def _is_whole(path: Path) -> bool:
    """True if the file ends with the digest of what comes before: loading half a library would kill the process."""
    try:
        content = path.read_bytes()
    except OSError:
        return False
    return hashlib.sha256(content[:-_DIGEST_BYTES]).digest() == content[-_DIGEST_BYTES:]


def _build(recipe: _Recipe, command: list[str], scratch: Path) -> Path:
    if len(recipe.parts) > 1 and sys.stderr.isatty():
        sys.stderr.write("rela: compiling the CPU kernels for this machine, once; half a minute ...\n")
    objects = [scratch / f"{number}.o" for number in range(len(recipe.parts))]
    with contextlib.ExitStack() as stack:
        running = [
            stack.enter_context(
                subprocess.Popen(
                    [*command, *_FLAGS, *part, "-c", str(recipe.source), "-o", str(made)],
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    text=True,
                    start_new_session=True,  # a compiler has helpers, which have to end with it
                )
            )
            for part, made in zip(recipe.parts, objects, strict=True)
        ]
        for process in running:
            stack.callback(_end_group, process)
        for process in running:
            _, errors = process.communicate(timeout=_TIMEOUT_SECONDS)
            if process.returncode:
                raise subprocess.CalledProcessError(process.returncode, process.args, stderr=errors)
    library = scratch / "library.so"
    link = [*command, "-shared", *_FLAGS, *map(str, objects), "-o", str(library), *recipe.link]
    subprocess.run(link, capture_output=True, text=True, check=True, timeout=_TIMEOUT_SECONDS)
    if not library.is_file():
        raise OSError(f"{' '.join(command)} made no file: is it a C compiler?")
    return library


def _end_group(process: subprocess.Popen[str]) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


@contextlib.contextmanager
def _turn(path: Path) -> Generator[None]:
    """Wait for whoever is at it; the system lets go of the lock when its process ends, however it ends."""
    with path.open("w") as file:
        with contextlib.suppress(OSError):  # a file system without locks: both build, and the rename is one step
            fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _cache_folder() -> Path:
    """RELA_CACHE, or the user's cache; it may not be there."""
    chosen = os.environ.get("RELA_CACHE")
    base = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rela"
    return base / "kernels"


def _can_write(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        chosen = os.environ.get("RELA_CACHE")
        if chosen:
            raise OSError(f"RELA_CACHE={chosen}: {error.strerror}; choose a folder that can be written") from None
        return False
    return os.access(folder, os.W_OK)


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
