"""Models of transformers with another attention inside, which stays there when they are saved and loaded."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple

import torch
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel

from rela.attention.conversion import Conversion, kind_by_name
from rela.attention.spec import KINDS, AttentionSpec, Kind, resolve
from rela.integrations.huggingface.heads import ATTRIBUTE, NAMES, ConvertedHeads

Chooser = Callable[[str, nn.Module], bool]

IMPLEMENTATION: Final = ATTRIBUTE
"""The attn_implementation of converted models."""
CONFIG_KEY: Final = "rela_attention"
"""In a config: what was converted to what, for those who load the model again."""

_SOFTMAX: Final = resolve("softmax")
_OUTPUTS: Final = ("out_proj", "o_proj", "o", "c_proj", "dense", "wo")
_COUNTS: Final = ("num_heads", "n_heads", "num_attention_heads")


def convert(
    model: PreTrainedModel,
    attention: str | AttentionSpec = "rela-g",
    where: Collection[str] | Chooser = KINDS,
    *,
    report: Callable[[Conversion], object] | None = None,
) -> PreTrainedModel:
    """Swap the attention inside a model of transformers, in place, and return it. All weights are kept.

    Args:
        model: any model whose attention goes through transformers' AttentionInterface, which all current ones do.
        attention: a preset's name, ``map+norm``, or an :class:`rela.AttentionSpec`. Without a scale of its own it has
            the model's.
        where: which kinds: any of "encoder" (encoder self-attention), "decoder" (decoder self-attention; all of a
            decoder-only model) and "cross"; or a function of (name, module) that says yes or no.
        report: called with a :class:`rela.attention.Conversion` for each swap.

    What the attention brings (the norm, say) becomes a submodule ``rela`` of each attention, with parameters that can
    be trained, in a frozen model too. The model's config remembers all of it: after `save_pretrained`,
    `from_pretrained` gives the same model again, if `rela.integrations.huggingface` has been imported; else it is an
    error.

    >>> model = convert(MarianMTModel(config), "rela-g", where={"decoder", "cross"})
    """
    if not isinstance(model, PreTrainedModel):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(
            f"model: expected a transformers.PreTrainedModel, got {type(model).__name__}; for torch's own modules use "
            "rela.convert"
        )
    spec = resolve(attention)
    places = list(attentions_of(model))
    if not places:
        raise ValueError(f"model: expected attentions of transformers inside, got {type(model).__name__} without any")
    entry = _entry(spec, places, where)
    chosen = [place for place in places if _is_meant(entry, place.name, place.kind, model.base_model_prefix)]
    if not chosen:
        found = ", ".join(f"{place.name} ({place.kind})" for place in places)
        raise ValueError(
            f"where: expected to choose at least one attention, got {where!r}, which chooses none: {found}"
        )
    for place in chosen:
        before = getattr(place.module, ATTRIBUTE, None)
        heads = _attach(place, spec)
        if report is not None:
            new = sum(parameter.numel() for parameter in heads.own_parameters().values())
            name = "softmax" if before is None else before.attention.name
            report(Conversion(place.name, place.kind, name, spec.name, new))
    entries = [*getattr(model.config, CONFIG_KEY, ()), entry]
    _remember(model, entries)
    model.set_attn_implementation(IMPLEMENTATION)
    return model


class Place(NamedTuple):
    """An attention of a model: its name, its kind, and its sizes."""

    name: str
    module: nn.Module
    kind: Kind
    num_heads: int
    head_dim: int


def attentions_of(model: nn.Module) -> Iterator[Place]:
    """All attentions that transformers' interface serves, in the order of the modules."""
    for name, module in model.named_modules():
        sizes = _sizes(module)
        if sizes is not None:
            yield Place(name, module, _kind(name, module), *sizes)


def _sizes(module: nn.Module) -> tuple[int, int] | None:
    """Heads and their size; None if this is no attention, or one of no known form."""
    config = getattr(module, "config", None)
    if "Attention" not in type(module).__name__ or not isinstance(config, PreTrainedConfig):
        return None
    output = next((found for name in _OUTPUTS if (found := getattr(module, name, None)) is not None), None)
    if output is None or not isinstance(getattr(output, "weight", None), torch.Tensor):
        return None
    inside = getattr(output, "in_features", None) or output.weight.shape[0]  # of a Conv1D: [in, out]
    holders = (module, config)
    heads = next((found for one in holders for name in _COUNTS if (found := getattr(one, name, None))), None)
    return None if heads is None or inside % heads else (int(heads), int(inside) // int(heads))


def _kind(name: str, module: nn.Module) -> Kind:
    if getattr(module, "is_cross_attention", False):
        return "cross"
    by_name = kind_by_name(name)
    if by_name is not None:
        return by_name
    return "decoder" if getattr(module, "is_causal", True) else "encoder"


def _entry(spec: AttentionSpec, places: list[Place], where: Collection[str] | Chooser) -> dict[str, Any]:
    """For the config: the attention, and what has it."""
    description = {key: value for key, value in dataclasses.asdict(spec).items() if value != _DEFAULTS.get(key)}
    if callable(where):
        names = [place.name for place in places if where(place.name, place.module)]
        return {"attention": description, "modules": names}
    wanted = {where} if isinstance(where, str) else set(where)
    if not wanted or not wanted <= set(KINDS):
        raise ValueError(f"where: expected kinds out of {', '.join(KINDS)}, or a function; got {sorted(wanted)}")
    return {"attention": description, "kinds": [kind for kind in KINDS if kind in wanted]}


_DEFAULTS: Final = {
    field.name: field.default for field in dataclasses.fields(AttentionSpec) if field.default is not dataclasses.MISSING
}


def _is_meant(entry: Mapping[str, Any], name: str, kind: Kind, prefix: str) -> bool:
    """Whether an entry is about a module: a model with a head on it has the same modules behind a prefix."""
    if "kinds" in entry:
        return kind in entry["kinds"]
    others = (name, name.removeprefix(f"{prefix}."), f"{prefix}.{name}")
    return any(one in entry["modules"] for one in others)


def _attach(place: Place, spec: AttentionSpec) -> ConvertedHeads:
    """New ones, unless the module has the same already. They are where the module's weights are."""
    module, present = place.module, getattr(place.module, ATTRIBUTE, None)
    if isinstance(present, ConvertedHeads) and present.attention == spec:
        return present
    like = next(parameter for parameter in module.parameters() if parameter.is_floating_point())
    heads = ConvertedHeads(spec, place.num_heads, place.head_dim, device=like.device, dtype=like.dtype)
    if isinstance(present, ConvertedHeads):
        heads.share_observers(present)
    else:
        module.register_forward_pre_hook(_check_implementation)
    setattr(module, ATTRIBUTE, heads.train(module.training))
    return heads


def specs_of(model: PreTrainedModel) -> Iterator[tuple[Place, AttentionSpec]]:
    """What each attention of a converted model computes; those that were left as they are, softmax."""
    for place in attentions_of(model):
        heads = getattr(place.module, ATTRIBUTE, None)
        yield place, heads.attention if isinstance(heads, ConvertedHeads) else _SOFTMAX


def attach_softmax(model: PreTrainedModel) -> None:
    """Heads for those attentions of a converted model that were not converted: they compute the same, and show it."""
    for place, spec in specs_of(model):
        _attach(place, spec)


def _check_implementation(module: nn.Module, _: Any) -> None:
    check_name(module.config)  # pyright: ignore[reportArgumentType]


def check_name(config: PreTrainedConfig) -> None:
    """Another implementation would leave out what a model was converted to, and nobody would notice."""
    name = config._attn_implementation  # pyright: ignore[reportPrivateUsage]
    if name not in NAMES:
        raise ValueError(
            f"attn_implementation: expected {IMPLEMENTATION!r}, since the model was converted to another attention by "
            f"rela, got {name!r}, which would compute softmax; leave attn_implementation out, or use "
            f"model.set_attn_implementation({IMPLEMENTATION!r})"
        )


def _remember(model: PreTrainedModel, entries: list[dict[str, Any]]) -> None:
    """In the configs of a model and of its parts. ``attn_implementation`` is not saved by itself."""
    for part in model.modules():
        if isinstance(part, PreTrainedModel):
            setattr(part.config, CONFIG_KEY, entries)
            part.config.attn_implementation = IMPLEMENTATION


def restore(model: PreTrainedModel) -> None:
    """Give a model that was just built what its config remembers, before its weights are loaded."""
    entries = getattr(model.config, CONFIG_KEY, None)
    if not entries:
        return
    check_name(model.config)
    for entry in entries:
        spec = resolve(AttentionSpec(**entry["attention"]))
        for place in attentions_of(model):
            if _is_meant(entry, place.name, place.kind, model.base_model_prefix):
                _attach(place, spec)
    model.config.attn_implementation = IMPLEMENTATION
