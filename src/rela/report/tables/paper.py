"""The paper's own numbers, to stand beside ours: Zhang, Titov and Sennrich, EMNLP 2021."""

from typing import Final

AER: Final = {
    "softmax": (75.95, 67.51, 79.38, 54.31),
    "sparsemax": (78.17, 67.88, 82.32, 54.95),
    "entmax15": (78.82, 67.69, 79.84, 58.98),
    "rela-g": (64.46, 61.64, 59.24, 52.41),
}
"""Table 5: normal AoL and AoH, shifted AoL and AoH, in percent."""

DIVERSITY: Final = {
    "softmax": (0.56, 0.31, 0.45),
    "entmax15": (0.84, 0.39, 0.52),
    "rela-g, τ = 1": (1.26, 0.81, 0.78),
    "rela-g, τ = 0.5": (0.97, 0.65, 0.69),
    "rela-g, τ = 0.25": (0.92, 0.65, 0.71),
    "rela-g, τ = 0.1": (0.92, 0.66, 0.72),
}
"""Table 6: encoder, decoder and cross, in nats."""

ABLATION: Final = {
    "softmax": (26.9, 27.59),
    "sparsemax": (26.4, 27.02),
    "entmax15": (26.7, 27.39),
    "relu": None,
    "relu-rmsnorm": (26.0, 26.60),
    "rela-i": (26.5, 27.16),
    "rela-g": (26.6, 27.31),
    "rela-g-layernorm": (26.6, 27.18),
    "rela-g-gelu": (26.5, 27.14),
    "rela-g-leaky": (26.5, 27.13),
    "rela-g-encoder": (26.3, 27.00),
    "rela-g-decoder": (27.0, 27.70),
    "rela-g-cross": (27.0, 27.69),
}
"""Table 1: sacreBLEU and tokenised BLEU on WMT14 English to German; None: the training failed."""

EFFICIENCY: Final = {
    "softmax": (72.31, 1.00, 1.00, 1.00),
    "sparsemax": (72.31, 0.26, 0.54, 0.87),
    "entmax15": (72.31, 0.27, 0.49, 0.90),
    "rela-g": (72.34, 0.93, 0.98, 0.95),
}
"""Table 2: million parameters; speed of training and of decoding; of training with PyTorch and the entmax package."""

PAIRS: Final = {
    "softmax": (37.2, 15.5, 21.1, 32.7),
    "sparsemax": (37.3, 15.1, 19.2, 33.5),
    "entmax15": (37.9, 15.5, 20.8, 33.2),
    "rela-g": (37.9, 15.4, 20.8, 32.9),
}
"""Table 3: sacreBLEU on En-Fr, En-Fi, Zh-En and Ro-En."""

MARK: Final = " (paper)"
NOTE: Final = (
    "Rows marked (paper) are numbers of Zhang, Titov and Sennrich (2021), table {}: Transformer base, WMT14 English to "
    "German, mean of 3 seeds{}. Other models and other data than ours, so not to be compared digit by digit."
)
