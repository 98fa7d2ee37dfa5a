"""The Translator: sentences in, translations out, in the order they came."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

import numpy as np
import torch

from rela._warn import warn
from rela.decoding.search import Hypothesis, SearchOptions, beam_search
from rela.model.directory import Languages, load_model
from rela.model.transformer import Transformer
from rela.text.batches import pad_rows
from rela.text.store import Tokenizers
from rela.text.vocabulary import EOS

_BATCH_PLACES: Final = 2048
"""Source places in a batch, times beams: enough work for a core, little memory."""
_WINDOW: Final = 2048
"""Sentences of a stream that are sorted by length together."""


@dataclass(frozen=True)
class Translation:
    """A translated sentence.

    Attributes:
        text: the translation.
        score: its log-probability over GNMT's length penalty; 0 for an empty line.
        log_probability: the same without the penalty.
        finished: False if it was cut off at the greatest length.
        truncated: True if the source was too long and its end was left out.
        alternatives: further hypotheses, best first (``nbest`` counts this one too).
    """

    text: str
    score: float
    log_probability: float
    finished: bool = True
    truncated: bool = False
    alternatives: tuple[Translation, ...] = ()


class Translator:
    """A model that translates.

    >>> translator = rela.Translator.load("model-dir")
    >>> translator.translate(["A dog runs."], beam=4)[0].text
    """

    def __init__(self, model: Transformer, tokenizers: Tokenizers, languages: Languages | None = None) -> None:
        self.model = model.eval()
        self.tokenizers = tokenizers
        self.languages = languages

    @classmethod
    def load(cls, folder: str | os.PathLike[str], device: str | torch.device = "cpu") -> Translator:
        """Load a model directory, or the finished model of a run."""
        model, tokenizers, languages = load_model(folder)
        return cls(model.to(device), tokenizers, languages)

    def translate(
        self,
        sentences: Sequence[str],
        *,
        beam: int = 4,
        length_penalty: float = 0.6,
        nbest: int = 1,
        max_source: int = 1024,
        progress: Callable[[int], None] | None = None,
    ) -> list[Translation]:
        """Translate sentences. ``nbest`` of them, at most ``beam``, come with their scores.

        A source of more than ``max_source`` pieces is cut, with a warning. ``progress`` is called with the number
        of sentences done since the last call.
        """
        if isinstance(sentences, str):
            raise TypeError("sentences: expected a list of strings, got one string; put it into a list")
        if not 1 <= nbest <= beam:
            raise ValueError(f"nbest: expected 1 to beam = {beam}, got {nbest}")
        if max_source < 1:
            raise ValueError(f"max_source: expected at least 1 piece, got {max_source}")
        options = SearchOptions(beam=beam, length_penalty=length_penalty)
        encoded = [np.array(ids, np.int64) for ids in self.tokenizers.source.encode_batch(list(sentences))]
        too_long = [place for place, ids in enumerate(encoded) if len(ids) > max_source]
        if too_long:
            warn(
                f"{len(too_long)} of {len(encoded)} sentences have more than {max_source} pieces and were cut there, "
                f"first number {too_long[0] + 1}; split them, or raise max_source"
            )
        results: list[Translation | None] = [None] * len(encoded)
        for place, text in enumerate(sentences):
            if not text.strip():
                results[place] = Translation("", 0.0, 0.0)
        waiting = [place for place, result in enumerate(results) if result is None]
        for group in group_by_length([min(len(encoded[place]), max_source) for place in waiting], beam):
            places = [waiting[item] for item in group]
            found = self._search([encoded[place][:max_source] for place in places], options)
            for place, hypotheses in zip(places, found, strict=True):
                results[place] = self._translation(hypotheses[:nbest], len(encoded[place]) > max_source)
            if progress is not None:
                progress(len(places))
        if progress is not None and len(waiting) < len(results):
            progress(len(results) - len(waiting))
        return [result for result in results if result is not None]

    def stream(self, sentences: Iterable[str], *, window: int = _WINDOW, **options: int | float) -> Iterator[Translation]:
        """Translate an endless stream: ``window`` sentences are read, sorted and translated together."""
        iterator = iter(sentences)
        while chunk := list(islice(iterator, window)):
            yield from self.translate(chunk, **options)  # pyright: ignore[reportArgumentType]

    def _search(self, sources: list[np.ndarray[tuple[int], np.dtype[np.int64]]], options: SearchOptions) -> list[list[Hypothesis]]:
        device = self.model.projection.device
        return beam_search(self.model, torch.from_numpy(pad_rows(sources, after=EOS)).to(device), options)

    def _translation(self, hypotheses: Sequence[Hypothesis], truncated: bool) -> Translation:
        translations = [
            Translation(
                self.tokenizers.target.decode(h.pieces), h.score, h.log_probability, h.finished, truncated
            )
            for h in hypotheses
        ]
        best = translations[0]
        return Translation(
            best.text, best.score, best.log_probability, best.finished, truncated, tuple(translations[1:])
        )


def group_by_length(lengths: Sequence[int], beam: int) -> Iterator[list[int]]:
    """Places of sentences of like length, longest first; a function of the lengths alone."""
    order = sorted(range(len(lengths)), key=lambda place: -lengths[place])
    start = 0
    while start < len(order):
        count = max(1, _BATCH_PLACES // ((lengths[order[start]] + 1) * beam))
        yield order[start : start + count]
        start += count
