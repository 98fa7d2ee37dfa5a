"""A calibration: all that scores of a corpus need to know about the corpus, learned from its own pairs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rela._files import write_text
from rela.filtering.letters import Letters
from rela.filtering.quality import QualityModel

FORMAT: Final = "rela-calibration-2"


@dataclass(frozen=True)
class Calibration:
    """What was learned from a sample of a corpus, for one model.

    Attributes:
        quality: from features to quality.
        matching: ``[L, H]``, the heads of cross-attention that answer to whether source and target match.
        word_loss: words with a larger loss are suspicious, in nats a piece.
        letters: how the texts of source and target look.
        model: a hash of the model's weights; no other model may use it.
    """

    quality: QualityModel
    matching: NDArray[np.bool_]
    word_loss: float
    letters: tuple[Letters, Letters]
    model: str

    def to_json(self) -> dict[str, Any]:
        """For a file."""
        heads = [[int(layer) + 1, int(head)] for layer, head in np.argwhere(self.matching)]
        return {
            "format": FORMAT,
            "model": self.model,
            "cross_attention": list(self.matching.shape),
            "matching_heads": heads,
            "word_loss": self.word_loss,
            "letters": [side.to_json() for side in self.letters],
            "quality": self.quality.to_json(),
        }

    def save(self, path: Path) -> None:
        """Write a file, whole or not at all."""
        write_text(path, json.dumps(self.to_json(), allow_nan=False) + "\n")

    @classmethod
    def load(cls, path: Path) -> Calibration:
        """Read a file that :meth:`save` wrote."""
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, UnicodeDecodeError):
            raise ValueError(f"{path}: expected a calibration in JSON, got something else; calibrate anew") from None
        return cls.from_json(data, str(path))

    @classmethod
    def from_json(cls, data: Mapping[str, Any], where: str) -> Calibration:
        """From plain data."""
        found = data.get("format") if isinstance(data, dict) else None
        if found != FORMAT:
            raise ValueError(f"{where}: expected the format {FORMAT}, got {found!r}; calibrate anew")
        try:
            matching = np.zeros(tuple(data["cross_attention"]), np.bool_)
            for layer, head in data["matching_heads"]:
                matching[layer - 1, head] = True
            source, target = (Letters.from_json(side) for side in data["letters"])
            word_loss, model = float(data["word_loss"]), str(data["model"])
        except (KeyError, TypeError, IndexError, ValueError) as error:
            raise ValueError(
                f"{where}: expected a whole calibration, got one in which something is wrong ({error}); calibrate anew"
            ) from None
        if not matching.any() or not np.isfinite(word_loss):
            raise ValueError(
                f"{where}: expected a calibration with a matching head and a finite word_loss, got {matching.sum()} "
                f"heads and {word_loss}; calibrate anew"
            )
        return cls(QualityModel.from_json(data["quality"], where), matching, word_loss, (source, target), model)
