"""The probe: streams statistics out of a forward pass. What it keeps does not grow with the corpus."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor

from rela.alignment.pairs import PairBatch
from rela.analysis.frame import BatchUnits, Frame
from rela.analysis.native import native_library, native_sums
from rela.analysis.statistics import TAUS
from rela.analysis.sums import Sums, plain_sums
from rela.attention.heads import Heads, Observation, Observer
from rela.attention.spec import KINDS, Kind
from rela.model.seq2seq import Seq2Seq
from rela.model.transformer import evaluating


class Seen(NamedTuple):
    """One layer of one kind for a batch: its weights ``[B, H, Tq, Tk]``, and what they come to."""

    kind: Kind
    layer: int
    weights: Tensor
    frame: Frame
    sums: Sums


Meter = Callable[[Seen], None]


def taus_of(model: Seq2Seq, kind: Kind) -> tuple[float, ...]:
    """The exponents that make distributions of a model's weights; none, if they are distributions."""
    return TAUS if model.config.attention.spec(kind).is_pointwise else ()


class Probe:
    """Sends the weights of every attention to the meters of its kind. Kinds without meters are not watched."""

    def __init__(self, model: Seq2Seq, meters: Mapping[Kind, Iterable[Meter]]) -> None:
        self._model = model
        chosen: dict[Kind, tuple[Meter, ...]] = {kind: tuple(meters.get(kind, ())) for kind in KINDS}
        self._meters: dict[Kind, tuple[Meter, ...]] = {kind: found for kind, found in chosen.items() if found}
        self._taus: dict[Kind, tuple[float, ...]] = {kind: taus_of(model, kind) for kind in self._meters}
        self._frames: dict[Kind, Frame] = {}

    @contextmanager
    def attached(self) -> Generator[None]:
        """Inside, :meth:`run` sees the weights."""
        handles = [
            attention.register_observer(self._observer(kind, layer), scores=False)
            for kind in self._meters
            for layer, attention in enumerate(self._model.attentions()[kind])
        ]
        try:
            with evaluating(self._model), torch.inference_mode():
                yield
        finally:
            for handle in handles:
                handle.remove()

    def run(self, batch: PairBatch) -> Tensor:
        """One forward pass under forced decoding; returns the hidden states ``[B, T, d]``."""
        units = BatchUnits(batch)
        self._frames = {kind: Frame(kind, batch, units) for kind in self._meters}
        return self._model(batch.source, batch.target_in)

    def _observer(self, kind: Kind, layer: int) -> Observer:
        def observe(_: Heads, observation: Observation) -> None:
            weights, frame = observation.weights.float(), self._frames[kind]
            seen = Seen(kind, layer, weights, frame, sums_of(weights, frame, self._taus[kind]))
            for meter in self._meters[kind]:
                meter(seen)

        return observe


def sums_of(weights: Tensor, frame: Frame, taus: Sequence[float]) -> Sums:
    """By the compiled meter if there is one and the weights are on the CPU."""
    library = native_library() if weights.device.type == "cpu" else None
    return plain_sums(weights, frame, taus) if library is None else native_sums(library, weights, frame, taus)
