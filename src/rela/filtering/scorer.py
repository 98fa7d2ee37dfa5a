"""`Scorer`: how good are sentence pairs? A model under forced decoding tells."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from rela._device import checked_device
from rela._files import digest
from rela._warn import warn
from rela.filtering.calibration import Calibration
from rela.filtering.encoding import EncodedWindow, PaddedBatch
from rela.filtering.features import (
    BatchFeatures,
    Floats,
    Forced,
    area_under_curve,
    batch_features,
    by_word,
    force,
    longest_run,
    null_words,
)
from rela.filtering.letters import Letters
from rela.filtering.noises import NOISES, Material, make_noise
from rela.filtering.quality import fit_quality
from rela.filtering.scores import COLUMNS, PairScore
from rela.model.directory import QUALITY_FILE, WEIGHTS_FILE, Languages, find_model_folder, load_model
from rela.model.transformer import Transformer
from rela.text.rows import WINDOW
from rela.text.store import Tokenizers

MAX_PIECES: Final = 1024
FEWEST_PAIRS: Final = 50
"""A calibration from fewer pairs would learn them by heart."""

_MATCHES: Final = 0.6  # of the area under the curve: a head below this does not tell a match
_SPOILED: Final = 4
"""Spoiled pairs that quality is learned from, for each pair of the corpus."""
LOOKS: Final = _SPOILED + 2
"""How often a sample is looked at, about, to learn quality: as it is, spoiled, and with its targets shuffled."""
_WORD_LOSS: Final = 99.0  # percentile of the words of pairs as they are
_SURFACE: Final = ("length_ratio", "copied", "numbers", "strange.source", "strange.target")
_DIGITS: Final = re.compile(r"\d+")


class TooFewPairsError(ValueError):
    """There is not enough to learn quality from."""


def _nobody(_: int) -> None:
    pass


@dataclass(frozen=True)
class WindowScores:
    """The scores of a window's pairs ``[n, columns]``. Those with too many pieces are not ``kept``, and have NaN."""

    values: NDArray[np.float32]
    kept: NDArray[np.bool_]
    suspicious: list[tuple[int, ...]] | None


class _Seen(NamedTuple):
    """What forced decoding found about a window: features of each pair, and of its words what was asked for."""

    features: Floats  # [n, F]
    null_run: NDArray[np.int64]
    suspicious: list[tuple[int, ...]] | None
    word_losses: list[Floats]


@dataclass(frozen=True, kw_only=True)
class Scorer:
    """A model that scores sentence pairs.

    >>> scorer = rela.Scorer.load("model-dir")
    >>> scorer.score([("A dog runs .", "Ein Hund läuft .")])[0].null_rate

    Attributes:
        calibration: what quality is by; None if there is none yet (:meth:`calibrated`).
        max_pieces: pairs with a side of more pieces are not scored.
        weights_digest: a hash of the model's weights.
    """

    model: Transformer
    tokenizers: Tokenizers
    languages: Languages
    weights_digest: str
    calibration: Calibration | None = None
    max_pieces: int = MAX_PIECES

    @classmethod
    def load(
        cls, folder: str | Path, device: str | torch.device = "cpu", *, calibration: str | Path | None = None
    ) -> Scorer:
        """From a model directory, or a run's folder, with the calibration that lies in it or the one that is named."""
        found = find_model_folder(Path(folder))
        model, tokenizers, languages = load_model(found)
        scorer = cls(
            model=model.to(checked_device(str(device))).eval(),
            tokenizers=tokenizers,
            languages=languages,
            weights_digest=digest(found / WEIGHTS_FILE),
        )
        if calibration is not None:
            return scorer.with_calibration(Calibration.load(Path(calibration)), str(calibration))
        path = found / QUALITY_FILE
        if not path.is_file():
            return scorer
        try:
            return scorer.with_calibration(Calibration.load(path), str(path))
        except ValueError as error:  # the model is as good as ever
            warn(f"{error}; it is left out, and quality is learned from what is scored")
            return scorer

    def with_calibration(self, calibration: Calibration, where: str = "calibration") -> Scorer:
        """The same model with another calibration, which must be made with it."""
        config = self.model.config
        fits = calibration.matching.shape == (config.decoder_layers, config.num_heads)
        if calibration.model != self.weights_digest or calibration.quality.names != self.feature_names or not fits:
            raise ValueError(f"{where}: expected a calibration of this model, got one of another; calibrate anew")
        return replace(self, calibration=calibration)

    # ------------------------------------------------------------------ scoring

    def score(self, pairs: Iterable[tuple[str, str]], *, spans: bool = False) -> list[PairScore]:
        """The scores of pairs of source and target; with ``spans`` also the places of suspicious target words.

        Without a calibration, quality is learned from these very pairs, if there are enough of them.
        """
        _check_iterable(pairs)
        pairs = list(pairs)
        _check_texts(pairs)
        scorer = self if self.calibration is not None else self.calibrated(pairs)
        return [
            score
            for start in range(0, len(pairs), WINDOW)
            for score in _pair_scores(scorer.score_window(pairs[start : start + WINDOW], spans=spans))
        ]

    def score_window(self, pairs: Sequence[tuple[str, str]], *, spans: bool = False) -> WindowScores:
        """The same as arrays, for at most a window of pairs: their batches are made of them alone."""
        if self.calibration is None:
            raise ValueError("expected a calibration, got none; call calibrated(pairs) first")
        window = EncodedWindow.encode(self.tokenizers, pairs)
        kept = window.longest <= self.max_pieces
        values = np.full((len(pairs), len(COLUMNS)), np.nan, np.float32)
        values[:, COLUMNS.index("quality")] = 0.0
        places = np.flatnonzero(kept)
        seen = self._look(window, pairs, places, letters=self.calibration.letters, spans=spans)
        columns = self._columns(seen)
        for number, name in enumerate(COLUMNS):
            values[places, number] = columns[name]
        suspicious = None
        if seen.suspicious is not None:
            found = dict(zip(places.tolist(), seen.suspicious, strict=True))
            suspicious = [found.get(place, ()) for place in range(len(pairs))]
        return WindowScores(values, kept, suspicious)

    def _columns(self, seen: _Seen) -> dict[str, Floats]:
        assert self.calibration is not None
        layers, heads = self.calibration.matching.shape
        features = dict(zip(self.feature_names, seen.features.T, strict=True))

        def of(name: str) -> Floats:  # [layers, heads, n]
            return np.array(
                [[features[f"{name}.{layer}.{head}"] for head in range(heads)] for layer in range(1, layers + 1)]
            )

        null = of("null")
        return {
            "null_rate": null.mean((0, 1)),
            "null_rate_matching": null[self.calibration.matching].mean(0),
            "cross_entropy": features["cross_entropy"],
            "surprise": features["surprise"],
            "coverage": of("coverage")[-1].mean(0),
            "null_run": seen.null_run.astype(np.float64),
            "length_ratio": np.exp(features["length_ratio"]),
            "quality": self.calibration.quality.quality(seen.features),
        }

    # ------------------------------------------------------------------ what is behind the scores

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Of all that quality is made of. Layers count from 1, heads from 0."""
        config = self.model.config
        places = [
            f"{layer}.{head}" for layer in range(1, config.decoder_layers + 1) for head in range(config.num_heads)
        ]
        return (
            *("cross_entropy", "surprise", "spread", "end"),
            *(f"{name}.{place}" for name in ("null", "coverage", "gap") for place in places),
            *_SURFACE,
        )

    def features(self, pairs: Sequence[tuple[str, str]], letters: tuple[Letters, Letters] | None = None) -> Floats:
        """``[n, F]`` in the order of :attr:`feature_names`; NaN for pairs with too many pieces.

        ``letters`` are those of the corpus; without them, of the calibration.
        """
        _check_texts(pairs)
        if letters is None and self.calibration is not None:
            letters = self.calibration.letters
        if letters is None:
            raise ValueError("expected a calibration, or letters, to compare texts with, got none")
        found = np.full((len(pairs), len(self.feature_names)), np.nan)
        for start in range(0, len(pairs), WINDOW):
            some = pairs[start : start + WINDOW]
            window = EncodedWindow.encode(self.tokenizers, some)
            places = np.flatnonzero(window.longest <= self.max_pieces)
            found[start + places] = self._look(window, some, places, letters=letters).features
        return found

    def _look(
        self,
        window: EncodedWindow,
        pairs: Sequence[tuple[str, str]],
        places: NDArray[np.int64],
        *,
        letters: tuple[Letters, Letters],
        spans: bool = False,
        word_losses: bool = False,
    ) -> _Seen:
        """Forced decoding of some pairs of a window."""
        features = np.zeros((len(places), len(self.feature_names)))
        runs = np.zeros(len(places), np.int64)
        order = np.zeros(len(pairs), np.int64)
        order[places] = np.arange(len(places))
        suspicious: list[tuple[int, ...]] | None = [() for _ in range(len(places))] if spans else None
        losses: list[Floats] = []
        for batch in window.batches(places):
            forced = force(self.model, batch)
            rows = order[batch.places]
            features[rows] = _flat(batch_features(forced), len(self.feature_names))
            if self.calibration is not None:
                flags = null_words(forced, batch, self.calibration.matching)
                runs[rows] = longest_run(flags)
                if suspicious is not None:
                    flags |= _word_losses(forced, batch) > self.calibration.word_loss
                    for row, found in zip(rows.tolist(), flags, strict=True):
                        suspicious[row] = tuple(np.flatnonzero(found).tolist())
            if word_losses:
                found = _word_losses(forced, batch)
                losses.append(found[np.arange(found.shape[1]) < batch.num_words[:, None]])
        features[:, -len(_SURFACE) :] = _surface([pairs[place] for place in places.tolist()], letters)
        return _Seen(features, runs, suspicious, losses)

    # ------------------------------------------------------------------ calibration

    def calibrated(
        self,
        pairs: Iterable[tuple[str, str]],
        *,
        noises: Sequence[str] = tuple(NOISES),
        seed: int = 1,
        tell: Callable[[int], object] = _nobody,
    ) -> Scorer:
        """The same model, calibrated on a sample of a corpus: its pairs, and the same pairs spoiled in these ways.

        ``tell`` is told how many more pairs were looked at: of :data:`LOOKS` times those of the sample, about.
        """
        if isinstance(noises, str) or not noises or not set(noises) <= set(NOISES):
            raise ValueError(f"noises: expected a list of some of {', '.join(NOISES)}, got {noises!r}")
        if seed < 0:
            raise ValueError(f"seed: expected 0 or more, got {seed}")
        _check_iterable(pairs)
        pairs = list(pairs)
        _check_texts(pairs)
        window = EncodedWindow.encode(self.tokenizers, pairs)
        places = np.flatnonzero(window.longest <= self.max_pieces)
        if len(places) < FEWEST_PAIRS:
            raise TooFewPairsError(
                f"expected at least {FEWEST_PAIRS} pairs to learn from what a good pair is, got {len(places)}; "
                "calibrate on more pairs of the same kind"
            )
        usable = [pairs[place] for place in places.tolist()]
        letters = Letters.learn([source for source, _ in usable]), Letters.learn([target for _, target in usable])
        seen = self._look(window, pairs, places, letters=letters, word_losses=True)
        tell(len(usable))
        material = Material(usable, self.languages.target)
        spoiled = self.spoiled_features(material, noises, seed, letters, tell)
        shuffled = self.features(
            [(noisy.source, noisy.target) for noisy in make_noise("shuffled", material, seed)], letters
        )
        tell(len(shuffled))
        if not spoiled:
            raise TooFewPairsError(
                "expected pairs that can be spoiled, to learn from what a bad pair is, got none, such as the same pair "
                "again and again; calibrate on other pairs of the same kind"
            )
        quality = fit_quality(self.feature_names, seen.features, np.concatenate([*spoiled.values()]), [*spoiled], seed)
        return replace(
            self,
            calibration=Calibration(
                quality,
                self._matching(seen.features, shuffled[~np.isnan(shuffled[:, 0])]),
                float(np.percentile(np.concatenate(seen.word_losses), _WORD_LOSS)),
                letters,
                self.weights_digest,
            ),
        )

    def spoiled_features(
        self,
        material: Material,
        noises: Sequence[str],
        seed: int,
        letters: tuple[Letters, Letters] | None = None,
        tell: Callable[[int], object] = _nobody,
    ) -> dict[str, Floats]:
        """Features ``[m, F]`` of spoiled pairs, by noise: of each about as many, in all four for each pair."""
        chosen = np.random.default_rng(seed).permutation(len(material.pairs))
        share = max(1, _SPOILED * len(chosen) // len(noises))
        found: dict[str, Floats] = {}
        for number, noise in enumerate(noises):
            made = {noisy.place: (noisy.source, noisy.target) for noisy in make_noise(noise, material, seed)}
            turned = np.roll(chosen, -number * share).tolist()
            features = self.features([made[place] for place in turned if place in made][:share], letters)
            tell(len(features))
            if len(features := features[~np.isnan(features[:, 0])]):  # not those with too many pieces
                found[noise] = features
        return found

    def _matching(self, real: Floats, shuffled: Floats) -> NDArray[np.bool_]:
        """Heads whose weights are larger where the target belongs to the source; at least the best one. All, if there
        are no targets to shuffle."""
        config = self.model.config
        if not len(shuffled):
            return np.ones((config.decoder_layers, config.num_heads), np.bool_)
        size = config.decoder_layers * config.num_heads
        first = self.feature_names.index("coverage.1.0")
        areas = np.array(
            [area_under_curve(shuffled[:, column], real[:, column]) for column in range(first, first + size)]
        ).reshape(config.decoder_layers, config.num_heads)
        return areas >= min(_MATCHES, float(areas.max()))

    def remember(self, folder: str | Path) -> Path:
        """Keep the calibration in the model directory; returns its file."""
        if self.calibration is None:
            raise ValueError("expected a calibration to keep, got none; call calibrated(pairs) first")
        path = find_model_folder(Path(folder)) / QUALITY_FILE
        self.calibration.save(path)
        return path


def _flat(found: BatchFeatures, width: int) -> Floats:
    parts = [np.reshape(values, (len(values), -1)) for values in found]
    flat = np.concatenate(parts, axis=1)
    return np.concatenate([flat, np.zeros((len(flat), width - flat.shape[1]))], axis=1)


def _word_losses(forced: Forced, batch: PaddedBatch) -> Floats:
    """``[B, words]``: the mean loss of each word's pieces; 0 where there is none."""
    losses = np.zeros(batch.words.shape)
    losses[:, 1:] = forced.losses[:, :-1].double().cpu().numpy()  # that of a piece, where it is the input
    sums = by_word(losses, batch, np.add, empty=0.0)
    counts = by_word(np.ones_like(losses), batch, np.add, empty=0.0)
    return np.asarray(sums / np.maximum(counts, 1.0), np.float64)


def _surface(pairs: Sequence[tuple[str, str]], letters: tuple[Letters, Letters]) -> Floats:
    """Of the texts alone ``[n, 5]``: the logarithm of the length ratio, the share of target words that stand in the
    source too, the share of numbers in digits that stand on one side only, and how strange both sides look."""
    found = np.zeros((len(pairs), len(_SURFACE)))
    if not pairs:
        return found
    for side in (0, 1):
        found[:, 3 + side] = letters[side].strangeness([pair[side] for pair in pairs])
    for place, (source, target) in enumerate(pairs):
        words, known = target.split(), set(source.split())
        numbers = [set(_DIGITS.findall(text)) for text in (source, target)]
        either = numbers[0] | numbers[1]
        found[place, :3] = (
            np.log(len(target) / len(source)),
            sum(word in known for word in words) / len(words),
            len(numbers[0] ^ numbers[1]) / len(either) if either else 0.0,
        )
    return found


def _pair_scores(window: WindowScores) -> Iterator[PairScore]:
    for place, values in enumerate(window.values.tolist()):
        yield PairScore(
            **dict(zip(COLUMNS, values, strict=True)),
            problem=None if window.kept[place] else "too-many-pieces",
            suspicious=None if window.suspicious is None else window.suspicious[place],
        )


def _check_iterable(pairs: object) -> None:
    if not isinstance(pairs, Iterable):
        raise TypeError(f"pairs: expected pairs of source and target, such as a list of them, got {pairs!r:.60}")


def _check_texts(pairs: Sequence[Any]) -> None:
    for number, pair in enumerate(pairs):
        if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
            raise ValueError(f"pair {number}: expected a source and a target, got {pair!r:.60}")
        for side, text in zip(("source", "target"), pair, strict=True):
            if not isinstance(text, str):
                raise TypeError(f"pair {number}: expected text on both sides, got {text!r:.60} for the {side}")
            if not text or text.isspace():
                raise ValueError(f"pair {number}: expected text on both sides, got an empty {side}; leave it out")
