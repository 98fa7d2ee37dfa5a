"""What aligning costs beside a plain forced-decoding forward pass of the same batches."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from rela.alignment.choice import Choice, default_choice
from rela.alignment.links import align
from rela.alignment.pairs import PairBatch, by_length, encode_pairs, windows
from rela.analysis.losses import piece_losses
from rela.bench.timing import Speed, compare
from rela.model.seq2seq import Seq2Seq
from rela.model.transformer import evaluating
from rela.text.subwords import PairEncoding


def compare_aligning(
    model: Seq2Seq,
    tokenizers: PairEncoding,
    pairs: Sequence[tuple[str, str]],
    choice: Choice | None = None,
    *,
    rounds: int = 9,
) -> Speed:
    """How fast pairs are aligned, from text to links as they are written, beside forced decoding alone.

    That is a forward pass with the loss of every target piece, as in an analysis. It has its batches made before; the
    time for splitting, encoding and linking words counts for aligning alone.
    """
    numbered = ((line, source, target) for line, (source, target) in enumerate(pairs, start=1))
    batches = [
        PairBatch([window[place] for place in places], model.projection.device)
        for window in windows(encode_pairs(tokenizers, numbered))
        for places in by_length(window)
    ]

    @torch.inference_mode()
    def forward() -> None:
        with evaluating(model):
            for batch in batches:
                piece_losses(model, model(batch.source, batch.target_in), batch.target_out)

    def align_all() -> int:
        found = align(model, tokenizers, pairs, choice or default_choice(model))
        return sum(len(" ".join(f"{i}-{j}" for i, j in one.links)) for one in found)

    return compare({"forward": forward, "align": align_all}, "forward", rounds=rounds)["align"]
