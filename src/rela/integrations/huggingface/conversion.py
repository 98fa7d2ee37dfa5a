"""Models of transformers with another attention inside, which stays there when they are saved and loaded."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from torch import nn
from transformers import PreTrainedModel

from rela._warn import warn
from rela.attention.conversion import Conversion
from rela.attention.spec import KINDS, AttentionSpec, Kind, resolve
from rela.integrations.huggingface.heads import attention_by_name, is_converted
from rela.integrations.huggingface.modules import (
    Place,
    Stranger,
    attentions_of,
    check_served,
    configs_of,
    listed,
    refuse,
    strangers_of,
)
from rela.integrations.huggingface.record import SOFTMAX, heads_of, own_configs, remember, set_attention

Chooser = Callable[[str, nn.Module], bool]


def convert(
    model: PreTrainedModel,
    attention: str | AttentionSpec = "rela-g",
    where: Collection[str] | Chooser = KINDS,
    *,
    report: Callable[[Conversion], object] | None = None,
) -> PreTrainedModel:
    """Swap the attention inside a model of transformers, in place, and return it. All weights are kept.

    Args:
        model: a model whose attentions call transformers' AttentionInterface and project their output themselves.
            Tested: Marian, BART, mBART, M2M100, NLLB, T5, Llama and GPT-2. What cannot be converted is refused, before
            anything is changed; attentions that do not use the interface stay as they are, with a warning.
        attention: a preset's name, ``map+norm``, or an :class:`rela.AttentionSpec`. Without a scale of its own it has
            the model's.
        where: which kinds: any of "encoder" (encoder self-attention), "decoder" (decoder self-attention; all of a
            decoder-only model) and "cross"; or a function of (name, module) that says yes or no.
        report: called with a :class:`rela.attention.Conversion` for each swap.

    What the attention brings (the norm, say) becomes a submodule ``rela`` of each attention, with parameters that can
    be trained, in a frozen model too. The model gets a config of its own, which remembers all of it: after
    `save_pretrained`, `from_pretrained` gives the same model again, if `rela.integrations.huggingface` has been
    imported. A model that is softmax again everywhere is as it was.

    >>> model = convert(MarianMTModel(config), "rela-g", where={"decoder", "cross"})
    """
    _check_type(model)
    spec = resolve(attention)
    is_meant = _chooser(where)
    check_served(model)
    places = list(attentions_of(model))
    chosen = [place for place in places if is_meant(place)]
    if not chosen:
        found = ", ".join(f"{place.name} ({place.kind})" for place in places)
        raise ValueError(
            f"where: expected to choose at least one attention, got {where!r}, which chooses none: {found}"
        )
    left = [stranger for stranger in strangers_of(model) if is_meant(stranger)]
    if unknown := [stranger for stranger in left if stranger.is_served]:
        refuse(model, f"others among those that are to be converted, {listed(unknown)}")
    _check_outputs(model)
    own_configs(model)
    before = {place.name: _present(place) for place in places}
    for place in places:
        set_attention(place, spec if place in chosen else before[place.name])
    remember(model)
    if report is not None:
        for place in chosen:
            heads = heads_of(place.module)
            new = 0 if heads is None else sum(p.numel() for p in heads.own_parameters().values())
            report(Conversion(place.name, place.kind, before[place.name].name, spec.name, new))
    if left:
        warn(f"attentions that do not use transformers' AttentionInterface stay as they are, {listed(left)}")
    return model


def _check_type(model: object) -> None:
    if isinstance(model, PreTrainedModel):
        return
    remedy = "for torch's own modules use rela.convert"
    if not isinstance(model, nn.Module):
        remedy = "load one first, with AutoModelForSeq2SeqLM.from_pretrained, say"
    elif any(isinstance(inner, PreTrainedModel) for inner in model.modules()):
        remedy = "convert the base model first, before it is wrapped"
    raise TypeError(f"model: expected a transformers.PreTrainedModel, got {type(model).__name__}; {remedy}")


def _chooser(where: Collection[str] | Chooser) -> Callable[[Place | Stranger], bool]:
    if callable(where):
        return lambda place: bool(where(place.name, place.module))
    wanted = {where} if isinstance(where, str) else where
    # Callers may be untyped.
    if not isinstance(wanted, Collection) or not all(isinstance(kind, str) for kind in wanted):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(
            f"where: expected kinds out of {', '.join(KINDS)}, or a function of (name, module), got {where!r}; leave "
            "it out to convert all"
        )
    kinds = set[Kind | str](wanted)
    if not kinds or not kinds <= set(KINDS):
        raise ValueError(f"where: expected kinds out of {', '.join(KINDS)}, or a function; got {sorted(kinds)}")
    return lambda place: place.kind in kinds


def _check_outputs(model: PreTrainedModel) -> None:
    """transformers neither saves nor loads a config that asks for weights with an attention other than its own."""
    if any(config.output_attentions for _, config in configs_of(model)):
        raise ValueError(
            "config.output_attentions: expected False, since transformers refuses to save it with another attention, "
            "got True; set model.config.output_attentions = False, and ask in each call: "
            "model(..., output_attentions=True)"
        )


def _present(place: Place) -> AttentionSpec:
    """What an attention computes: by what it was converted to, or else by the name that attn_implementation has."""
    heads = heads_of(place.module)
    config: Any = place.module.config
    if heads is not None:
        return heads.attention
    return SOFTMAX if is_converted(config) else attention_by_name(config._attn_implementation) or SOFTMAX
