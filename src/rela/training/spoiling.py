"""Pairs that are spoiled on purpose while a model is trained, so that its heads learn to attend to nothing.

A model that has only ever seen translations has no reason to switch a head off: whatever the target says, some word
of the source explains it. Spoiled targets are words that no source explains. Which words those are is known, because
we put them there; nobody has to label anything.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rela.attention.heads import Heads, Observation
from rela.attention.multihead import MultiheadAttention
from rela.text.batches import Batch
from rela.text.vocabulary import PAD
from rela.training.config import SpoilingSection

MARGIN: Final = 0.5
"""Scores of spoiled rows are pushed so far below the threshold: rounding and other texts shall not bring them back."""

NOTHING: Final = 1
SOMETHING: Final = -1
"""What rows of cross-attention should attend to; 0: whatever they like."""

_SHORTEST_SPAN: Final = 3  # pieces; of two, no row has a spoiled word on both sides
_LONGEST_SHARE: Final = 0.6  # of a target's pieces


class Spoiled(NamedTuple):
    """A batch with some targets spoiled, and what rows of the decoder should attend to.

    That is NOTHING where a row's word and the next word are both foreign, and SOMETHING in pairs that are as they were.
    """

    batch: Batch
    rows: NDArray[np.int8]  # [B, T]

    @classmethod
    def none(cls, batch: Batch) -> Spoiled:
        """A batch as it is."""
        return cls(batch, np.zeros(batch.target_in.shape, np.int8))


def spoil(batch: Batch, options: SpoilingSection, *seed: int) -> Spoiled:
    """Spoil a share of a batch's pairs; the same ones for the same seed. Others stay as they are.

    ``shuffle`` gives a pair the target of another pair of the batch, which is of like length; ``span`` puts a span of
    another target in the place of one that is as long. Unless spoiled words are to be learned, they are padding in
    ``target_out``, so that no loss counts them.
    """
    generator = np.random.default_rng(seed)
    count = len(batch.indices)
    rows = np.where(batch.target_out == PAD, 0, SOMETHING).astype(np.int8)
    target_in, target_out = batch.target_in.copy(), batch.target_out.copy()
    lengths = (batch.target_out != PAD).sum(1) - 1  # pieces, without EOS
    for place in np.flatnonzero(generator.random(count) < options.share).tolist():
        other = int(generator.integers(count - 1)) if count > 1 else place
        other += other >= place and count > 1
        kind = options.kinds[int(generator.integers(len(options.kinds)))]
        if other == place or np.array_equal(batch.target_out[place], batch.target_out[other]):
            continue
        if kind == "shuffle":
            target_in[place], target_out[place] = batch.target_in[other], batch.target_out[other]
            rows[place] = 0
            rows[place, 1 : lengths[other] + 1] = NOTHING  # all but the row that has seen nothing yet
            if not options.learned:
                target_out[place] = PAD
            continue
        most = int(min(lengths[other], lengths[place] * _LONGEST_SHARE))
        if most < _SHORTEST_SPAN:
            continue
        size = int(generator.integers(_SHORTEST_SPAN, most + 1))
        start = int(generator.integers(lengths[place] - size + 1))
        taken = int(generator.integers(lengths[other] - size + 1))
        words = batch.target_out[other, taken : taken + size]
        target_in[place, start + 1 : start + 1 + size] = words
        target_out[place, start : start + size] = words if options.learned else PAD
        rows[place] = 0
        rows[place, start + 1 : start + size] = NOTHING
    return Spoiled(Batch(batch.source, target_in, target_out, batch.indices), rows)


class NullLoss:
    """How far rows are from attending to nothing where they should, and to something where they should.

    For each head of each layer, a row that should attend to nothing has the loss ``relu(top + margin)``, where ``top``
    is its largest score less the threshold: 0 where all weights are 0, and stay so if scores change a little. A row
    that should attend to something has ``relu(margin - top)``. :meth:`__call__` gives the mean over layers and heads of
    the forward pass since the last call: the sum over rows of the first kind, and that of the second kind brought to
    the same number of rows.
    """

    def __init__(self, attentions: nn.ModuleList | list[MultiheadAttention], margin: float = MARGIN) -> None:
        self.margin = margin
        self.rows: Tensor | None = None  # [B, T] of NOTHING, SOMETHING or 0, set before a forward pass
        self._found: list[Tensor] = []
        for attention in attentions:
            assert isinstance(attention, MultiheadAttention)
            if not attention.attention.is_pointwise:
                raise ValueError(
                    f"spoiling.null_loss: expected a cross-attention that can attend to nothing, such as rela-g, got "
                    f"{attention.attention.name}; set spoiling.null_loss to 0"
                )
            attention.register_observer(self._observe)

    def __call__(self) -> Tensor:
        found, self._found = self._found, []
        return torch.stack(found).mean()

    def _observe(self, module: Heads, seen: Observation) -> None:
        if not module.training or self.rows is None:
            return
        assert seen.scores is not None
        threshold = module.attention.threshold if module.threshold is None else module.threshold[:, None]
        scores = seen.scores if seen.allowed is None else seen.scores.masked_fill(~seen.allowed, -torch.inf)
        top = scores.amax(-1) - threshold  # [B, H, T]
        nothing, something = ((self.rows == kind)[:, None] for kind in (NOTHING, SOMETHING))
        evened = nothing.sum() / something.sum().clamp_min(1)
        found = (top + self.margin).relu() * nothing + (self.margin - top).relu() * something * evened
        self._found.append(found.mean(1).sum())
