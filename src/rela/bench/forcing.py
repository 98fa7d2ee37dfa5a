"""Our decoder with the number of its steps set beforehand, and models of random weights for it.

Speed does not ask what the weights are, but for the share of weights of attention that are zero, which is about half
in untrained models with ReLU attention.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from rela.decoding.search import SearchOptions, beam_search
from rela.model.config import SIZES, Attentions, ModelConfig
from rela.model.transformer import Transformer
from rela.text.batches import pad_rows
from rela.text.vocabulary import EOS

_OPTIONS: Final = {field.name for field in fields(SearchOptions)}


def random_model(attention: str, size: str, vocabulary: int, *, seed: int = 0) -> Transformer:
    """A model of a named size with the weights that a training would start from."""
    torch.manual_seed(seed)
    config = ModelConfig(
        source_vocabulary=vocabulary,
        target_vocabulary=vocabulary,
        attention=Attentions.everywhere(attention),
        **SIZES[size],  # pyright: ignore[reportArgumentType] (they are all sizes)
    )
    return Transformer(config).eval()


def can_decode_in(precision: str) -> bool:
    """Whether this version can."""
    return precision == "float32" or "precision" in _OPTIONS


def force_length(
    model: Transformer, sources: Sequence[Sequence[int]], *, beam: int, length: int, precision: str = "float32"
) -> Callable[[], dict[str, Any]]:
    """The search of these sources (ids without EOS), which takes so many steps for every sentence."""
    padded = torch.from_numpy(pad_rows([np.array(row, np.int64) for row in sources], after=EOS))
    options = forced_options(model, beam=beam, length=length, precision=precision)

    def run() -> dict[str, Any]:
        found = beam_search(model, padded, options)
        return {"lengths": [len(best[0].pieces) + best[0].finished for best in found]}

    return run


def forced_options(model: Transformer, *, beam: int, length: int, precision: str = "float32") -> SearchOptions:
    """Options under which no translation ends before, and all are cut off at this length.

    Where a search has no bounds of its own, the model never ends a translation from now on.
    """
    more: dict[str, Any] = {} if precision == "float32" else {"precision": precision}
    if {"min_length", "max_length"} <= _OPTIONS:
        more["min_length"] = more["max_length"] = length
        return SearchOptions(beam=beam, **more)
    if "logits" not in model.__dict__:
        _never_end(model)
    return _CutAt(beam=beam, most=length, **more)


@dataclass(frozen=True, kw_only=True)
class _CutAt(SearchOptions):
    """For a search without bounds of its own."""

    most: int = 1

    def longest(self, source_length: int) -> int:  # noqa: ARG002 (the same for all)
        return self.most


def _never_end(model: Transformer) -> None:
    """EOS gets no probability from now on."""
    plain = model.logits

    def logits(hidden: Tensor) -> Tensor:
        scores = plain(hidden)
        scores[:, EOS] = -torch.inf
        return scores

    model.logits = logits
