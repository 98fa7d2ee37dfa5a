"""Rectified linear attention (ReLA) and the attentions it is compared with, as drop-in PyTorch modules.

Names are imported on first use: `import rela` alone does not import torch.
"""

from typing import TYPE_CHECKING

from rela._lazy import attach
from rela._version import __version__

if TYPE_CHECKING:
    from rela import attention as attention
    from rela import functional as functional
    from rela.analysis import Inspection, inspect
    from rela.attention import (
        AttentionSpec,
        GatedRMSNorm,
        KeyValues,
        MultiheadAttention,
        RMSNorm,
        SparsityPenalty,
        convert,
    )
    from rela.decoding import Translation, Translator
    from rela.filtering import PairScore, Scorer
else:
    __getattr__, __dir__ = attach(
        __name__,
        {
            "AttentionSpec": "rela.attention",
            "GatedRMSNorm": "rela.attention",
            "Inspection": "rela.analysis",
            "KeyValues": "rela.attention",
            "MultiheadAttention": "rela.attention",
            "PairScore": "rela.filtering",
            "RMSNorm": "rela.attention",
            "Scorer": "rela.filtering",
            "SparsityPenalty": "rela.attention",
            "Translation": "rela.decoding",
            "Translator": "rela.decoding",
            "convert": "rela.attention",
            "inspect": "rela.analysis",
        },
        submodules=("attention", "functional"),
    )

__all__ = [
    "AttentionSpec",
    "GatedRMSNorm",
    "Inspection",
    "KeyValues",
    "MultiheadAttention",
    "PairScore",
    "RMSNorm",
    "Scorer",
    "SparsityPenalty",
    "Translation",
    "Translator",
    "__version__",
    "attention",
    "convert",
    "functional",
    "inspect",
]
