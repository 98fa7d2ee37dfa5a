"""What a compiled kernel must not be handed: it reads addresses, and nobody below it checks."""

import copy
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from tests.attention.helpers import raises_naming
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.flop_counter import FlopCounterMode

import rela
from rela._machine import find_compiler
from rela.attention.functional import gated_rms_norm, relu_attention
from rela.attention.kernels import build


def _heads(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def _self_attention(x: torch.Tensor) -> torch.Tensor:
    return relu_attention(x, x, x)


def _module() -> rela.MultiheadAttention:
    torch.manual_seed(0)
    return rela.MultiheadAttention(32, 4, batch_first=True)


Q = _heads(1, 2, 9, 8)


@pytest.mark.parametrize("mask", [torch.ones(9, 9, dtype=torch.bool), torch.zeros(9, 9)])
def test_a_mask_on_another_device(mask: torch.Tensor) -> None:
    raises_naming(lambda: relu_attention(Q, Q, Q, mask.to("meta")), "attn_mask", "cpu", "meta", ".to(")
    x = _heads(2, 9, 32)
    raises_naming(lambda: _module()(x, x, x, attn_mask=mask.to("meta")), "attn_mask", "cpu", "meta")
    padding = torch.zeros(2, 9, dtype=torch.bool, device="meta")
    raises_naming(lambda: _module()(x, x, x, key_padding_mask=padding), "key_padding_mask", "cpu", "meta")


def test_keys_or_thresholds_on_another_device() -> None:
    raises_naming(lambda: relu_attention(Q, Q.to("meta"), Q), "key", "cpu", "meta")
    raises_naming(lambda: relu_attention(Q, Q, Q, threshold=torch.zeros(2, device="meta")), "threshold", "meta")


def test_memory_that_is_not_the_modules() -> None:
    module, x = _module(), _heads(2, 5, 32)
    memory = module.project_keys_values(x)
    double = rela.KeyValues(memory.keys.double(), memory.values.double())
    raises_naming(lambda: module.attend(x, double), "memory", "float32", "float64")
    fewer = rela.KeyValues(memory.keys[:, :3], memory.values[:, :3])
    raises_naming(lambda: module.attend(x, fewer), "memory", "(2, 4, 5, 8)", "(2, 3, 5, 8)")
    raises_naming(lambda: module.attend(x[:1], memory), "batch", "2")


def test_tensors_whose_numbers_are_not_in_their_memory() -> None:
    torch.testing.assert_close(relu_attention(torch.ops.aten._neg_view(Q), Q, Q), relu_attention(-Q, Q, Q))
    x, weight = _heads(3, 16), torch.ones(16)
    torch.testing.assert_close(
        gated_rms_norm(torch.ops.aten._neg_view(x), weight, weight), gated_rms_norm(-x, weight, weight)
    )
    leaf = Q.clone().requires_grad_()
    output = relu_attention(leaf, leaf, leaf)
    nothing = torch.ops.aten._efficientzerotensor(output.shape)
    assert torch.autograd.grad(output, leaf, nothing, retain_graph=True)[0].eq(0).all()
    grad = _heads(*output.shape, seed=1)
    (found,) = torch.autograd.grad(output, leaf, torch.ops.aten._neg_view(grad), retain_graph=True)
    torch.testing.assert_close(found, torch.autograd.grad(output, leaf, -grad)[0])


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore:.torch.jit.*deprecated:DeprecationWarning")
def test_traces_compute_and_do_not_remember() -> None:
    module, x, other = _module().eval(), _heads(2, 5, 32), _heads(2, 5, 32, seed=1)
    with torch.no_grad():
        traced: Any = torch.jit.trace(module, (x, x, x), check_trace=False)
        torch.testing.assert_close(traced(other, other, other)[0], module(other, other, other)[0])
    graph = make_fx(_self_attention)(Q)
    new = _heads(*Q.shape, seed=1)
    torch.testing.assert_close(graph(new), relu_attention(new, new, new))


def test_flop_counters_see_the_products() -> None:
    counts: list[int] = []
    for need_weights in (True, False):
        with FlopCounterMode(display=False) as counter:
            x = _heads(2, 5, 32)
            _module()(x, x, x, need_weights=need_weights)
        counts.append(counter.get_total_flops())
    assert counts[0] == counts[1] > 0


def test_threads_with_small_stacks() -> None:
    q = _heads(1, 1, 300, 128).requires_grad_()
    expected = torch.autograd.grad(relu_attention(q, q, q).sum(), q)[0]
    found: list[torch.Tensor] = []
    before, threads = threading.stack_size(256 * 1024), torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        thread = threading.Thread(target=lambda: found.append(relu_attention(q, q, q)))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
        torch.set_num_threads(threads)
    torch.testing.assert_close(torch.autograd.grad(found[0].sum(), q)[0], expected)


def test_hooks_on_the_norm_see_its_input() -> None:
    module, x = _module().eval(), _heads(2, 5, 32)
    seen: list[torch.Tensor] = []
    assert module.norm is not None
    module.norm.register_forward_hook(lambda _, args, output: seen.append(args[0] - output))
    with torch.no_grad():
        module(x, x, x)
    assert seen[0].abs().max() > 0.1


def test_a_watched_model_can_be_copied() -> None:
    module, x = _module().train(), _heads(2, 5, 32)
    penalty = rela.SparsityPenalty(module, 0.5)
    module(x, x, x)
    twin = copy.deepcopy(module)
    twin(x, x, x)
    assert len(penalty._places) == 1  # pyright: ignore[reportPrivateUsage] (the twin is not watched)


def _write_source(folder: Path, number: int) -> Path:
    source = folder / "seven.c"
    source.write_text(f"int seven(void) {{ return {number}; }}\n")
    return source


@pytest.mark.skipif(find_compiler() is None, reason="no C compiler on this machine")
def test_a_broken_library_in_the_cache_is_built_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELA_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CC", raising=False)
    source = _write_source(tmp_path, 7)
    assert build.load.__wrapped__(source).library is not None
    (built,) = (tmp_path / "cache" / "kernels").iterdir()
    built.unlink()  # it is mapped: never write into it
    built.write_bytes(b"junk")
    assert build.load.__wrapped__(source).library is not None


@pytest.mark.skipif(find_compiler() is None, reason="no C compiler on this machine")
def test_another_source_is_another_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELA_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CC", raising=False)
    source = _write_source(tmp_path, 7)
    library = build.load.__wrapped__(source).library
    assert library is not None
    assert library.seven() == 7
    (built,) = (tmp_path / "cache" / "kernels").iterdir()
    assert built.name.startswith("seven-")
    _write_source(tmp_path, 8)  # another text is another library, too
    changed = build.load.__wrapped__(source).library
    assert changed is not None
    assert changed.seven() == 8


def test_a_compiler_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler -m64")
    built = build.load_operators.__wrapped__()
    assert built.library is None
    assert "CC=no-such-compiler -m64" in built.reason


def test_nothing_is_left_behind_where_the_cache_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    occupied = tmp_path / "cache"
    occupied.write_text("a file where the folder should be")
    monkeypatch.delenv("RELA_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(occupied))
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    built = build.load.__wrapped__(_write_source(tmp_path, 7))
    assert built.library is not None, built.reason
    assert list(scratch.iterdir()) == []


def test_alphas_for_which_entmax_is_not_defined() -> None:
    for alpha in (1.0, 0.5, float("nan"), torch.tensor([1.5, 1.0])):
        raises_naming(lambda a=alpha: rela.functional.attention(Q, Q, Q, "entmax", alpha=a), "alpha", "more than 1")


def test_inputs_that_are_no_tensors() -> None:
    rows: Any = Q.tolist()
    with pytest.raises(TypeError, match=r"key: expected a torch\.Tensor, got list"):
        relu_attention(Q, rows, Q)
    with pytest.raises(TypeError, match=r"attn_mask: expected a torch\.Tensor, got list"):
        relu_attention(Q, Q, Q, rows)


@pytest.mark.parametrize("attention", ["rela-g", "relu"])
def test_a_bias_that_the_kernel_cannot_read_is_not_handed_to_it(attention: str) -> None:
    """Without gradients the kernel reads the bias of the projection itself."""
    torch.manual_seed(0)
    module = rela.MultiheadAttention(8, 2, attention=attention, batch_first=True)
    x, bias = _heads(1, 4, 8), torch.randn(24)
    others = {n: p for n, p in module.named_parameters() if n != "in_proj_bias"}

    def run(bias: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            parameters = {**others, "in_proj_bias": bias}
            return torch.func.functional_call(module, parameters, (x, x, x), {"need_weights": False})[0]

    torch.testing.assert_close(run(torch.complex(bias, -bias).conj().imag), run(bias))
    for wrong in (bias.bfloat16(), bias.double(), bias.to("meta")):
        module.in_proj_bias = torch.nn.Parameter(wrong)
        with pytest.raises((RuntimeError, ValueError)), torch.no_grad():
            module(x, x, x, need_weights=False)


@pytest.mark.parametrize("size", [1e4, 3e3, 1.0])
@pytest.mark.parametrize("length", [9, 128])
def test_softmax_gradients_at_large_scores(size: float, length: int) -> None:
    """Where torch's fused kernel loses them."""
    torch.manual_seed(0)
    x = (torch.randn(1, 2, length, 8) * size).requires_grad_()
    wide = x.detach().double().requires_grad_()
    grads = [
        torch.autograd.grad(rela.functional.attention(t, t, t, "softmax", need_weights=False)[0].sum(), t)[0]
        for t in (x, wide)
    ]
    torch.testing.assert_close(grads[0].double(), grads[1], rtol=1e-3, atol=1e-3)
    half = rela.MultiheadAttention(32, 4, batch_first=True, attention="softmax").half()
    y = (torch.randn(2, length, 32) * size).half().requires_grad_()
    half(y, y, y, need_weights=False)[0].sum().backward()
    assert y.grad is not None
    assert y.grad.isfinite().all()


def test_a_norm_of_ones_own_works_without_gradients() -> None:
    class Doubled(rela.RMSNorm):
        def forward(self, x: torch.Tensor) -> torch.Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
            return super().forward(x) * 2

    module, x = _module(), _heads(2, 9, 32)
    module.norm = Doubled(32)
    with torch.no_grad():
        got = module(x, x, x)[0]
    torch.testing.assert_close(got, module(x, x, x)[0])


def test_hooks_on_all_modules_see_the_norms_input() -> None:
    module, x = _module(), _heads(2, 9, 32)
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []

    def keep(which: torch.nn.Module, inputs: Any) -> None:
        if which is module.norm:
            seen.append((inputs[0], inputs[0].clone()))

    handle = torch.nn.modules.module.register_module_forward_pre_hook(keep)
    try:
        with torch.no_grad():
            module(x, x, x)
    finally:
        handle.remove()
    torch.testing.assert_close(*seen[0], rtol=0, atol=0)


def test_wrong_memories_and_caches() -> None:
    module, x = _module(), _heads(2, 5, 32)
    keys, values = module.project_keys_values(x)
    for wrong in ((keys, values), None, [1]):
        if wrong is not None:
            with pytest.raises(TypeError, match=r"memory: expected rela\.KeyValues, got.*project_keys_values"):
                module.step(x, wrong)  # pyright: ignore[reportArgumentType]
        with pytest.raises(TypeError, match=r"memory: expected rela\.KeyValues, got.*project_keys_values"):
            module.attend(x, wrong)  # pyright: ignore[reportArgumentType]
    raises_naming(lambda: module.step(x[:1], rela.KeyValues(keys, values)), "memory", "(1, 4, 5, 8)", "(2, 4, 5, 8)")
    raises_naming(lambda: module.step(x[0]), "query", "[B, T, 32]", "(5, 32)", "batch")
    for call in (module.project_keys_values, module.step):
        with pytest.raises(TypeError, match=r"expected a torch\.Tensor, got list"):
            call([1])  # pyright: ignore[reportArgumentType]


def test_numbers_and_types_that_make_no_sense() -> None:
    anything: Any = "a"
    number: Any = numpy.float32(0.1)
    assert rela.MultiheadAttention(16, 4, dropout=number).dropout == pytest.approx(0.1)
    raises_naming(lambda: rela.MultiheadAttention(16, 4, dropout=anything), "dropout", "probability", "'a'")
    raises_naming(lambda: rela.MultiheadAttention(16, 4, dtype=torch.int32), "dtype", "float", "int32")
    raises_naming(lambda: relu_attention(Q, Q, Q, dropout_p=anything), "dropout_p", "probability", "'a'")
    for threshold in (anything, float("nan")):
        raises_naming(lambda t=threshold: relu_attention(Q, Q, Q, threshold=t), "threshold", "finite number")
    raises_naming(lambda: rela.functional.attention(Q, Q, Q, "entmax", alpha=anything), "alpha", "more than 1")
    raises_naming(lambda: rela.GatedRMSNorm(anything), "dim", "whole number", "'a'")
    raises_naming(lambda: rela.AttentionSpec(map="relu", learn_threshold=anything), "learn_threshold", "True or False")
    with pytest.raises(TypeError, match=r"x: expected a torch\.Tensor, got list"):
        rela.GatedRMSNorm(8)([1.0])
    with pytest.raises(TypeError, match=r"norm: expected a function or module"):
        rela.functional.rela_attention(Q, Q, Q, anything)
    with pytest.raises(TypeError, match=r"module: expected a torch\.nn\.Module, got str"):
        rela.convert(anything)
    with pytest.raises(TypeError, match=r"where: expected kinds.*got 3"):
        rela.convert(torch.nn.Transformer(8, 2, 1, 1, 8, batch_first=True), where=3)  # pyright: ignore[reportArgumentType]


def test_inputs_on_another_device_than_the_module() -> None:
    x = _heads(2, 9, 32).to("meta")
    raises_naming(lambda: _module()(x, x, x), "query", "cpu", "meta", ".to()")
