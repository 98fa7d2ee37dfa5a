"""The mathematics: attentions by name, as functions, modules and inside models of others."""

from typing import TYPE_CHECKING

from rela._lazy import attach

if TYPE_CHECKING:
    from rela.attention import cost as cost
    from rela.attention import functional as functional
    from rela.attention import kernels as kernels
    from rela.attention import naive as naive
    from rela.attention.conversion import Conversion as Conversion
    from rela.attention.conversion import convert as convert
    from rela.attention.heads import Observation as Observation
    from rela.attention.key_values import KeyValues as KeyValues
    from rela.attention.multihead import MultiheadAttention as MultiheadAttention
    from rela.attention.norms import GatedRMSNorm as GatedRMSNorm
    from rela.attention.norms import LayerNorm as LayerNorm
    from rela.attention.norms import RMSNorm as RMSNorm
    from rela.attention.penalty import SparsityPenalty as SparsityPenalty
    from rela.attention.spec import MAPS as MAPS
    from rela.attention.spec import NORMS as NORMS
    from rela.attention.spec import PRESETS as PRESETS
    from rela.attention.spec import AttentionSpec as AttentionSpec
    from rela.attention.spec import resolve as resolve
else:
    __getattr__, __dir__ = attach(
        __name__,
        {
            "Conversion": "rela.attention.conversion",
            "convert": "rela.attention.conversion",
            "KeyValues": "rela.attention.key_values",
            "MultiheadAttention": "rela.attention.multihead",
            "Observation": "rela.attention.heads",
            "GatedRMSNorm": "rela.attention.norms",
            "LayerNorm": "rela.attention.norms",
            "RMSNorm": "rela.attention.norms",
            "SparsityPenalty": "rela.attention.penalty",
            "MAPS": "rela.attention.spec",
            "NORMS": "rela.attention.spec",
            "PRESETS": "rela.attention.spec",
            "AttentionSpec": "rela.attention.spec",
            "resolve": "rela.attention.spec",
        },
        submodules=("cost", "functional", "kernels", "naive"),
    )
