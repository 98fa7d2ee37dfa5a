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

MARK: Final = " (paper)"
NOTE: Final = (
    "Rows marked (paper) are numbers of Zhang, Titov and Sennrich (2021), table {}: Transformer base, WMT14 English to "
    "German, mean of 3 seeds{}. Other models and other data than ours, so not to be compared digit by digit."
)
