"""Small models with random weights, large enough for varied outputs."""

from typing import Any

import torch
from torch import Tensor

from rela.model.config import Attentions, ModelConfig
from rela.model.transformer import Transformer


def small_config(attention: str | Attentions = "rela-g", **changes: Any) -> ModelConfig:
    fields: dict[str, Any] = {
        "source_vocabulary": 31,
        "target_vocabulary": 31,
        "dim": 16,
        "num_heads": 4,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "ffn_dim": 24,
        "attention": Attentions.everywhere(attention) if isinstance(attention, str) else attention,
    }
    return ModelConfig(**{**fields, **changes})


def random_model(config: ModelConfig, seed: int = 0, scale: float = 1.0) -> Transformer:
    """Every parameter random, biases and norms too, so that none is a no-op."""
    torch.manual_seed(seed)
    model = Transformer(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale).add_(torch.randn_like(parameter) * 0.1)
    return model.eval()


def random_ids(vocabulary: int, lengths: list[int], *, first: int | None = None, last: int | None = None) -> Tensor:
    """Rows of random pieces, padded; ``first`` and ``last`` take the place of a row's ends."""
    ids = torch.zeros(len(lengths), max(lengths), dtype=torch.long)
    for row, length in enumerate(lengths):
        ids[row, :length] = torch.randint(3, vocabulary, (length,))
        if first is not None:
            ids[row, 0] = first
        if last is not None:
            ids[row, length - 1] = last
    return ids
