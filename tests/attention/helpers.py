"""What the tests of the attention's mathematics share."""

import contextlib
from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple
from unittest import mock

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from rela.attention.functional import attend, concat_heads
from rela.attention.kernels import blocked, rms, select
from rela.attention.masks import Mask
from rela.attention.naive import naive_attention, naive_norm
from rela.attention.norms import build_norm
from rela.attention.spec import MAPS, NORMS, PRESETS, AttentionSpec, resolve

# Every map with every norm: the presets are among them.
COMBINATIONS = [f"{map_name}+{norm_name}" for map_name in MAPS for norm_name in NORMS]
ROW_MAPS = [name for name in MAPS if not resolve(f"{name}+none").is_pointwise]
POINTWISE_MAPS = [name for name in MAPS if resolve(f"{name}+none").is_pointwise]
PRESET_NAMES = list(PRESETS)


class Inputs(NamedTuple):
    query: Tensor
    key: Tensor
    value: Tensor

    def each(self, function: Callable[[Tensor], Tensor]) -> "Inputs":
        """The results of ``function``."""
        return Inputs(function(self.query), function(self.key), function(self.value))

    def leaves(self, dtype: torch.dtype | None = None) -> "Inputs":
        """The same numbers, in another dtype if one is given, with gradients of their own."""
        return self.each(lambda t: t.detach().to(dtype or t.dtype).requires_grad_())


def make_inputs(
    tq: int = 5,
    tk: int = 7,
    d: int = 4,
    *,
    dv: int | None = None,
    batch: Sequence[int] = (2,),
    heads: int = 2,
    kv_heads: int | None = None,
    size: float = 1.0,
    dtype: torch.dtype = torch.float64,
    seed: int = 0,
) -> Inputs:
    """Random queries, keys and values ``[*batch, heads, T, d]`` that want gradients."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        values = torch.randn(*batch, *shape, generator=generator, dtype=torch.float64) * size
        return values.to(dtype).requires_grad_()

    kv_heads = heads if kv_heads is None else kv_heads
    return Inputs(draw(heads, tq, d), draw(kv_heads, tk, d), draw(kv_heads, tk, d if dv is None else dv))


def draw_mask(*shape: int, seed: int = 0, share: float = 0.6) -> Tensor:
    """A random boolean mask, True at about ``share`` of the places."""
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < share


def norm_parameters(spec: AttentionSpec, dim: int, seed: int = 0) -> dict[str, Tensor]:
    """Random float64 parameters for the norm of ``spec``, none of them at its start."""
    norm = build_norm(spec, dim, dim, dtype=torch.float64)
    generator = torch.Generator().manual_seed(seed)
    names = [] if norm is None else [name for name, _ in norm.named_parameters()]
    return {name: torch.randn(dim, generator=generator, dtype=torch.float64).requires_grad_() for name in names}


def fast(
    inputs: Inputs,
    spec: AttentionSpec,
    parameters: dict[str, Tensor],
    mask: Mask | None = None,
    *,
    threshold: Tensor | float | None = None,
    alpha: Tensor | float = 1.5,
    dropout_p: float = 0.0,
) -> Tensor:
    """The whole attention before the output projection, in the inputs' dtype, by the library."""
    dim = inputs.query.shape[-3] * inputs.value.shape[-1]
    threshold = spec.threshold if threshold is None else threshold
    mask = Mask() if mask is None else mask
    heads = attend(*inputs, spec, mask, threshold=threshold, alpha=alpha, dropout_p=dropout_p).output
    norm = build_norm(spec, dim, inputs.value.shape[-1])
    hidden = concat_heads(heads)
    if norm is not None:
        hidden = torch.func.functional_call(norm, parameters, (hidden,))
    return hidden.to(inputs.query.dtype)


def naive(
    inputs: Inputs,
    spec: AttentionSpec,
    parameters: dict[str, Tensor],
    mask: Mask | None = None,
    *,
    threshold: Tensor | None = None,
    alpha: Tensor | None = None,
) -> Tensor:
    """The same by the definitions, in float64, for ``[B, H, T, d]``."""
    mask = Mask() if mask is None else mask
    tq, tk = inputs.query.shape[-2], inputs.key.shape[-2]
    allowed = mask.all_allowed(tq, tk, torch.device("cpu"))
    heads, _ = naive_attention(*inputs, spec, allowed=allowed, bias=mask.bias, threshold=threshold, alpha=alpha)
    return naive_norm(heads.transpose(1, 2).flatten(2), spec, parameters)


def gradients(output: Tensor, inputs: Sequence[Tensor], seed: int = 1) -> tuple[Tensor, ...]:
    """Gradients of a random weighting of ``output``."""
    weighting = torch.randn(output.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.autograd.grad(output, inputs, weighting.to(output.dtype), materialize_grads=True)


def assert_near(actual: Tensor, expected: Tensor, tolerance: float, *, floor: float = 0.0) -> None:
    """``actual`` is ``expected`` as its own dtype holds it: not NaN, Inf only where ``expected`` is too large for it.

    The tolerance is relative to the largest value that the dtype holds; ``floor`` is an absolute one.
    """
    assert not actual.isnan().any(), "NaN"
    limit = torch.finfo(actual.dtype).max
    expected = expected.double()
    overflows = expected.abs() > limit * (1 - tolerance)  # near the limit either is right
    wrong = actual.isinf() & ~overflows
    assert not wrong.any(), f"Inf where the float64 result is {expected[wrong].tolist()[:3]}"
    inside = ~overflows & ~actual.isinf()
    if inside.any():
        largest = expected[inside].abs().max().item()
        absolute = tolerance * largest + 1e-5 * expected.abs().max().item() + floor  # float32 inside
        torch.testing.assert_close(actual.double()[inside], expected[inside], rtol=tolerance, atol=absolute)


@contextlib.contextmanager
def kernel(name: str) -> Generator[None]:
    """Within it, the named kernel is asked for."""
    with mock.patch.dict("os.environ", {"RELA_KERNEL": name}):
        yield


@contextlib.contextmanager
def small_blocks(elements: int = 12, causal_rows: int = 2, chunk: int = 8) -> Generator[None]:
    """Within it, even tiny inputs take several blocks."""
    with (
        mock.patch.object(blocked, "BLOCK_ELEMENTS", elements),
        mock.patch.object(blocked, "CAUSAL_ROWS", causal_rows),
        mock.patch.object(rms, "CHUNK_ELEMENTS", chunk),
    ):
        yield


class LargestTensor(TorchDispatchMode):
    """Notes the largest number of elements that any operation within it made."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __enter__(self) -> "LargestTensor":
        # The kernels step aside for whoever watches operations; this watcher wants to see them.
        self._hidden = mock.patch.object(select, "_dispatch_mode_active", return_value=False)
        self._hidden.start()
        return super().__enter__()

    def __exit__(self, *args: Any) -> None:
        super().__exit__(*args)
        self._hidden.stop()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        items: list[Any] = list(result) if isinstance(result, tuple | list) else [result]
        for item in items:
            if isinstance(item, Tensor):
                self.elements = max(self.elements, item.untyped_storage().nbytes() // item.element_size())
        return result


def raises_naming(call: Callable[[], object], *words: str) -> None:
    """``call`` raises a ValueError whose message has all the words."""
    with pytest.raises(ValueError) as raised:  # noqa: PT011 (the words below are the match)
        call()
    missing = [word for word in words if word.lower() not in str(raised.value).lower()]
    assert not missing, f"{missing} not in: {raised.value}"
