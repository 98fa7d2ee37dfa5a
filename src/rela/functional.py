"""The functional forms under the name that `torch.nn.functional` suggests: `import rela.functional as RF`."""

from rela.attention.functional import (
    attention,
    attention_weights,
    concat_heads,
    gated_layer_norm,
    gated_rms_norm,
    layer_norm,
    null_rate,
    rela_attention,
    relu_attention,
    rms_norm,
    sparsity_rate,
)

__all__ = [
    "attention",
    "attention_weights",
    "concat_heads",
    "gated_layer_norm",
    "gated_rms_norm",
    "layer_norm",
    "null_rate",
    "rela_attention",
    "relu_attention",
    "rms_norm",
    "sparsity_rate",
]
