"""What transformers has to know: attentions by name, their masks, and how converted models come back."""

from __future__ import annotations

import functools
from typing import Any

from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import eager_mask

from rela.attention.spec import PRESETS
from rela.integrations.huggingface.conversion import IMPLEMENTATION, restore
from rela.integrations.huggingface.heads import NAMES, ConvertedHeads, forward_function


def register() -> None:
    """Once is enough; more often does no harm."""
    for name in NAMES:
        preset = None if name == IMPLEMENTATION else PRESETS[name.replace("_", "-")]
        AttentionInterface.register(name, forward_function(preset))
        AttentionMaskInterface.register(name, eager_mask)  # with none registered, the mask would arrive as None
    if not getattr(PreTrainedModel.post_init, "_rela", False):
        _restore_when_built()
        _start_our_parameters()


def _restore_when_built() -> None:
    """All models call post_init when their modules are there, and before weights are loaded."""
    original = PreTrainedModel.post_init

    @functools.wraps(original)
    def post_init(self: PreTrainedModel) -> None:
        restore(self)
        original(self)

    post_init._rela = True  # pyright: ignore[reportAttributeAccessIssue]
    PreTrainedModel.post_init = post_init


def _start_our_parameters() -> None:
    """transformers starts whatever has RMSNorm in its name with ones; ours start as their attention says."""
    original = PreTrainedModel._initialize_weights  # pyright: ignore[reportPrivateUsage]

    @functools.wraps(original)
    def initialize(self: PreTrainedModel, module: nn.Module, *args: Any, **kwargs: Any) -> None:
        if not isinstance(module, ConvertedHeads):
            original(self, module, *args, **kwargs)
        elif not all(getattr(p, "_is_hf_initialized", False) for p in module.parameters()):
            module.reset_own_parameters()

    PreTrainedModel._initialize_weights = initialize  # pyright: ignore[reportPrivateUsage]
