"""Keys and values that are projected already: what decoding keeps."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class KeyValues(NamedTuple):
    """Keys and values after their projections, split into heads: ``[B, H, T, d]``."""

    keys: Tensor
    values: Tensor

    @property
    def length(self) -> int:
        """How many positions there are."""
        return self.keys.shape[-2]

    def append(self, other: KeyValues) -> KeyValues:
        """These positions followed by the other's."""
        keys = torch.cat([self.keys, other.keys], dim=-2)
        return KeyValues(keys, torch.cat([self.values, other.values], dim=-2))

    def select(self, rows: Tensor) -> KeyValues:
        """The batch rows with these indices, as beam search needs."""
        return KeyValues(self.keys.index_select(0, rows), self.values.index_select(0, rows))
