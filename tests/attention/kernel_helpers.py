"""What the tests of the kernels share: which there are, and their results beside those of the plain formulas."""

from typing import Any

import pytest
import torch
from tests.attention.helpers import (
    Inputs,
    gradients,
    kernel,
)
from torch import Tensor

from rela._machine import find_compiler
from rela.attention.functional import attend
from rela.attention.masks import Mask
from rela.attention.spec import resolve

needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="no C compiler on this machine")
FAST = ["blocked", pytest.param("native", marks=needs_compiler)]
RELU = resolve("relu")


def dtype_of(name: str) -> torch.dtype:
    return torch.float32 if name == "native" else torch.float64


def tolerances(name: str) -> dict[str, Any]:
    return {"rtol": 1e-4, "atol": 1e-4} if name == "native" else {"rtol": 1e-9, "atol": 1e-9}


def results(name: str, inputs: Inputs, mask: Mask, threshold: Tensor | float = 0.0, **options: float) -> list[Tensor]:
    """Output and gradients by the named kernel."""
    spec = resolve("relu", **options)
    learned = [threshold] if isinstance(threshold, Tensor) else []
    with kernel(name):
        output = attend(*inputs, spec, mask, threshold=threshold).output
        return [output, *gradients(output, [*inputs, *learned])]


def plain_results(inputs: Inputs, mask: Mask, threshold: Tensor | float = 0.0, **options: float) -> list[Tensor]:
    """The same by the plain formulas in float64."""
    double = inputs.leaves(torch.float64)
    if isinstance(threshold, Tensor):
        threshold = threshold.detach().double().requires_grad_()
    if mask.bias is not None:
        mask = mask._replace(bias=mask.bias.double())
    return results("naive", double, mask, threshold, **options)


def assert_same(name: str, actual: list[Tensor], expected: list[Tensor]) -> None:
    for a, b in zip(actual, expected, strict=True):
        assert a.shape == b.shape
        scale = max(1.0, b.abs().max().item()) if b.numel() else 1.0
        torch.testing.assert_close(a.double() / scale, b / scale, **tolerances(name))
