"""Which kernel runs, and how it is built."""

import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
import torch
from tests.attention.helpers import (
    kernel,
    make_inputs,
    raises_naming,
)
from tests.attention.kernel_helpers import FAST, RELU, needs_compiler

from rela.attention import kernels
from rela.attention.functional import attend, gated_rms_norm, relu_attention
from rela.attention.kernels import build, native
from rela.attention.kernels.blocked import BlockedKernel
from rela.attention.kernels.native import MAX_HEAD_DIM, NativeKernel
from rela.attention.masks import Mask


@needs_compiler
def test_the_choice_follows_the_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RELA_KERNEL", raising=False)

    def chosen(dtype: torch.dtype = torch.float32, d: int = 8, batch: tuple[int, ...] = (2,)) -> type:
        return type(kernels.attention_kernel(*make_inputs(d=d, dtype=dtype, batch=batch)))

    assert chosen() is NativeKernel
    assert chosen(d=MAX_HEAD_DIM) is NativeKernel
    assert chosen(d=MAX_HEAD_DIM + 1) is BlockedKernel
    assert chosen(torch.float64) is BlockedKernel
    assert chosen(torch.bfloat16) is NativeKernel
    assert chosen(torch.float16) is type(None)  # comes here as float32 already
    assert chosen(batch=()) is type(None)
    monkeypatch.setenv("RELA_KERNEL", "blocked")
    assert chosen() is BlockedKernel
    monkeypatch.setenv("RELA_KERNEL", "naive")
    assert chosen() is type(None)


@pytest.mark.parametrize("name", FAST)
def test_the_forced_kernel_is_the_one_that_runs(name: str) -> None:
    inputs = make_inputs(dtype=torch.float32)
    kind = {"blocked": BlockedKernel, "native": NativeKernel}[name]
    with kernel(name), mock.patch.object(kind, "attend", autospec=True, side_effect=kind.attend) as attended:
        attend(*inputs, RELU, Mask())
        assert attended.call_count == 1
    with kernel("naive"), mock.patch.object(kind, "attend", autospec=True, side_effect=kind.attend) as attended:
        attend(*inputs, RELU, Mask())
        assert attended.call_count == 0


@pytest.mark.parametrize("name", ["fast", "Blocked", "Triton"])
def test_an_unknown_kernel_is_refused(name: str) -> None:
    with kernel(name):
        for call in (
            lambda: relu_attention(*make_inputs()),
            lambda: gated_rms_norm(torch.zeros(2, 3), torch.ones(3), torch.ones(3)),
            kernels.describe,
        ):
            raises_naming(call, "RELA_KERNEL", "native", "blocked", "triton", "naive", "unset", name)


def test_an_empty_name_leaves_the_choice_to_us() -> None:
    with kernel(""):
        assert kernels.attention_kernel(*make_inputs()) is not None


@pytest.mark.parametrize("name", ["", "blocked", "naive", pytest.param("native", marks=needs_compiler)])
def test_one_kernel_is_described_as_chosen(name: str) -> None:
    with kernel(name):
        choices = kernels.describe()
    assert [choice.name for choice in choices] == ["native", "blocked", "triton", "naive"]
    chosen = [choice for choice in choices if choice.chosen]
    assert len(chosen) == 1
    assert chosen[0].available
    if name:
        assert chosen[0].name == name
        assert f"RELA_KERNEL={name}" in chosen[0].reason


@pytest.fixture
def _fresh_build() -> Iterator[None]:
    """What was built and said before is forgotten, and what the test builds too."""
    cached = (build.load, build.load_operators, build.notice, native.load)
    for function in cached:
        function.cache_clear()
    yield
    for function in cached:
        function.cache_clear()


@pytest.mark.usefixtures("_fresh_build")
def test_without_a_compiler_the_blocked_kernel_runs_and_says_so_once() -> None:
    inputs = make_inputs(dtype=torch.float32)
    with mock.patch.object(build, "find_compiler", return_value=None), kernel(""):
        with pytest.warns(UserWarning, match=r"no C compiler.*gcc.*RELA_KERNEL=blocked"):
            relu_attention(*inputs)
        relu_attention(*inputs)  # warnings are errors here: it does not warn again
        assert type(kernels.attention_kernel(*inputs)) is BlockedKernel
        choices = {choice.name: choice for choice in kernels.describe()}
    assert choices["blocked"].chosen
    assert not choices["native"].available
    assert "no C compiler" in choices["native"].reason


@needs_compiler
@pytest.mark.usefixtures("_fresh_build")
def test_a_compiler_that_fails_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "native.cpp"
    source.write_text("this is not C++\n")
    monkeypatch.setenv("RELA_CACHE", str(tmp_path))
    monkeypatch.setattr(build, "_OPERATORS", source)
    built = native.load()
    assert built.library is None
    assert "failed" in built.reason
    assert "error" in built.reason
    with kernel(""), pytest.warns(UserWarning, match="failed"):
        relu_attention(*make_inputs(dtype=torch.float32))
    assert not list(tmp_path.glob("kernels/*"))


@pytest.mark.usefixtures("_fresh_build")
def test_a_torch_without_headers_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__file__", str(tmp_path / "__init__.py"))
    assert "without its C++ headers" in native.load().reason


@needs_compiler
@pytest.mark.usefixtures("_fresh_build")
def test_what_was_compiled_is_used_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELA_CACHE", str(tmp_path / "cache"))
    source = tmp_path / "one.c"
    source.write_text("int one(void) { return 1; }\n")
    library = build.load(source).library
    assert library is not None
    assert library.one() == 1
    (file,) = tmp_path.glob("cache/kernels/*")
    written = file.stat().st_mtime_ns
    build.load.cache_clear()
    assert build.load(source).library is not None
    assert [path.stat().st_mtime_ns for path in tmp_path.glob("cache/kernels/*")] == [written]


def _load_in_new_process(source: Path) -> str:
    """Whether a new process loads it: a library that is mapped already cannot be loaded from a damaged file."""
    program = f"""
from pathlib import Path
from rela.attention.kernels import build
made = build._build
def counted(*rest):
    print("built")
    return made(*rest)
build._build = counted
print(build.load(Path({str(source)!r})).library.one())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A small source, and what was made of it in a cache of its own."""
    monkeypatch.setenv("RELA_CACHE", str(tmp_path / "cache"))
    source = tmp_path / "one.c"
    source.write_text("int one(void) { return 1; }\n")
    assert _load_in_new_process(source) == "built\n1\n"
    (file,) = tmp_path.glob("cache/kernels/*")
    return source, file


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("share", [0.0, 0.5, 0.999])
def test_half_a_library_is_built_again(compiled_once: tuple[Path, Path], share: float) -> None:
    """To load it would end the process by a signal."""
    source, file = compiled_once
    whole = file.read_bytes()
    file.write_bytes(whole[: int(share * len(whole))])
    assert _load_in_new_process(source) == "built\n1\n"
    assert _load_in_new_process(source) == "1\n"


@needs_compiler
def test_a_cache_that_is_only_read(compiled_once: tuple[Path, Path]) -> None:
    source, _ = compiled_once
    build.load.cache_clear()
    with mock.patch.object(build, "_can_write", return_value=False), mock.patch.object(build, "_build") as built:
        library = build.load(source).library
    assert library is not None
    assert library.one() == 1
    assert built.call_count == 0


@pytest.mark.slow
@needs_compiler
def test_what_a_killed_build_left_is_removed(compiled_once: tuple[Path, Path]) -> None:
    source, file = compiled_once
    (file.parent / f"{file.stem}.killed").mkdir()
    file.unlink()
    assert _load_in_new_process(source) == "built\n1\n"
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize("scale", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", ["naive", *FAST])
def test_a_scale_that_is_no_number(name: str, scale: float) -> None:
    with kernel(name), pytest.raises(ValueError, match="scale: expected a finite number"):
        relu_attention(*make_inputs(dtype=torch.float32), scale=scale)


@pytest.mark.parametrize("name", ["blocked", "naive"])
def test_a_kernel_that_is_not_wanted_is_not_tried(name: str) -> None:
    with kernel(name):
        choices = {choice.name: choice for choice in kernels.describe()}
    assert choices["native"].available is None
    assert "not tried" in choices["native"].reason
