"""Our decoder with the number of its steps set beforehand, and models of random weights for it.

Speed does not ask what the weights are, but for the share of weights of attention that are zero, which is about half
in untrained models with ReLU attention.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import torch

from rela.decoding.packing import Precision
from rela.decoding.search import SearchOptions, beam_search
from rela.model.config import SIZES, Attentions, ModelConfig
from rela.model.transformer import Transformer
from rela.text.batches import pad_rows
from rela.text.vocabulary import EOS

_PRECISIONS: Final[dict[str, Precision]] = {"float32": "fp32", "int8": "int8"}


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


def force_length(
    model: Transformer, sources: Sequence[Sequence[int]], *, beam: int, length: int, precision: str = "float32"
) -> Callable[[], dict[str, Any]]:
    """The search of these sources (ids without EOS), which takes so many steps for every sentence."""
    padded = torch.from_numpy(pad_rows([np.array(row, np.int64) for row in sources], after=EOS))
    options = forced_options(beam=beam, length=length, precision=precision)

    def run() -> dict[str, Any]:
        found = beam_search(model, padded, options)
        return {"lengths": [len(best[0].pieces) + best[0].finished for best in found]}

    return run


def forced_options(*, beam: int, length: int, precision: str = "float32") -> SearchOptions:
    """Options under which no translation ends before this length, and all do there."""
    return SearchOptions(beam=beam, min_length=length, max_length=length, precision=_PRECISIONS[precision])
