"""The Translator: sentences in, translations out, in the order they came."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from rela._device import checked_device
from rela._warn import warn
from rela.alignment.choice import Choice, default_choice, load_choice
from rela.alignment.errors import Link
from rela.alignment.links import Alignment, align_encoded
from rela.alignment.links import align as align_pairs
from rela.alignment.pairs import EncodedPair, cut_side, decoded_side, encode_side
from rela.decoding.choice import native_decoder
from rela.decoding.packing import Precision
from rela.decoding.search import Hypothesis, SearchOptions, beam_search, check_precision, check_whole
from rela.model.directory import Languages, find_model_folder, load_model
from rela.model.transformer import Transformer
from rela.text.batches import pad_rows
from rela.text.store import Tokenizers
from rela.text.vocabulary import EOS
from rela.text.worded import Wording

T = TypeVar("T")

_BATCH_PLACES: Final = 2048
"""Source places in a batch, times beams: enough work for a core, little memory."""


@dataclass(frozen=True)
class Translation:
    """A translated sentence.

    Attributes:
        text: the translation.
        score: its log-probability over GNMT's length penalty; 0 for an empty line.
        log_probability: the same without the penalty.
        finished: False if it was cut off at the greatest length.
        truncated: True if the source was too long and its end was left out.
        alignment: pairs (source word, target word), if asked for; words are those of ``rela.text.words.split_words``.
            Words beyond the cut of a truncated source have none.
        alternatives: further hypotheses, best first (``nbest`` counts this one too).
    """

    text: str
    score: float
    log_probability: float
    finished: bool = True
    truncated: bool = False
    alignment: tuple[Link, ...] | None = None
    alternatives: tuple[Translation, ...] = ()


_EMPTY: Final = Translation("", 0.0, 0.0)


class Translator:
    """A model that translates. ``precision="int8"`` rounds its weights, on the CPU: faster, scores almost the same.

    >>> translator = rela.Translator.load("model-dir")
    >>> translator.translate(["A dog runs."], beam=4)[0].text
    """

    def __init__(
        self,
        model: Transformer,
        tokenizers: Tokenizers,
        languages: Languages | None = None,
        alignment: Choice | None = None,
        precision: Precision = "fp32",
    ) -> None:
        check_precision(precision)
        if precision != "fp32":  # said now, not with the first sentence
            example = torch.full((1, 1), EOS, device=model.projection.device)
            native_decoder(model, example, needed_for=f"precision {precision}")
        self.model = model
        self.precision: Precision = precision
        self.alignment = default_choice(model) if alignment is None else alignment
        self.tokenizers = tokenizers
        self.languages = languages

    @classmethod
    def load(
        cls, folder: str | os.PathLike[str], device: str | torch.device = "cpu", precision: Precision = "fp32"
    ) -> Translator:
        """Load a model directory, or the finished model of a run."""
        if not isinstance(folder, str | os.PathLike):  # pyright: ignore[reportUnnecessaryIsInstance] (callers may be untyped)
            raise TypeError(f"folder: expected the path of a model directory, got {folder!r}")
        where = checked_device(device)
        model, tokenizers, languages = load_model(folder)
        alignment = load_choice(find_model_folder(Path(folder)), model)
        return cls(model.to(where), tokenizers, languages, alignment, precision)

    def translate(
        self,
        sentences: Sequence[str],
        *,
        beam: int = 4,
        length_penalty: float = 0.6,
        nbest: int = 1,
        min_length: int = 0,
        max_length: int | None = None,
        max_source: int = 1024,
        align: bool = False,
        warn_truncated: bool = True,
        progress: Callable[[int], None] | None = None,
    ) -> list[Translation]:
        """Translate sentences. ``nbest`` hypotheses of each, at most ``beam``, come with their scores.

        A sentence of nothing but blanks has as many as the others, all of them empty, with the score 0.

        ``min_length`` and ``max_length`` bound the tokens of a translation, its end among them; without, it has at
        most twice as many as the source, and 20 more. A source of more than ``max_source`` pieces is cut, with a
        warning unless ``warn_truncated`` is False. ``align`` adds word links. ``progress`` is called with the number
        of sentences done since the last call.
        """
        sentences = _checked_texts(sentences)
        options = SearchOptions(
            beam=beam,
            length_penalty=length_penalty,
            min_length=min_length,
            max_length=max_length,
            precision=self.precision,
        )
        check_whole("nbest", nbest)
        check_whole("max_source", max_source)
        if not 1 <= nbest <= beam:
            raise ValueError(f"nbest: expected 1 to beam = {beam}, got {nbest}")
        if max_source < 1:
            raise ValueError(f"max_source: expected at least 1 piece, got {max_source}")
        encoded = [np.array(ids, np.int64) for ids in self.tokenizers.source.encode_batch(sentences)]
        too_long = [place for place, ids in enumerate(encoded) if len(ids) > max_source and sentences[place].strip()]
        if too_long and warn_truncated:
            warn(
                f"{len(too_long)} of {len(encoded)} sentences have more than {max_source} pieces and were cut there, "
                f"first number {too_long[0] + 1}; split them, or raise max_source"
            )
        results: list[Translation | None] = [None] * len(encoded)
        for place, text in enumerate(sentences):
            if not text.strip():
                empty = replace(_EMPTY, alignment=() if align else None)
                results[place] = replace(empty, alternatives=(empty,) * (nbest - 1))
        waiting = [place for place, result in enumerate(results) if result is None]
        for group in group_by_length([min(len(encoded[place]), max_source) for place in waiting], beam):
            places = [waiting[item] for item in group]
            found = [best[:nbest] for best in self._search([encoded[place][:max_source] for place in places], options)]
            links = self._links([sentences[place] for place in places], found, max_source) if align else None
            for place, hypotheses in zip(places, found, strict=True):
                results[place] = self._translation(hypotheses, len(encoded[place]) > max_source, links)
            if progress is not None:
                progress(len(places))
        if progress is not None and len(waiting) < len(results):
            progress(len(results) - len(waiting))
        return [result for result in results if result is not None]

    def align(self, pairs: Sequence[tuple[str, str]]) -> Iterator[Alignment]:
        """Word links of sentence pairs, by the weights that were found to align best (``alignment``)."""
        checked = _checked_pairs(_listed("pairs", pairs, "pairs (source, target)"))
        return align_pairs(self.model, self.tokenizers, checked, self.alignment)

    def _links(
        self, sources: Sequence[str], found: Sequence[Sequence[Hypothesis]], max_source: int
    ) -> Iterator[tuple[Link, ...]]:
        """Word links of each hypothesis of each source, by forced decoding of the very pieces that the search found."""
        subwords, read = self.tokenizers.source, Wording().read
        sides = (cut_side(encode_side(subwords, read(text)), max_source) for text in sources)
        pairs = (
            EncodedPair(number, source, decoded_side(self.tokenizers.target, hypothesis.pieces))
            for number, (source, hypotheses) in enumerate(zip(sides, found, strict=True), start=1)
            for hypothesis in hypotheses
        )
        return (tuple(aligned.links) for aligned in align_encoded(self.model, pairs, self.alignment))

    def _search(self, sources: list[NDArray[np.int64]], options: SearchOptions) -> list[list[Hypothesis]]:
        device = self.model.projection.device
        return beam_search(self.model, torch.from_numpy(pad_rows(sources, after=EOS)).to(device), options)

    def _translation(
        self, hypotheses: Sequence[Hypothesis], truncated: bool, links: Iterator[tuple[Link, ...]] | None
    ) -> Translation:
        """``links`` are those of these hypotheses, and then those of the next sentences'."""
        translations = [
            Translation(
                self.tokenizers.target.decode(h.pieces),
                h.score,
                h.log_probability,
                h.finished,
                truncated,
                None if links is None else next(links),
            )
            for h in hypotheses
        ]
        return replace(translations[0], alternatives=tuple(translations[1:]))


def group_by_length(lengths: Sequence[int], beam: int) -> Iterator[list[int]]:
    """Places of sentences of like length, longest first; a function of the lengths alone."""
    order = sorted(range(len(lengths)), key=lambda place: -lengths[place])
    start = 0
    while start < len(order):
        count = max(1, _BATCH_PLACES // ((lengths[order[start]] + 1) * beam))
        yield order[start : start + count]
        start += count


def _listed(name: str, values: Iterable[T], what: str) -> list[T]:
    """The values as a list; a single text, which is made of texts too, is hardly meant as one."""
    if isinstance(values, str):
        raise TypeError(f"{name}: expected a list of {what}, got one string; put it into a list")
    if isinstance(values, bytes) or not isinstance(values, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance] (callers may be untyped)
        raise TypeError(f"{name}: expected a list of {what}, got {type(values).__name__}")
    return list(values)


def _checked_pairs(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The same, if each is a pair of texts."""
    for place, pair in enumerate(pairs):
        if not isinstance(pair, tuple | list) or len(pair) != 2 or not all(isinstance(text, str) for text in pair):  # pyright: ignore[reportUnnecessaryIsInstance, reportUnnecessaryComparison] (callers may be untyped)
            raise TypeError(f"pairs: expected pairs of strings (source, target), got {pair!r} as number {place + 1}")
    return pairs


def _checked_texts(sentences: Iterable[str]) -> list[str]:
    """The sentences as a list; what is no text, or none that UTF-8 has bytes for, is named."""
    texts = _listed("sentences", sentences, "strings")
    for place, text in enumerate(texts):
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"sentences: expected strings, got {type(text).__name__} as number {place + 1}")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(
                f"sentences: expected text, got half a character (a lone surrogate, U+{ord(text[error.start]):04X}) in "
                f"number {place + 1}; decode the bytes with errors='replace'"
            ) from None
    return texts
