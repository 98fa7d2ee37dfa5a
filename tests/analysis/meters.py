"""All the ways to the sums: in torch, by the compiled meter, and by one that does without AVX-512."""

import ctypes
import functools
import subprocess
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
import torch
from torch import Tensor

import rela.analysis
from rela._machine import find_compiler
from rela.analysis.frame import Frame
from rela.analysis.native import native_library, native_sums
from rela.analysis.sums import Sums, plain_sums

SOURCE: Final = Path(rela.analysis.__file__).with_name("meter.c")
COMPILER: Final = find_compiler()

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler on this machine")


def flags_for(path: str) -> list[str]:
    """Of a code path: "wide" or "narrow" vectors."""
    return ["-march=native", *(["-mno-avx512f"] if path == "narrow" else [])]


@functools.cache
def narrow_library() -> ctypes.CDLL:
    assert COMPILER is not None
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "narrow.so"
        flags = ["-O2", *flags_for("narrow"), "-fopenmp", "-fPIC", "-shared", "-std=gnu11"]
        subprocess.run([COMPILER.path, *COMPILER.arguments, *flags, str(SOURCE), "-o", str(made), "-lm"], check=True)
        return ctypes.CDLL(str(made))


def wide_sums(weights: Tensor, frame: Frame, taus: Sequence[float]) -> Sums:
    library = native_library()
    assert library is not None
    return native_sums(library, weights, frame, taus)


def narrow_sums(weights: Tensor, frame: Frame, taus: Sequence[float]) -> Sums:
    return native_sums(narrow_library(), weights, frame, taus)


WAYS: Final[dict[str, Callable[[Tensor, Frame, Sequence[float]], Sums]]] = {
    "plain": plain_sums,
    **({"wide": wide_sums, "narrow": narrow_sums} if COMPILER else {}),
}


@contextmanager
def threads(count: int) -> Generator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
