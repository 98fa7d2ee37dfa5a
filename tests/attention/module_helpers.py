"""What the tests of the attention module share: twins of torch's module, a reference by hand, masks, inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import rela
from rela.attention import PRESETS
from rela.attention.naive import naive_attention, naive_norm

ALL_PRESETS = tuple(PRESETS)
LEARNED_THRESHOLD = rela.AttentionSpec(map="relu", norm="gated-rmsnorm", threshold=0.1, learn_threshold=True)
EMBED, HEADS = 12, 3


def randomise(module: nn.Module, seed: int = 7) -> None:
    """Draw all parameters anew, so that no bias is 0 and no gain is 1; large enough for clear differences."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            values = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_(values * (0.5 if parameter.dim() > 1 else 0.3))
    for name, parameter in module.named_parameters():
        if name.endswith(("norm.weight", "norm1.weight", "norm2.weight", "norm3.weight")):
            with torch.no_grad():
                parameter.add_(1.0)


def build(attention: str | rela.AttentionSpec = "rela-g", **options: Any) -> rela.MultiheadAttention:
    """A small float64 module with parameters that are nowhere trivial."""
    settings: dict[str, Any] = {"batch_first": True, "dtype": torch.float64} | options
    module = rela.MultiheadAttention(EMBED, HEADS, attention=attention, **settings)
    randomise(module)
    return module


def twins(**options: Any) -> tuple[nn.MultiheadAttention, rela.MultiheadAttention]:
    """torch's module and ours with softmax, with the same parameters."""
    settings: dict[str, Any] = {"dtype": torch.float64} | options
    theirs = nn.MultiheadAttention(EMBED, HEADS, **settings)
    ours = rela.MultiheadAttention(EMBED, HEADS, attention="softmax", **settings)
    randomise(theirs)
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


def inputs(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Normal numbers from a seed."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def padding(*lengths: int, longest: int | None = None) -> Tensor:
    """torch's key_padding_mask: True behind each length."""
    return torch.arange(longest or max(lengths)) >= torch.tensor(lengths)[:, None]


def forbidden_places(*shape: int, seed: int = 3) -> Tensor:
    """A boolean mask that forbids about a third, never the first key."""
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < 0.35
    mask[..., 0] = False
    return mask


def causal(num_queries: int, num_keys: int | None = None) -> Tensor:
    """torch's boolean causal mask, True = not allowed."""
    return torch.ones(num_queries, num_keys or num_queries, dtype=torch.bool).triu(1)


def as_float_mask(mask: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
    """The same mask, additive."""
    return torch.zeros(mask.shape, dtype=dtype).masked_fill(mask, -torch.inf)


def by_hand(
    module: rela.MultiheadAttention,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    allowed: Tensor | None = None,
    bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Output and weights of every head, by the definitions: batch first, float64, no code of the module."""
    named = {name: p.detach().double() for name, p in module.named_parameters()}
    if "in_proj_weight" in named:
        weights = named["in_proj_weight"].chunk(3)
    else:
        weights = [named[f"{which}_proj_weight"] for which in "qkv"]
    biases = named["in_proj_bias"].chunk(3) if "in_proj_bias" in named else (None, None, None)
    size = module.embed_dim // module.num_heads

    def heads(x: Tensor, which: int) -> Tensor:
        projected = F.linear(x.double(), weights[which], biases[which])
        return torch.stack(projected.split(size, dim=-1), dim=1)

    output, attention = naive_attention(
        heads(query, 0),
        heads(key, 1),
        heads(value, 2),
        module.attention,
        allowed=allowed,
        bias=bias,
        threshold=named.get("threshold"),
        alpha=None if "alpha_logit" not in named else 1.01 + 0.99 * torch.sigmoid(named["alpha_logit"]),
    )
    joined = torch.cat(output.unbind(1), dim=-1)
    own = {name.removeprefix("norm."): p for name, p in named.items() if name.startswith("norm.")}
    normed = naive_norm(joined, module.attention, own)
    return F.linear(normed, named["out_proj.weight"], named.get("out_proj.bias")), attention


def gradients(module: nn.Module, loss: Tensor, *tensors: Tensor) -> dict[str, Tensor | None]:
    """The loss's gradients at the module's parameters and some tensors, by name."""
    named = dict(module.named_parameters()) | {f"input {i}": t for i, t in enumerate(tensors)}
    found = torch.autograd.grad(loss, list(named.values()), allow_unused=True)
    return dict(zip(named, found, strict=True))


def assert_same(actual: Mapping[str, Tensor | None], expected: Mapping[str, Tensor | None], tolerance: float) -> None:
    """Equal dictionaries of tensors, with the name of the one that differs."""
    assert actual.keys() == expected.keys()
    for name, want in expected.items():
        got = actual[name]
        if want is None or got is None:
            assert (want is None) == (got is None), name
            continue
        torch.testing.assert_close(
            got, want, rtol=tolerance, atol=tolerance, msg=lambda text, name=name: f"{name}: {text}"
        )


def weighted_sum(*tensors: Tensor | None) -> Tensor:
    """A loss whose gradient is different at every place."""
    total = torch.zeros((), dtype=torch.float64)
    for index, tensor in enumerate(t for t in tensors if t is not None):
        total = total + (tensor * inputs(*tensor.shape, seed=100 + index).to(tensor.dtype)).sum()
    return total


def count(module: nn.Module) -> int:
    """How many numbers a module learns."""
    return sum(p.numel() for p in module.parameters())
