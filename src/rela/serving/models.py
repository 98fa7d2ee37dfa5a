"""The models of a service, and what is computed with them: whole batches, in one thread."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import torch

from rela.decoding.packing import Precision
from rela.decoding.translator import Translation, Translator
from rela.filtering.scorer import Scorer
from rela.filtering.scores import PairScore
from rela.filtering.writing import marked
from rela.model.directory import Languages
from rela.serving.looking import MOST_PIECES, look
from rela.serving.schemas import (
    HeadChoice,
    Hypothesis,
    ModelInfo,
    ScoredPair,
    SuspiciousSpan,
    TranslatedText,
)
from rela.serving.settings import Settings
from rela.text.subwords import Subwords
from rela.text.words import split_words, word_texts

_SCORED_TOGETHER: Final = 4096
"""Pieces of both sides: enough for batches of pairs of like length, little enough to stop in between."""


class TranslateKey(NamedTuple):
    """What translations of one batch have in common."""

    model: str
    beam: int
    length_penalty: float
    nbest: int
    alignments: bool


class ScoreKey(NamedTuple):
    """What scores of one batch have in common."""

    model: str
    spans: bool


class TranslateItem(NamedTuple):
    """One text, and what is wanted beside its translation."""

    text: str
    heads: bool = False
    attention: tuple[HeadChoice, ...] = ()

    @property
    def looks(self) -> bool:
        """Whether weights are wanted."""
        return self.heads or bool(self.attention)


class ScoreItem(NamedTuple):
    """A pair, and how many pieces both sides have."""

    source: str
    target: str
    pieces: int


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

    def source_pieces(self, texts: Sequence[str]) -> list[int]:
        """Of each text, EOS among them: as many as are translated."""
        return _counted(self.translator.tokenizers.source, texts)

    def pair_pieces(self, pairs: Sequence[tuple[str, str]]) -> list[int]:
        """Of both sides of each pair."""
        tokenizers = self.translator.tokenizers
        sources = _counted(tokenizers.source, [source for source, _ in pairs])
        targets = _counted(tokenizers.target, [target for _, target in pairs])
        return [source + target for source, target in zip(sources, targets, strict=True)]

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

    def compute(self, key: Hashable, items: list[Any], go_on: Callable[[], None]) -> Sequence[Any]:
        """What a batch comes to."""
        if isinstance(key, TranslateKey):
            return self._translate(key, items, go_on)
        assert isinstance(key, ScoreKey)
        return self._score(key, items, go_on)

    def _translate(
        self, key: TranslateKey, items: list[TranslateItem], go_on: Callable[[], None]
    ) -> list[TranslatedText]:
        translator = self.by_name[key.model].translator
        found = translator.translate(
            [item.text for item in items],
            beam=key.beam,
            length_penalty=key.length_penalty,
            nbest=key.nbest,
            max_source=MOST_PIECES,
            align=key.alignments,
            warn_truncated=False,
            progress=lambda _: go_on(),
        )
        answers = [_translated(one) for one in found]
        for item, answer in zip(items, answers, strict=True):
            if key.alignments or item.looks:
                answer.source_words, answer.target_words = _words(item.text), _words(answer.text)
            if item.looks and answer.text.strip():
                go_on()
                looked = look(translator, item.text, answer.text, heads=item.heads, choices=item.attention)
                answer.null_rates, answer.attention = looked
        return answers

    def _score(self, key: ScoreKey, items: list[ScoreItem], go_on: Callable[[], None]) -> list[ScoredPair]:
        scorer = self.by_name[key.model].scorer
        assert scorer is not None
        found: list[ScoredPair] = []
        for group in _neighbours(items):
            go_on()
            scores = scorer.score([(item.source, item.target) for item in group], spans=key.spans)
            found += [_scored(score, item.target) for score, item in zip(scores, group, strict=True)]
        return found


def _neighbours(items: Sequence[ScoreItem]) -> Iterator[list[ScoreItem]]:
    """In order, so many at a time as are scored together."""
    group: list[ScoreItem] = []
    pieces = 0
    for item in items:
        if group and pieces + item.pieces > _SCORED_TOGETHER:
            yield group
            group, pieces = [], 0
        group.append(item)
        pieces += item.pieces
    yield group


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


def _counted(subwords: Subwords, texts: Sequence[str]) -> list[int]:
    return [min(len(ids), MOST_PIECES) + 1 for ids in subwords.encode_batch(texts)]


def _words(text: str) -> list[str]:
    return word_texts(text, split_words(text))


def _hypothesis(found: Translation) -> Hypothesis:
    return Hypothesis(
        text=found.text, score=found.score, log_probability=found.log_probability, finished=found.finished
    )


def _translated(found: Translation) -> TranslatedText:
    return TranslatedText(
        **_hypothesis(found).model_dump(),
        truncated=found.truncated,
        nbest=[_hypothesis(one) for one in (found, *found.alternatives)] if found.alternatives else [],
        alignment=None if found.alignment is None else list(found.alignment),
    )


def _scored(score: PairScore, target: str) -> ScoredPair:
    data = score.to_json()
    words = data.pop("suspicious")
    spans = None if words is None else [SuspiciousSpan(**one) for one in marked(target, words)]
    return ScoredPair(**data, suspicious=spans)
