"""The ids that are no pieces of text. Every vocabulary of the project begins with them."""

from typing import Final

PAD: Final = 0
BOS: Final = 1
EOS: Final = 2

SPECIAL_PIECES: Final = ("⟨pad⟩", "⟨s⟩", "⟨/s⟩")
"""Their names. None of these brackets is in the alphabet of bytes, so no merge of pieces can spell one of them."""
