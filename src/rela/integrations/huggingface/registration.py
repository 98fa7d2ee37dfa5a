"""What transformers has to know: attentions by name, their masks, and how converted models are saved and come back."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import eager_mask

from rela.integrations.huggingface.heads import NAMES, ConvertedHeads, attention_by_name, forward_function
from rela.integrations.huggingface.internals import internal
from rela.integrations.huggingface.record import check_loaded, named_implementation, remember_anew, restore

_Method = Callable[..., Any]


def register() -> None:
    """Once is enough; more often does no harm."""
    for name in NAMES:
        AttentionInterface.register(name, forward_function(attention_by_name(name)))
        AttentionMaskInterface.register(name, eager_mask)  # with none registered, the mask would arrive as None
    if not getattr(PreTrainedModel.post_init, "_rela", False):
        _wrap("get_correct_attn_implementation", "which takes the name of an attention", _name)
        _wrap("post_init", "which is called when a model's modules are there", _build)
        _wrap("_initialize_weights", "which starts weights", _start)
        _wrap("_adjust_missing_and_unexpected_keys", "which is told the weights that did not fit", _check)
        _wrap("save_pretrained", "which saves a model", _save)


def _wrap(name: str, purpose: str, around: _Method) -> None:
    """From now on, ``around`` stands in the place of a method of all models; it gets that method first."""
    original = internal(PreTrainedModel, name, purpose)

    @functools.wraps(original)
    def method(self: PreTrainedModel, *args: Any, **kwargs: Any) -> Any:
        return around(original, self, *args, **kwargs)

    method._rela = True  # pyright: ignore[reportAttributeAccessIssue]
    setattr(PreTrainedModel, name, method)


def _name(original: _Method, model: PreTrainedModel, requested_attention: str | None, *args: Any, **kwargs: Any) -> str:
    return original(model, named_implementation(model.config, requested_attention), *args, **kwargs)


def _build(original: _Method, model: PreTrainedModel) -> None:
    """All models call post_init when their modules are there, and before weights are loaded."""
    restore(model)
    original(model)


def _start(original: _Method, model: PreTrainedModel, module: nn.Module, *args: Any, **kwargs: Any) -> None:
    """transformers starts whatever has RMSNorm in its name with ones; ours start as their attention says."""
    if not isinstance(module, ConvertedHeads):
        original(model, module, *args, **kwargs)
    elif not all(getattr(p, "_is_hf_initialized", False) for p in module.parameters()):
        module.reset_own_parameters()


def _check(original: _Method, model: PreTrainedModel, info: Any) -> None:
    check_loaded(model, info.missing_keys, info.unexpected_keys)
    original(model, info)


def _save(original: _Method, model: PreTrainedModel, *args: Any, **kwargs: Any) -> None:
    remember_anew(model)
    original(model, *args, **kwargs)
