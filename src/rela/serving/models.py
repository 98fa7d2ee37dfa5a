"""The models of a service, and what is computed with them: whole batches, in one thread."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch

from rela.analysis.inspection import Inspection, inspect
from rela.attention.spec import Kind
from rela.decoding.packing import Precision
from rela.decoding.translator import Translation, Translator
from rela.filtering.scorer import Scorer
from rela.filtering.scores import PairScore
from rela.filtering.writing import marked
from rela.model.directory import Languages
from rela.serving.schemas import (
    HeadChoice,
    HeadWeights,
    Hypothesis,
    ModelInfo,
    ScoredPair,
    SuspiciousSpan,
    TranslatedText,
)
from rela.serving.settings import Settings
from rela.text.words import split_words


class TranslateKey(NamedTuple):
    """What translations of one batch have in common."""

    model: str
    beam: int
    length_penalty: float
    nbest: int


class ScoreKey(NamedTuple):
    """What scores of one batch have in common."""

    model: str
    spans: bool


class TranslateItem(NamedTuple):
    """One text, and what is wanted beside its translation."""

    text: str
    alignments: bool = False
    heads: bool = False
    attention: tuple[HeadChoice, ...] = ()

    @property
    def looks(self) -> bool:
        """Whether weights are wanted."""
        return self.heads or bool(self.attention)


@dataclass(frozen=True)
class ServedModel:
    """A model in memory; ``scorer`` is None if it does not know what a good pair is."""

    name: str
    translator: Translator
    scorer: Scorer | None
    languages: Languages

    def info(self) -> ModelInfo:
        """For GET /models."""
        config = self.translator.model.config
        return ModelInfo(
            name=self.name,
            source_language=self.languages.source,
            target_language=self.languages.target,
            attention=config.attention.label,
            parameters=self.translator.model.num_parameters(),
            encoder_layers=config.encoder_layers,
            decoder_layers=config.decoder_layers,
            heads=config.num_heads,
            scores=self.scorer is not None,
        )

    def check_head(self, choice: HeadChoice) -> None:
        """A ValueError for a head that the model does not have."""
        config = self.translator.model.config
        layers = config.encoder_layers if choice.kind == "encoder" else config.decoder_layers
        if choice.layer > layers or choice.head >= config.num_heads:
            raise ValueError(
                f"attention: expected layers 1 to {layers} and heads 0 to {config.num_heads - 1} of {choice.kind}, got "
                f"layer {choice.layer}, head {choice.head}"
            )


class ServedModels:
    """All models of a service, by name."""

    def __init__(self, settings: Settings) -> None:
        if settings.threads is not None:
            torch.set_num_threads(settings.threads)
        self.by_name = {name: _load(name, Path(path), settings) for name, path in settings.models.items()}

    @property
    def first(self) -> ServedModel:
        """The one that answers where none is named."""
        return next(iter(self.by_name.values()))

    def compute(self, key: Hashable, items: list[Any]) -> Sequence[Any]:
        """What a batch comes to."""
        if isinstance(key, TranslateKey):
            return self._translate(key, items)
        assert isinstance(key, ScoreKey)
        return self._score(key, items)

    def _translate(self, key: TranslateKey, items: list[TranslateItem]) -> list[TranslatedText]:
        translator = self.by_name[key.model].translator
        found = translator.translate(
            [item.text for item in items],
            beam=key.beam,
            length_penalty=key.length_penalty,
            nbest=key.nbest,
            warn_truncated=False,
        )
        answers = [_translated(one) for one in found]
        linked = [place for place, item in enumerate(items) if item.alignments]
        self._link(translator, items, answers, linked)
        seen = [place for place, item in enumerate(items) if item.looks and answers[place].text.strip()]
        inspections = (
            inspect(translator, [items[p].text for p in seen], [answers[p].text for p in seen]) if seen else []
        )
        for place, inspection in zip(seen, inspections, strict=True):
            _look(items[place], answers[place], inspection)
        return answers

    def _link(
        self, translator: Translator, items: list[TranslateItem], answers: list[TranslatedText], places: list[int]
    ) -> None:
        for place in places:
            answer = answers[place]
            answer.source_words, answer.target_words = _words(items[place].text), _words(answer.text)
            answer.alignment = []
        whole = [place for place in places if answers[place].source_words and answers[place].target_words]
        pairs = [(items[place].text, answers[place].text) for place in whole]
        for place, aligned in zip(whole, translator.align(pairs) if pairs else (), strict=True):
            answers[place].alignment = [(int(link[0]), int(link[1])) for link in aligned.links]

    def _score(self, key: ScoreKey, items: list[tuple[str, str]]) -> list[ScoredPair]:
        scorer = self.by_name[key.model].scorer
        assert scorer is not None
        return [
            _scored(score, pair[1]) for score, pair in zip(scorer.score(items, spans=key.spans), items, strict=True)
        ]


def _load(name: str, path: Path, settings: Settings) -> ServedModel:
    translator = Translator.load(path, precision=cast("Precision", settings.precision))
    scorer = Scorer.load(path)
    assert translator.languages is not None
    return ServedModel(
        name,
        translator,
        None if scorer.calibration is None else replace(scorer, model=translator.model),
        translator.languages,
    )


def _words(text: str) -> list[str]:
    return [text[span.start : span.end] for span in split_words(text)]


def _hypothesis(found: Translation) -> Hypothesis:
    return Hypothesis(
        text=found.text, score=found.score, log_probability=found.log_probability, finished=found.finished
    )


def _translated(found: Translation) -> TranslatedText:
    return TranslatedText(
        **_hypothesis(found).model_dump(),
        truncated=found.truncated,
        nbest=[_hypothesis(one) for one in (found, *found.alternatives)] if found.alternatives else [],
    )


def _look(item: TranslateItem, answer: TranslatedText, seen: Inspection) -> None:
    answer.source_words, answer.target_words = seen.source_words, seen.target_words
    if item.heads:
        answer.null_rates = np.round(seen.null("cross").mean(-1), 4).tolist()
    for choice in item.attention:
        kind: Kind = choice.kind
        weights, queries, keys = seen.words(kind)
        found = weights[choice.layer - 1, choice.head]
        rows = seen.source_word_pieces if kind == "encoder" else seen.target_word_pieces
        shift = 0 if kind == "encoder" else 1  # the row whose input is the piece
        null = seen.null(kind)[choice.layer - 1, choice.head]
        answer.attention.append(
            HeadWeights(
                kind=kind,
                layer=choice.layer,
                head=choice.head,
                queries=queries,
                keys=keys,
                weights=np.round(found.astype(np.float64), 5).tolist(),
                null=[bool(all(null[piece + shift] for piece in pieces)) for pieces in rows],
            )
        )


def _scored(score: PairScore, target: str) -> ScoredPair:
    data = score.to_json()
    words = data.pop("suspicious")
    spans = None if words is None else [SuspiciousSpan(**one) for one in marked(target, words)]
    return ScoredPair(**data, suspicious=spans)
