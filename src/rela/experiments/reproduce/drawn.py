"""Alignment errors on sentences drawn again and again: what a test of significance takes, and small enough to keep."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rela.alignment.batched import RULES, SHIFTS
from rela.alignment.errors import ErrorTable
from rela.alignment.pairs import PairBatch
from rela.alignment.tally import AlignmentErrors, GoldBatch
from rela.analysis.corpus import Corpus
from rela.analysis.probe import Probe, Seen
from rela.evaluation.counts import resample
from rela.model.opening import open_model

NUM_DRAWS: Final = 1000
_MERGED: Final = RULES.index("merged")

Values = NDArray[np.float64]


def draw_alignment_errors(run: Path, corpus: Corpus) -> dict[str, Any]:
    """AoL and AoH for each shift, and by how much a middle layer's error is below that of the first and the last.

    ``[draw]`` each; draw n is of the same sentences for all models that are measured on the same pairs.
    """
    counts = sentence_counts(run, corpus)
    times = np.stack([np.bincount(drawn, minlength=len(counts)) for drawn in resample(len(counts), NUM_DRAWS)])
    sums = np.tensordot(times, counts, 1)  # [draw, shift, layer, head + 1, 4]
    aer = ErrorTable(*np.moveaxis(sums, -1, 0)).aer
    found: dict[str, Values] = {}
    for place, shift in enumerate(SHIFTS):
        found[f"aol.{shift}"] = aer[:, place, :, -1].mean(1)
        found[f"aoh.{shift}"] = aer[:, place, :, :-1].min(2).mean(1)
        layers = aer[:, place, :, -1]
        if layers.shape[1] > 2:
            ends = np.minimum(layers[:, 0], layers[:, -1])
            found[f"middle.{shift}"] = ends - layers[:, 1:-1].min(1)
    draws = {name: [round(float(one), 4) for one in values] for name, values in found.items()}
    return {"sentences": len(counts), "draws": draws}


def sentence_counts(run: Path, corpus: Corpus) -> NDArray[np.int64]:
    """Of each pair, its counts of errors ``[pair, shift, layer, head + 1, 4]`` by the rule of merged pieces."""
    opened = open_model(run)
    model, rows = opened.model, list[NDArray[np.int64]]()
    for item in corpus.read(opened.tokenizers):
        assert item.gold is not None
        batch = PairBatch([item.pair], model.projection.device)
        gold = GoldBatch.from_links([item.gold], batch)
        errors = AlignmentErrors(len(model.attentions()["cross"]), model.config.num_heads)

        def add(seen: Seen, errors: AlignmentErrors = errors, batch: PairBatch = batch, gold: GoldBatch = gold) -> None:
            errors.add(seen.layer, seen.weights, batch, gold)

        probe = Probe(model, {"cross": [add]})
        with probe.attached():
            probe.run(batch)
        rows.append(errors.state()[:, _MERGED])
    return np.stack(rows)
