"""The statistics of every head of one kind: sparsity, null rate, mass, entropy, sinks, distances, diversity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from rela.analysis.sums import BY_HEAD, BY_LAYER, FARTHEST, Sums

Values = NDArray[np.float64]

DISTANCES: Final = [f"<={-FARTHEST}", *map(str, range(1 - FARTHEST, FARTHEST)), f">={FARTHEST}"]
"""The names of the distances, key minus query."""

TAUS: Final = (1.0, 0.5, 0.25, 0.1)
"""Exponents of the weights, where these are no distributions."""


class Statistics:
    """Sums over all rows that were seen, layer by layer.

    A head's *mass* is the mean of a row's summed weights (their absolute values, if a map gives negative ones). Its
    *entropy*, in nats, is that of rows scaled to the sum 1, null rows left out. *Sinks* and *distances* are shares of
    all its weight: *first* is the first key, *last* the last that a query may see.
    """

    def __init__(self, num_layers: int, num_heads: int, taus: Sequence[float]) -> None:
        self._taus = tuple(taus)
        sizes = ((num_heads, len(BY_HEAD)), (len(BY_LAYER),), (num_heads, len(DISTANCES)), (2, max(1, len(taus))))
        self.sums = [torch.zeros(num_layers, *size, dtype=torch.float64) for size in sizes]

    @property
    def has_taus(self) -> bool:
        """True if the weights are no distributions."""
        return bool(self._taus)

    def add(self, layer: int, sums: Sums) -> None:
        """One layer of one batch."""
        for total, found in zip(self.sums, sums, strict=False):
            total[layer] += found

    def state(self) -> dict[str, Values]:
        """All that was summed."""
        return {str(place): tensor.numpy() for place, tensor in enumerate(self.sums)}

    def restore(self, state: Mapping[str, Values]) -> None:
        """Go on from there."""
        self.sums = [torch.from_numpy(state[str(place)]) for place in range(len(self.sums))]

    def values(self) -> dict[str, Values]:
        """All of them, by what follows the kind in their names in results.json; NaN where nothing was seen."""
        by_head, by_layer, distances, diversity = (tensor.numpy() for tensor in self.sums)
        head = dict(zip(BY_HEAD, np.moveaxis(by_head, -1, 0), strict=True))  # [layer, head] each
        layer = dict(zip(BY_LAYER, by_layer.T, strict=True))  # [layer] each
        column = {name: value[:, None] for name, value in layer.items()}
        with np.errstate(invalid="ignore", divide="ignore"):
            plain = {
                "sparsity": 1 - head["nonzero"] / column["places"],
                "null": head["null"] / column["rows"],
                "mass": head["mass"] / column["rows"],
                "entropy": head["entropy"] / (column["rows"] - head["null"]),
                "sink_first": head["first"] / head["mass"],
                "sink_last": head["last"] / head["mass"],
            }
            words = {
                "sparsity.word": 1 - head["unit_nonzero"] / column["unit_places"],
                "null.word": head["unit_null"] / column["unit_rows"],
            }
            found = plain | words
            found |= {f"{name}.layer": _mean(value) for name, value in (plain | words).items()}
            found |= {f"{name}.variance": _variance(value) for name, value in plain.items()}
            found["sparsity.layer_attention"] = 1 - layer["layer_nonzero"] / layer["places"]
            found["null.layer_attention"] = layer["layer_null"] / layer["rows"]
            found["distance"] = distances / distances.sum(-1, keepdims=True)
            pieces = (diversity[:, 0] / column["rows"]).T  # [tau, layer]
            between_words = (diversity[:, 1] / column["unit_rows"]).T
        found |= {
            "diversity": pieces[0],
            "diversity.word": between_words[0],
            "diversity.mean": np.asarray(pieces[0].mean()),
        }
        if self._taus:
            found |= {
                "diversity.tau": pieces,
                "diversity.tau.word": between_words,
                "diversity.tau.mean": pieces.mean(1),
            }
        return found


def _mean(values: Values) -> Values:
    """Over heads; those of which nothing can be said (a head that is always null has no entropy) do not count."""
    known = ~np.isnan(values)
    return np.where(known, values, 0).sum(1) / known.sum(1)


def _variance(values: Values) -> Values:
    return _mean((values - _mean(values)[:, None]) ** 2)
