"""What the attentions and the layers of our Transformer give, kept for the outputs of transformers."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Sequence
from typing import Any

from torch import Tensor, nn

from rela.attention.heads import Heads, Observation
from rela.attention.multihead import MultiheadAttention


@contextlib.contextmanager
def watched_weights(modules: Sequence[MultiheadAttention], wanted: bool) -> Generator[list[Tensor]]:
    """The weights ``[B, H, Tq, Tk]`` of each module, in order; none if they are not wanted."""
    found: list[Tensor] = []

    def look(_: Heads, seen: Observation) -> None:
        found.append(seen.weights)

    handles = [module.register_observer(look, scores=False) for module in modules] if wanted else []
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()


@contextlib.contextmanager
def watched_states(layers: nn.ModuleList, wanted: bool) -> Generator[list[Tensor]]:
    """What goes into the first layer, and what comes out of each; none if they are not wanted."""
    found: list[Tensor] = []
    if not wanted:
        yield found
        return

    def before(_: nn.Module, arguments: Any) -> None:
        found.append(arguments[0])

    def after(_: nn.Module, __: Any, output: Any) -> None:
        found.append(output)

    handles = [layers[0].register_forward_pre_hook(before), *(layer.register_forward_hook(after) for layer in layers)]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()
