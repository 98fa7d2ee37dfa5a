"""The Triton kernels: when they are chosen, that they compile for GPUs, and a run of the tests in their interpreter."""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.attention.helpers import kernel, make_inputs, raises_naming
from torch import Tensor

from rela.attention import kernels
from rela.attention.functional import relu_attention
from rela.attention.kernels import gpu
from rela.attention.kernels.relu import Inputs, Options

ROOT = Path(__file__).parents[2]
needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")


def _python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    settings = {name: value for name, value in os.environ.items() if not name.startswith(("TRITON_", "RELA_KERNEL"))}
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=settings | environment, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
@needs_triton
def test_in_the_interpreter() -> None:
    """Outputs, gradients, masks, dropout and the rest: see triton_interpreted.py."""
    file = "tests/attention/triton_interpreted.py"
    done = _python("-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", file, TRITON_INTERPRET="1")
    assert done.returncode == 0, done.stdout + done.stderr


# ---------------------------------------------------------------------- when they are chosen


def test_triton_is_not_imported_unless_it_is_wanted() -> None:
    code = (
        "import sys, torch, rela\n"
        "rela.functional.relu_attention(*torch.randn(3, 1, 2, 5, 4))\n"
        "assert 'triton' not in sys.modules"
    )
    done = _python("-c", code)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def _without_triton(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing can import triton, and what was imported before is forgotten."""
    for name in [name for name in sys.modules if name.startswith("rela.attention.kernels.triton")]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("triton_relu", "triton_blocks"):
        monkeypatch.delattr(f"rela.attention.kernels.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "triton", None)
    gpu.load.cache_clear()
    yield
    gpu.load.cache_clear()


@pytest.mark.usefixtures("_without_triton")
def test_without_triton() -> None:
    inputs = make_inputs(dtype=torch.float32)
    with kernel("triton"):
        raises_naming(lambda: relu_attention(*inputs), "RELA_KERNEL", "not installed", "pip install triton", "unset")
        raises_naming(kernels.describe, "RELA_KERNEL=triton", "not installed", "unset")
    with kernel(""):
        states = {choice.name: choice for choice in kernels.describe()}
    assert not states["triton"].available
    assert "pip install triton" in states["triton"].reason


@needs_triton
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu() -> None:
    inputs = make_inputs(dtype=torch.float32)
    with kernel("triton"):
        raises_naming(
            lambda: relu_attention(*inputs), "RELA_KERNEL=triton", "on the CPU", "TRITON_INTERPRET=1", "unset"
        )
        raises_naming(kernels.describe, "RELA_KERNEL=triton", "no GPU", "TRITON_INTERPRET=1", "unset")
        # what it never takes goes on as before
        assert relu_attention(*inputs.each(Tensor.double)).dtype == torch.float64
        torch.compile(relu_attention, backend="eager", fullgraph=True)(*inputs)
    with kernel(""):
        states = {choice.name: choice for choice in kernels.describe()}
    assert not states["triton"].available
    assert "no GPU" in states["triton"].reason


@needs_triton
def test_the_interpreter_must_be_asked_for_in_time() -> None:
    code = (
        "import os, triton.language\n"
        "os.environ['TRITON_INTERPRET'] = '1'\n"
        "from rela.attention.kernels import gpu\n"
        "print(gpu.state())"
    )
    done = _python("-c", code)
    assert "before Python starts" in done.stdout, done.stdout + done.stderr


# ---------------------------------------------------------------------- the compiler's word for real GPUs


class _Driver:
    """As much of a GPU's driver as compiling asks for."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def get_current_target(self) -> Any:
        return self._target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0


@needs_triton
@pytest.mark.parametrize(
    ("backend", "architecture", "warp_size", "binary", "shared_memory"),
    [
        ("cuda", 80, 32, "cubin", 99 << 10),  # what sm_86, sm_89 and sm_120 have, the least of their time
        pytest.param("cuda", 90, 32, "cubin", 99 << 10, marks=pytest.mark.slow),
        pytest.param("hip", "gfx942", 64, "hsaco", 64 << 10, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("d", [64, pytest.param(128, marks=pytest.mark.slow)])
def test_they_compile_for_gpus(
    backend: str,
    architecture: int | str,
    warp_size: int,
    binary: str,
    shared_memory: int,
    dtype: torch.dtype,
    d: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The very calls that a GPU would get, up to the machine code, which nobody here can run."""
    import triton  # pyright: ignore[reportMissingImports]
    from triton.backends.compiler import GPUTarget  # pyright: ignore[reportMissingImports]
    from triton.runtime import driver  # pyright: ignore[reportMissingImports]

    from rela.attention.kernels import triton_blocks
    from rela.attention.kernels.triton_relu import TritonKernel

    compiled: list[Any] = []
    run = triton.JITFunction.run

    def compile_only(function: Any, *arguments: Any, grid: Any, warmup: bool, **options: Any) -> None:
        assert not warmup
        compiled.append(run(function, *arguments, grid=grid, warmup=True, **options))

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(driver, "_active", _Driver(GPUTarget(backend, architecture, warp_size)))
    monkeypatch.setattr(triton.JITFunction, "run", compile_only)
    monkeypatch.setattr(torch.version, "hip", "7.0" if backend == "hip" else None)
    for function in (triton_blocks.forward, triton_blocks.backward_queries, triton_blocks.backward_keys):
        function.device_caches.clear()  # kept by the number of the device, which is always 0 here  # pyright: ignore[reportFunctionMemberAccess]

    query, key, value = make_inputs(100, 100, d, dtype=dtype).each(Tensor.detach)
    allowed = torch.ones(2, 1, 1, 100, dtype=torch.bool)
    inputs = Inputs(query, key, value, torch.zeros(2, 1, 1), allowed, torch.zeros(1, 1, 100, 100, dtype=dtype))
    options = Options(0.1, 0.0, 0, 0.1, torch.tensor(2**60))
    grad = torch.zeros(query.shape)
    TritonKernel().forward(inputs, options)
    TritonKernel().backward(grad, inputs, options)
    assert [made.metadata.name for made in compiled] == ["forward", "backward_queries", "backward_keys"]
    for made in compiled:
        assert made.asm[binary]
        assert made.metadata.shared <= shared_memory
        assert "scf.if" in made.asm["ttgir"]  # skipping is a branch, not a selection
