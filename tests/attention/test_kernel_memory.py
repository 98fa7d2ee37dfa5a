"""Kernels never hold a whole matrix of weights."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.attention.helpers import (
    LargestTensor,
    draw_mask,
    kernel,
    make_inputs,
)
from tests.attention.kernel_helpers import FAST

from rela.attention.functional import relu_attention


def _largest(run: Callable[[], object]) -> int:
    with LargestTensor() as seen:
        run()
    return seen.elements


@pytest.mark.parametrize("name", FAST)
@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"dropout_p": 0.1}, {"threshold": 0.3}])
def test_memory_never_grows_with_the_square(name: str, options: dict[str, Any]) -> None:
    length = 2048
    inputs = make_inputs(length, length, 8, batch=(1,), heads=1, dtype=torch.float32)

    def run() -> None:
        relu_attention(*inputs, **options).sum().backward()

    with kernel(name):
        assert _largest(run) <= 1 << 19
    if not options:
        with kernel("naive"):
            assert _largest(run) >= length * length  # so that the measure is known to work


@pytest.mark.parametrize("name", FAST)
def test_memory_with_a_length_power_never_grows_with_the_square(name: str) -> None:
    length = 2048
    inputs = make_inputs(length, length, 8, batch=(1,), heads=1, dtype=torch.float32)
    padding = draw_mask(1, 1, 1, length)

    def run(**options: Any) -> None:
        relu_attention(*inputs, length_power=0.5, **options).sum().backward()

    with kernel(name):
        assert _largest(lambda: run(attn_mask=padding)) <= 1 << 19
        assert _largest(lambda: run(is_causal=True)) <= 1 << 19
