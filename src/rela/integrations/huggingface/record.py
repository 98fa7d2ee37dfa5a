"""What the config of a converted model remembers of it, and models as their configs say."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any, Final

from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel

from rela.attention.spec import AttentionSpec, resolve
from rela.integrations.huggingface.heads import ATTRIBUTE, IMPLEMENTATION, NAMES, ConvertedHeads, is_converted
from rela.integrations.huggingface.modules import Place, attentions_of, configs_of
from rela.model.directory import CONVERTED_KEY

SAVED_IMPLEMENTATION: Final = "import rela.integrations.huggingface"
"""The attn_implementation in a saved config. transformers refuses a name that it does not know, and says which."""

SOFTMAX: Final = resolve("softmax")
_DEFAULTS: Final = {
    field.name: field.default for field in dataclasses.fields(AttentionSpec) if field.default is not dataclasses.MISSING
}


def heads_of(module: nn.Module) -> ConvertedHeads | None:
    """What an attention was converted to; None if it was not."""
    found = getattr(module, ATTRIBUTE, None)
    return found if isinstance(found, ConvertedHeads) else None


def set_attention(place: Place, spec: AttentionSpec) -> None:
    """New heads, where the module's weights are, unless it has the same already; softmax needs none."""
    module, present = place.module, heads_of(place.module)
    if (SOFTMAX if present is None else present.attention) == spec:
        return
    if spec == SOFTMAX:
        delattr(module, ATTRIBUTE)
        hooks = vars(module)["_forward_pre_hooks"]
        for key in [key for key, hook in hooks.items() if hook is _check_implementation]:
            del hooks[key]
        return
    weights = list(module.parameters())
    dtype = next((weight.dtype for weight in weights if weight.is_floating_point()), None)  # None: all are quantised
    heads = ConvertedHeads(spec, place.num_heads, place.head_dim, device=weights[0].device, dtype=dtype)
    if present is not None:
        heads.share_observers(present)
    else:
        module.register_forward_pre_hook(_check_implementation)
    setattr(module, ATTRIBUTE, heads.train(module.training))


def own_configs(model: nn.Module) -> None:
    """Copies in the place of all configs inside, which other models may have too. Those that were one stay one."""
    copies: dict[int, Any] = {}
    for module in model.modules():
        for name, value in vars(module).items():
            if isinstance(value, PreTrainedConfig):
                vars(module)[name] = copy.deepcopy(value, copies)


def remember(model: PreTrainedModel) -> None:
    """Write into the configs of a model and of its parts what each attention is now."""
    if not record_of(model):
        _forget(model)
        return
    for part, config in configs_of(model):
        setattr(config, CONVERTED_KEY, [] if part is None else record_of(part))
        config.attn_implementation = SAVED_IMPLEMENTATION  # this one is saved
        config._attn_implementation_internal = IMPLEMENTATION  # pyright: ignore[reportPrivateUsage] (and this one is used)


def remember_anew(model: PreTrainedModel) -> None:
    """For a model that is to be saved: a part of it, or a whole that it is part of, may have been converted alone."""
    if getattr(model.config, CONVERTED_KEY, []) != record_of(model):
        own_configs(model)
        remember(model)


def record_of(model: nn.Module) -> list[dict[str, Any]]:
    """Each attention that is inside, and the names of the modules that have it."""
    names: dict[AttentionSpec, list[str]] = {}
    for name, module in model.named_modules():
        if (heads := heads_of(module)) is not None:
            names.setdefault(heads.attention, []).append(name)
    return [{"attention": _described(spec), "modules": modules} for spec, modules in names.items()]


def restore(model: PreTrainedModel) -> None:
    """Give a model that was just built what its config remembers, before its weights are loaded."""
    if not is_converted(model.config):
        return
    check_name(model.config)
    meant, prefix = _read(model.config), f"{model.base_model_prefix}."
    for place in attentions_of(model):
        for name in (place.name, place.name.removeprefix(prefix), prefix + place.name):  # with a head on it, or without
            if name in meant:
                set_attention(place, meant[name])
                break
    for _, config in configs_of(model):
        setattr(config, CONVERTED_KEY, getattr(config, CONVERTED_KEY, []))
        config.attn_implementation = SAVED_IMPLEMENTATION
        config._attn_implementation_internal = model.config._attn_implementation  # pyright: ignore[reportPrivateUsage]


def check_loaded(model: PreTrainedModel, missing: set[str], unexpected: set[str]) -> None:
    """Refuse weights that do not belong to what the config says."""
    modules = dict(model.named_modules())
    own = {f"{name}.{key}" for name, module in modules.items() if heads_of(module) for key in _own_keys(module)}
    if lost := sorted(own & missing):
        raise ValueError(
            f"expected the weights that the conversion of the model brought, as config.json says, got none for "
            f"{', '.join(lost[:3])}{' and others' * (len(lost) > 3)}; copy the folder anew, or load a model that was "
            "not converted and convert it"
        )
    inner = f".{ATTRIBUTE}."
    strange = sorted(key for key in unexpected if inner in key and key.rpartition(inner)[0] in modules)
    if strange:
        raise ValueError(
            f"expected a config.json that says what the model was converted to, as there are weights such as "
            f"{strange[0]}, got one that does not; copy the folder anew, with its config.json"
        )
    names = _read(model.config) if is_converted(model.config) else {}
    if names and not any(heads_of(module) for module in modules.values()):
        raise ValueError(
            f"{CONVERTED_KEY}: expected names of attentions inside {type(model).__name__}, got {next(iter(names))} and "
            "others, none of which is there; load it as the class that was converted"
        )


def check_name(config: PreTrainedConfig) -> None:
    """Another implementation would leave out what a model was converted to, and nobody would notice."""
    name = config._attn_implementation  # pyright: ignore[reportPrivateUsage]
    if name not in NAMES:
        raise ValueError(
            f"attn_implementation: expected {IMPLEMENTATION!r}, since the model was converted to another attention by "
            f"rela, got {name!r}, which would compute softmax; leave attn_implementation out, or use "
            f"model.set_attn_implementation({IMPLEMENTATION!r})"
        )


def named_implementation(config: PreTrainedConfig, name: str | None) -> str | None:
    """What is meant by an attn_implementation: that of a converted model is ours where none is asked for."""
    if name == SAVED_IMPLEMENTATION or (name is None and is_converted(config)):
        name = IMPLEMENTATION
    if name == IMPLEMENTATION and not is_converted(config):
        raise ValueError(
            f"attn_implementation: expected a model that rela converted for {IMPLEMENTATION!r}, got one whose config "
            f'has no {CONVERTED_KEY}; use rela.integrations.huggingface.convert(model, "rela-g"), and of a saved model '
            "the config.json that was saved with it"
        )
    return name


def _forget(model: PreTrainedModel) -> None:
    """No attention is converted any more: back to transformers' own."""
    for _, config in configs_of(model):
        if is_converted(config):
            delattr(config, CONVERTED_KEY)
            vars(config).pop("attn_implementation", None)
    if model.config._attn_implementation in NAMES:  # pyright: ignore[reportPrivateUsage]
        model.set_attn_implementation(None)  # pyright: ignore[reportArgumentType] (the default)


def _described(spec: AttentionSpec) -> dict[str, Any]:
    return {key: value for key, value in dataclasses.asdict(spec).items() if value != _DEFAULTS.get(key)}


def _read(config: PreTrainedConfig) -> dict[str, AttentionSpec]:
    """The attention of each module."""
    found: dict[str, AttentionSpec] = {}
    for entry in getattr(config, CONVERTED_KEY):
        try:
            spec = AttentionSpec(**entry["attention"])
            found |= dict.fromkeys(entry["modules"], spec)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{CONVERTED_KEY}: expected an attention and the names of its modules in each entry of the config, got "
                f"{entry!r:.200} ({type(error).__name__}: {error}); convert the model anew"
            ) from None
    return found


def _own_keys(module: nn.Module) -> list[str]:
    heads = heads_of(module)
    return [] if heads is None else [f"{ATTRIBUTE}.{key}" for key, _ in heads.named_parameters()]


def _check_implementation(module: nn.Module, _: Any) -> None:
    check_name(module.config)  # pyright: ignore[reportArgumentType]
