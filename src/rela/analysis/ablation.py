"""Silencing single heads: what is lost without one, and is it lost where the head was not null?

A head that is null at a row adds nothing there, so silencing it can change nothing at that row but through other rows.
Comparing the change in loss at null and at active rows is the causal check of "switched off".
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Generator, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rela.alignment.pairs import PairBatch
from rela.analysis.losses import piece_losses
from rela.attention.heads import Heads, Observation
from rela.attention.spec import KINDS, Kind
from rela.model.seq2seq import Seq2Seq
from rela.model.transformer import evaluating

Values = NDArray[np.float64]
Counts = NDArray[np.int64]


class Head(NamedTuple):
    """One head; layer and head count from 0."""

    kind: Kind
    layer: int
    head: int


def check_head(model: Seq2Seq, head: tuple[Any, Any, Any]) -> Head:
    """The head, if the model has it."""
    try:
        kind, layer, number = head
    except (TypeError, ValueError):
        raise ValueError(f"expected a head as (kind, layer, head), got {head!r}") from None
    if kind not in KINDS:
        raise ValueError(f"kind: expected one of {', '.join(KINDS)}, got {kind!r}")
    for name, value, count in (
        ("layer", layer, len(model.attentions()[kind])),
        ("head", number, model.config.num_heads),
    ):
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            raise TypeError(f"{name}: expected a whole number, got {value!r}")
        if not 0 <= value < count:
            raise ValueError(f"{name}: expected 0 to {count - 1} ({kind}, counted from 0), got {value}")
    return Head(kind, int(layer), int(number))


@contextlib.contextmanager
def silenced(model: Seq2Seq, heads: Iterable[tuple[Kind, int, int]]) -> Generator[None]:
    """Inside, these heads' slices of the concatenated heads are exactly zero, before the norm that the model applies.

    In the model itself: nobody else may use it meanwhile.
    """
    attentions = model.attentions()
    chosen = [check_head(model, head) for head in heads]
    with contextlib.ExitStack() as stack:
        for kind, layer, head in chosen:
            stack.enter_context(attentions[kind][layer].silenced([head]))
        yield


class AblatedBatch:
    """A batch as it is, and the same with a head silenced, as often as asked. Use it in a ``with`` block.

    The decoder's and the cross-attention's modules are observed in every pass, so that all compute alike: at a row that
    was seen as null, the slice of the head is 0 to the last bit.
    """

    def __init__(self, model: Seq2Seq, batch: PairBatch) -> None:
        self.model, self.batch = model, batch
        self.null: dict[Kind, list[Tensor]] = {"decoder": [], "cross": []}
        """For each layer ``[B, H, T]``: True where a head is null."""
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> AblatedBatch:
        attentions = self.model.attentions()
        self._stack.enter_context(torch.inference_mode())
        self._stack.enter_context(evaluating(self.model))
        try:
            for kind, found in self.null.items():
                for attention in attentions[kind]:
                    self._stack.callback(
                        attention.register_observer(_recorder(found, len(attentions[kind])), scores=False).remove
                    )
            self._memory = self.model.encode(self.batch.source)
            self.losses = self._losses(self._memory)  # [B, T]
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def change(self, head: Head) -> Tensor:
        """What each target piece's loss ``[B, T]`` grows by without this head; 0 at padding."""
        with silenced(self.model, [head]):
            memory = self.model.encode(self.batch.source) if head.kind == "encoder" else self._memory
            return self._losses(memory) - self.losses

    def _losses(self, memory: tuple[Tensor, Tensor | None]) -> Tensor:
        hidden = self.model.decode(self.batch.target_in, *memory)
        return piece_losses(self.model, hidden, self.batch.target_out)


def _recorder(found: list[Tensor], layers: int) -> Any:
    """An observer that takes down the null rows of the first pass: later ones are of a changed model."""

    def look(_: Heads, observation: Observation) -> None:
        if len(found) < layers:
            found.append((observation.weights == 0).all(-1))

    return look


@dataclass(frozen=True, eq=False)
class KindAblation:
    """Changes in loss of one kind's heads, nats a target piece, all ``[layer, head]``.

    ``null`` and ``active`` are the same at the rows where the head was null, and where it was not; NaN if there are
    none. The encoder's heads have no rows of the target: None.
    """

    change: Values
    null: Values | None
    active: Values | None
    null_rows: Counts | None
    active_rows: Counts | None


@dataclass(frozen=True, eq=False)
class AblationResult:
    """What silencing each head alone changed, by kind, over so many target pieces, EOS among them."""

    kinds: dict[Kind, KindAblation]
    pieces: int

    def measures(self) -> dict[str, Values]:
        """The values by the names that ``results.json`` has for them."""
        found: dict[str, Values] = {}
        for kind, changes in self.kinds.items():
            parts = {"": changes.change, ".null": changes.null, ".active": changes.active}
            found |= {f"{kind}.ablation{name}": value for name, value in parts.items() if value is not None}
        return found


class Ablation:
    """Silences every head in turn, batch by batch; what it keeps does not grow with them."""

    def __init__(self, model: Seq2Seq, kinds: Collection[Kind] = KINDS) -> None:
        if wrong := [kind for kind in kinds if kind not in KINDS]:
            raise ValueError(f"kinds: expected some of {', '.join(KINDS)}, got {wrong[0]!r}")
        self.model = model
        self._pieces = 0
        self._sums: dict[Kind, Values] = {}  # [null or active, layer, head]; all is active for the encoder's
        self._rows: dict[Kind, Counts] = {}
        for kind in kinds:
            shape = (2, len(model.attentions()[kind]), model.config.num_heads)
            self._sums[kind], self._rows[kind] = np.zeros(shape), np.zeros(shape, np.int64)

    def add(self, batch: PairBatch) -> None:
        """One batch: a forward pass for each head."""
        places = torch.arange(batch.target_out.shape[1], device=batch.target_out.device)
        with AblatedBatch(self.model, batch) as ablated:
            valid = places < batch.target_lengths[:, None]  # [B, T]
            self._pieces += int(valid.sum())
            for kind, sums in self._sums.items():
                for layer, head in np.ndindex(sums.shape[1:]):
                    change = ablated.change(Head(kind, layer, head)).double()
                    null = torch.zeros_like(valid) if kind == "encoder" else ablated.null[kind][layer][:, head]
                    for place, rows in enumerate((valid & null, valid & ~null)):
                        sums[place, layer, head] += float(change[rows].sum())
                        self._rows[kind][place, layer, head] += int(rows.sum())

    def result(self) -> AblationResult:
        """Means so far."""
        if self._pieces == 0:
            raise ValueError("expected at least one pair to measure the heads by, got none")
        kinds: dict[Kind, KindAblation] = {}
        for kind, sums in self._sums.items():
            change, rows = sums.sum(0) / self._pieces, self._rows[kind]
            with np.errstate(invalid="ignore"):
                means = sums / rows  # NaN where there are no rows
            none = (None, None, None, None)
            kinds[kind] = KindAblation(change, *(none if kind == "encoder" else (*means, *rows)))
        return AblationResult(kinds, self._pieces)
