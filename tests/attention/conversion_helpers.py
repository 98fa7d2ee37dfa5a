"""What the tests of rela.convert share: models of torch's, and what attentions are in them."""

import warnings
from typing import Any

import pytest
import torch
from tests.attention.module_helpers import (
    inputs,
    padding,
    randomise,
)
from torch import nn

import rela

D, H = 16, 4
LENGTHS = (7, 4, 1)
PADDING = padding(*LENGTHS)
# torch warns that nested tensors are a prototype, and about layers that cannot use them.
ignore_nested_warnings = pytest.mark.filterwarnings("ignore:.*nested.*:UserWarning")


def encoder_layer(num_heads: int = H, **options: Any) -> nn.TransformerEncoderLayer:
    settings: dict[str, Any] = {"batch_first": True, "dropout": 0.0, "dtype": torch.float64} | options
    layer = nn.TransformerEncoderLayer(D, num_heads, 24, **settings)
    randomise(layer)
    return layer


def encoder(num_layers: int = 2, nested: bool = True, **options: Any) -> nn.TransformerEncoder:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = nn.TransformerEncoder(encoder_layer(**options), num_layers, enable_nested_tensor=nested)
    randomise(model)
    return model


def transformer(**options: Any) -> nn.Transformer:
    settings: dict[str, Any] = {"batch_first": True, "dropout": 0.0, "dtype": torch.float64} | options
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = nn.Transformer(D, H, 2, 2, 24, **settings)
    randomise(model)
    return model


def attentions(module: nn.Module) -> dict[str, str]:
    """What each attention of a model is, by name."""
    found: dict[str, str] = {}
    for name, child in module.named_modules(remove_duplicate=False):
        if isinstance(child, rela.MultiheadAttention):
            found[name] = child.attention.name
        elif isinstance(child, nn.MultiheadAttention):
            found[name] = "torch"
    return found


def randomise_own(module: rela.MultiheadAttention) -> None:
    """Also thresholds, alphas and gates away from where they start."""
    with torch.no_grad():
        for parameter in module.own_parameters().values():
            parameter.add_(inputs(*parameter.shape, seed=5) * 0.2)


def sized(attention: str) -> rela.MultiheadAttention:
    """One attention of the models' size."""
    return rela.MultiheadAttention(D, H, batch_first=True, dtype=torch.float64, attention=attention)
