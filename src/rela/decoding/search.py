"""Beam search in batches, with cached keys and values; finished sentences leave the batch.

The search here is in PyTorch: the reference, and what runs where the native decoder (engine.cpp) cannot.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Final, NamedTuple, get_args

import torch
from torch import Tensor

from rela.decoding.choice import native_decoder
from rela.decoding.native import NativeSearch
from rela.decoding.packing import Packed, Precision, packed
from rela.model.transformer import DecoderState, Transformer, evaluating
from rela.text.vocabulary import BOS, EOS, PAD

MAX_RATIO: Final = 2
MAX_EXTRA: Final = 20
"""A translation has at most ``MAX_RATIO`` times as many tokens as the source has pieces, and ``MAX_EXTRA`` more."""

_FORBIDDEN: Final = (PAD, BOS)
_LARGEST_PENALTY: Final = 10.0
_BLOCK: Final = 64  # pieces of the vocabulary that are looked at together


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """How to search.

    Attributes:
        beam: partial translations that are kept for each sentence; 1 is greedy search.
        length_penalty: exponent of GNMT's ``((5 + length) / 6)``, by which the log-probability is divided.
        min_length: fewest tokens of a translation, EOS among them: before, none ends.
        max_length: most tokens, EOS among them; one that has not ended by then is cut off there. None: it depends on
            the source (``MAX_RATIO``, ``MAX_EXTRA``), and is never less than ``min_length``.
        precision: of the weights in the native decoder. ``int8``: faster, and rounded; torch does not have it.
    """

    beam: int = 4
    length_penalty: float = 0.6
    min_length: int = 0
    max_length: int | None = None
    precision: Precision = "fp32"

    def __post_init__(self) -> None:
        check_whole("beam", self.beam)
        if not isinstance(self.length_penalty, Real):  # pyright: ignore[reportUnnecessaryIsInstance] (callers may be untyped)
            raise TypeError(f"length_penalty: expected a number, got {self.length_penalty!r}")
        if self.beam < 1:
            raise ValueError(f"beam: expected at least 1, got {self.beam}")
        if not 0 <= self.length_penalty <= _LARGEST_PENALTY:
            raise ValueError(f"length_penalty: expected 0 to {_LARGEST_PENALTY:g}, got {self.length_penalty}")
        check_whole("min_length", self.min_length)
        if self.min_length < 0:
            raise ValueError(f"min_length: expected at least 0, got {self.min_length}")
        if self.max_length is not None:
            check_whole("max_length", self.max_length)
            if self.max_length < max(1, self.min_length):
                least = f"at least 1 and min_length {self.min_length}"
                raise ValueError(f"max_length: expected {least}, got {self.max_length}")
        check_precision(self.precision)

    def longest(self, source_length: int) -> int:
        """Most tokens that a translation may have, EOS among them. One that has not ended by then is cut off there."""
        if self.max_length is not None:
            return self.max_length
        return max(MAX_RATIO * source_length + MAX_EXTRA, self.min_length)

    def penalty(self, length: int) -> float:
        """What the log-probability of ``length`` tokens, EOS among them, is divided by."""
        return ((5 + length) / 6) ** float(self.length_penalty)


def check_whole(name: str, value: object) -> None:
    """Raise a TypeError for what is no whole number."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name}: expected a whole number, got {value!r}")


def check_precision(value: object) -> None:
    """Raise a ValueError for what is no precision."""
    if value not in get_args(Precision):
        raise ValueError(f"precision: expected one of {', '.join(get_args(Precision))}, got {value!r}")


class Hypothesis(NamedTuple):
    """One translation: its pieces without EOS, log-probability (with EOS), penalised score, and whether it ended."""

    pieces: list[int]
    log_probability: float
    score: float
    finished: bool


@torch.inference_mode()
def beam_search(model: Transformer, source: Tensor, options: SearchOptions) -> list[list[Hypothesis]]:
    """The hypotheses of each row of ``source`` ``[B, S]`` (EOS last, then padding), best first, at most ``beam``.

    Those that were cut off come after those that ended, whatever their scores: a loop up to the greatest length often
    scores higher than a translation does.
    """
    needed_for = None if options.precision == "fp32" else f"precision {options.precision}"
    library = native_decoder(model, source, needed_for=needed_for)
    if library is None:
        with evaluating(model):
            search = _Search(model, source, options)
            while search.alive:
                search.advance()
        hypotheses = search.finished
    else:
        hypotheses = _native_search(packed(library, model, options.precision), source, options)
    return [sorted(found, key=lambda h: (not h.finished, -h.score)) for found in hypotheses]


def _native_search(weights: Packed, source: Tensor, options: SearchOptions) -> list[list[Hypothesis]]:
    """The same by compiled steps; between two of them Python may be interrupted."""
    longest = _longest(source, options)
    hypotheses: list[list[Hypothesis]] = [[] for _ in longest]
    with NativeSearch(weights, source, beam=options.beam, min_length=options.min_length, longest=longest) as search:
        left: int | None = len(longest)
        while left:
            left = search.step()
        if left is None:
            raise _no_number(search.length)
        for sentence, pieces, log_probability, finished in search.found():
            score = log_probability / options.penalty(len(pieces) + finished)
            hypotheses[sentence].append(Hypothesis(pieces, log_probability, score, finished))
    return hypotheses


def _longest(source: Tensor, options: SearchOptions) -> list[int]:
    """Most tokens of each sentence's translation."""
    return [options.longest(int(n) - 1) for n in source.ne(PAD).sum(1)]


def _no_number(length: int) -> ValueError:
    return ValueError(
        f"expected probabilities of piece {length} of a translation, got NaN; the weights of the model are broken, or "
        "too large for its type of numbers"
    )


class _Search:
    """The state of a search: for each sentence that is not done, ``beam`` rows."""

    def __init__(self, model: Transformer, source: Tensor, options: SearchOptions) -> None:
        self.model, self.options = model, options
        self.alive = list(range(source.shape[0]))
        self.finished: list[list[Hypothesis]] = [[] for _ in self.alive]
        self.longest = _longest(source, options)
        self.device = source.device
        self.state: DecoderState = model.start(source)
        # At first a sentence's beams are all alike, so only the first may go on.
        dtype = torch.promote_types(model.projection.dtype, torch.float32)
        self.scores = torch.full((len(self.alive), options.beam), -torch.inf, dtype=dtype, device=self.device)
        self.scores[:, 0] = 0
        self.tokens = torch.full((len(self.alive) * options.beam, 1), BOS, device=self.device)

    def advance(self) -> None:
        """One more token for every row."""
        beam = self.options.beam
        hidden, self.state = self.model.step(self.tokens[:, -1], self.state)
        log_p = torch.log_softmax(self.model.logits(hidden).to(self.scores.dtype), dim=-1)
        for index in _FORBIDDEN:
            log_p[:, index] = -torch.inf
        if self.state.length < self.options.min_length:
            log_p[:, EOS] = -torch.inf
        # A row can end in one way only, so of each one more than `beam`, and of all twice `beam`, leave enough to go
        # on with.
        values, indices = best_of_rows(log_p, min(beam + 1, log_p.shape[1]))
        totals = (self.scores[:, :, None] + values.view(len(self.alive), beam, -1)).flatten(1)
        best, places = totals.topk(min(2 * beam, totals.shape[1]), dim=1)
        rows = places // indices.shape[1]
        words = indices.view(len(self.alive), -1).gather(1, places)
        ends = words.eq(EOS)
        self._finish(best, rows, ends)
        going_on = torch.where(ends, -torch.inf, best)
        chosen = going_on.topk(beam, dim=1)  # stays sorted: the best first
        self.scores = chosen.values
        origin = rows.gather(1, chosen.indices) + torch.arange(len(self.alive), device=self.device)[:, None] * beam
        flat = origin.flatten()
        self.tokens = torch.cat([self.tokens[flat], words.gather(1, chosen.indices).view(-1, 1)], dim=1)
        self.state = self.state.select_past(flat) if beam > 1 else self.state
        self._leave()

    def _finish(self, best: Tensor, rows: Tensor, ends: Tensor) -> None:
        """Take up the candidates that end and are among the first ``beam`` of their sentence."""
        beam, length = self.options.beam, self.state.length
        ending = ends[:, :beam] & torch.isfinite(best[:, :beam])
        for place, rank in ending.nonzero().tolist():
            found = self.finished[self.alive[place]]
            if len(found) < beam:
                row = place * beam + int(rows[place, rank])
                found.append(self._hypothesis(row, float(best[place, rank]), length, finished=True))

    def _hypothesis(self, row: int, log_probability: float, length: int, *, finished: bool) -> Hypothesis:
        pieces = self.tokens[row, 1:].tolist()
        return Hypothesis(pieces, log_probability, log_probability / self.options.penalty(length), finished)

    def _leave(self) -> None:
        """Sentences with enough hypotheses, at their greatest length, or with no way to go on leave the batch."""
        beam = self.options.beam
        staying: list[int] = []
        for place, (sentence, best) in enumerate(zip(self.alive, self.scores[:, 0].tolist(), strict=True)):
            found = self.finished[sentence]
            if math.isnan(best):
                raise _no_number(self.state.length)
            if len(found) < beam and self.state.length >= self.longest[sentence]:
                for rank, score in enumerate(self.scores[place].tolist()):
                    if len(found) < beam and score > -math.inf:
                        found.append(self._hypothesis(place * beam + rank, score, self.state.length, finished=False))
            elif len(found) < beam and best > -math.inf:
                staying.append(place)
        if len(staying) == len(self.alive):
            return
        self.alive = [self.alive[place] for place in staying]
        kept = torch.tensor(staying, dtype=torch.long, device=self.device)
        rows = (kept[:, None] * beam + torch.arange(beam, device=self.device)).flatten()
        self.scores, self.tokens = self.scores[kept], self.tokens[rows]
        self.state = self.state.select(kept, rows)


def best_of_rows(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """``scores.topk(count)``, several times faster: the best of a row lie in the blocks that have the best maxima."""
    vocabulary = scores.shape[1]
    num_blocks = vocabulary // _BLOCK
    if num_blocks <= 2 * count:
        values, indices = scores.topk(count, dim=1)
        return values, indices
    whole = num_blocks * _BLOCK
    maxima = scores[:, :whole].unflatten(1, (num_blocks, _BLOCK)).amax(-1)
    starts = maxima.topk(count, dim=1).indices * _BLOCK  # [N, count]
    inside = starts[:, :, None] + torch.arange(_BLOCK, device=scores.device)
    rest = torch.arange(whole, vocabulary, device=scores.device).expand(len(scores), -1)
    places = torch.cat([inside.flatten(1), rest], dim=1)
    values, order = scores.gather(1, places).topk(count, dim=1)
    return values, places.gather(1, order)
