"""Fast ways to compute what the plain formulas say, and the choice between them.

Every kernel here equals the plain formula in outputs and gradients; the tests hold it to that.
"""

from rela.attention.kernels.native import dropout_add
from rela.attention.kernels.relu import Kernel, relu_attention
from rela.attention.kernels.select import (
    KernelChoice,
    attention_kernel,
    describe,
    dropout_fits,
    norm_kernel,
    quick_relu_attention,
    takes_shifts,
    traced_or_transformed,
)

__all__ = [
    "Kernel",
    "KernelChoice",
    "attention_kernel",
    "describe",
    "dropout_add",
    "dropout_fits",
    "norm_kernel",
    "quick_relu_attention",
    "relu_attention",
    "takes_shifts",
    "traced_or_transformed",
]
