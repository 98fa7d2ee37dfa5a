"""The attentions inside models of transformers: which of them can be converted, and what they are."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Final, NamedTuple

import torch
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel

from rela.attention.conversion import kind_by_name
from rela.attention.spec import Kind
from rela.integrations.huggingface.internals import internal

TESTED: Final = "Marian, BART, mBART, M2M100, NLLB, T5, Llama and GPT-2"

_INTERFACE: Final = "ALL_ATTENTION_FUNCTIONS"
"""By this name transformers' attentions call the function that attn_implementation says."""
_OUTPUTS: Final = ("out_proj", "o_proj", "o", "c_proj", "dense", "wo")
_COUNTS: Final = ("num_heads", "n_heads", "num_attention_heads")
_MORE: Final = {"attn_logit_softcapping": "a soft cap on scores", "sinks": "sinks", "indexer": "a choice of keys"}
"""What some attentions do beyond queries, keys and values, by the attribute that they have for it."""
_SHOWN: Final = 3


class Place(NamedTuple):
    """An attention of a model: its name, its kind, and its sizes."""

    name: str
    module: nn.Module
    kind: Kind
    num_heads: int
    head_dim: int


class Stranger(NamedTuple):
    """An attention that cannot be converted, and why."""

    name: str
    module: nn.Module
    kind: Kind
    why: str
    is_served: bool
    """Whether it calls transformers' interface; else it stays as it is, whatever attn_implementation says."""

    def __str__(self) -> str:
        return f"{self.name or 'the model itself'} ({type(self.module).__name__}, {self.why})"


def attentions_of(model: nn.Module) -> Iterator[Place]:
    """All attentions that can be converted, in the order of the modules."""
    for name, module in model.named_modules():
        if _is_served(module) and (sizes := _sizes(module)) is not None:
            yield Place(name, module, _kind(name, module), *sizes)


def strangers_of(model: nn.Module) -> Iterator[Stranger]:
    """All others."""
    for name, module in model.named_modules():
        if _is_served(module):
            if _sizes(module) is None:
                yield Stranger(name, module, _kind(name, module), "whose projection of the output is not found", True)
        elif _is_attention_apart(module):
            yield Stranger(name, module, _kind(name, module), "which does not use AttentionInterface", False)


def check_served(model: PreTrainedModel) -> None:
    """Refuse models of which nothing can be converted, and those whose attentions do more than we compute."""
    for part in model.modules():
        if isinstance(part, PreTrainedModel) and not _can_set(type(part)):
            refuse(model, f"an attention in {type(part).__name__} that attn_implementation does not choose")
    if not any(True for _ in attentions_of(model)):
        strangers = list(strangers_of(model))
        refuse(model, f"none of them{f', but {listed(strangers)}' if strangers else ''}")
    for place in attentions_of(model):
        more = [what for name, what in _MORE.items() if getattr(place.module, name, None) is not None]
        if more:
            refuse(model, f"{type(place.module).__name__} inside, which has {' and '.join(more)} as well")


def refuse(model: nn.Module, got: str) -> None:
    """One message for all that cannot be converted."""
    raise ValueError(
        "model: expected attentions that call transformers' AttentionInterface with queries, keys, values and masks "
        f"alone, and project their output themselves; got {type(model).__name__} with {got}. Tested: {TESTED}"
    )


def configs_of(model: nn.Module) -> list[tuple[PreTrainedModel | None, PreTrainedConfig]]:
    """Each config inside once, with the outermost model that has it; None for those that are no model's."""
    owners: dict[int, tuple[PreTrainedModel | None, PreTrainedConfig]] = {}
    for part in model.modules():
        if isinstance(part, PreTrainedModel):
            owners.setdefault(id(part.config), (part, part.config))
    holders: list[object] = [*model.modules(), *(config for _, config in owners.values())]
    for holder in holders:  # configs have configs inside them
        for value in vars(holder).values():
            if isinstance(value, PreTrainedConfig) and id(value) not in owners:
                owners[id(value)] = (None, value)
                holders.append(value)
    return list(owners.values())


def listed(strangers: list[Stranger]) -> str:
    """How many, and the first ones."""
    more = ", ..." if len(strangers) > _SHOWN else ""
    return f"{len(strangers)}: {', '.join(map(str, strangers[:_SHOWN]))}{more}"


def _can_set(kind: type[PreTrainedModel]) -> bool:
    return internal(kind, "_can_set_attn_implementation", "which says whether an attention can be chosen by name")()


def _is_served(module: nn.Module) -> bool:
    code = getattr(inspect.unwrap(type(module).forward), "__code__", None)
    has_config = isinstance(getattr(module, "config", None), PreTrainedConfig)
    return has_config and code is not None and _INTERFACE in code.co_names


def _is_attention_apart(module: nn.Module) -> bool:
    """By its name; one that merely holds another attention is none."""
    if not _is_named_so(module) or next(module.parameters(), None) is None:
        return False
    return not any(_is_named_so(child) or _is_served(child) for child in module.modules() if child is not module)


def _is_named_so(module: nn.Module) -> bool:
    return "Attention" in type(module).__name__


def _sizes(module: nn.Module) -> tuple[int, int] | None:
    """Heads and their size; None if they are not known."""
    output = next((found for name in _OUTPUTS if isinstance(found := getattr(module, name, None), nn.Module)), None)
    inside = None if output is None else _width(output)
    holders = (module, module.config)
    heads = next((found for one in holders for name in _COUNTS if (found := getattr(one, name, None))), None)
    return None if inside is None or heads is None or inside % heads else (int(heads), inside // int(heads))


def _width(output: nn.Module) -> int | None:
    """What goes into a projection; adapters around it have it inside them."""
    for module in output.modules():
        weight = getattr(module, "weight", None)
        if isinstance(weight, torch.Tensor) and weight.dim() == 2:
            return int(getattr(module, "in_features", None) or weight.shape[0])  # of a Conv1D: [in, out]
    return None


def _kind(name: str, module: nn.Module) -> Kind:
    if getattr(module, "is_cross_attention", False):
        return "cross"
    by_name = kind_by_name(name)
    if by_name is not None:
        return by_name
    return "decoder" if getattr(module, "is_causal", True) else "encoder"
