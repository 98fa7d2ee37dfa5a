"""How well do scores tell noise from good pairs? Noise of each kind is made by seed; a score has to rank it last."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rela._version import __version__
from rela.alignment.choice import load_choice
from rela.filtering.encoding import EncodedWindow
from rela.filtering.features import area_under_curve, force
from rela.filtering.letters import Letters
from rela.filtering.noises import NOISES, Material, make_noise
from rela.filtering.quality import QualityModel, fit_quality
from rela.filtering.scorer import Scorer
from rela.filtering.scores import COLUMNS, SCORES
from rela.model.directory import find_model_folder
from rela.text.rows import WINDOW
from rela.training.checkpoints import list_checkpoints

Floats = NDArray[np.float64]
Pair = tuple[str, str]

NOISE_RATE: Final = 0.3
"""Share of noise in the mixtures that precision is measured on."""

HELD_OUT: Final = "quality"
"""Quality that was learned from all kinds of noise but the one that it is measured on."""
ALL_KINDS: Final = "quality_all"
"""Quality that was learned from all kinds, as `rela score` has it."""
PENALTIES: Final = ("coverage_deviation", "absentmindedness", "attention_penalty")
"""After Rikters and Fishel (2017): of the mean over heads, in the layer that links words."""


@dataclass(frozen=True, kw_only=True)
class NoiseTask:
    """What noise is made of, and what quality is learned from: two sets of pairs that share none.

    ``foreign`` are sentences of a third language, line by line those of ``pairs``.
    """

    name: str
    pairs: Sequence[Pair]
    calibration: Sequence[Pair]
    foreign: Sequence[str] | None = None
    seed: int = 1


class Measured(NamedTuple):
    """Of one kind of noise and one score: the area under the curve, and precision at the noise rate."""

    auc: float
    precision: float
    num_noisy: int


def measure_noise(
    folder: Path, task: NoiseTask, progress: Callable[[int], None] = lambda _: None
) -> dict[str, dict[str, Measured]]:
    """All scores of one model, for each kind of noise that can be made of the pairs."""
    scorer = Scorer.load(folder).calibrated(task.calibration, seed=task.seed)
    qualities = held_out_qualities(scorer, task)
    good = _all_scores(folder, scorer, task.pairs, qualities)
    progress(len(task.pairs))
    found: dict[str, dict[str, Measured]] = {}
    for kind in NOISES:
        pairs = [(noisy.source, noisy.target) for noisy in make_noise(kind, _material(scorer, task), task.seed)]
        if pairs:
            bad = _all_scores(folder, scorer, pairs, qualities)
            names = {name: name for name in good if name not in NOISES} | {HELD_OUT: kind}
            found[kind] = {name: _measured(good[column], bad[column], task.seed) for name, column in names.items()}
            progress(len(pairs))
    return found


def held_out_qualities(scorer: Scorer, task: NoiseTask) -> dict[str, QualityModel]:
    """What quality is, learned from all kinds of noise but one: by that kind."""
    material = replace(_material(scorer, task), pairs=task.calibration, foreign=None)
    real = scorer.features(task.calibration)
    spoiled = scorer.spoiled_features(material, list(NOISES), task.seed)
    found: dict[str, QualityModel] = {}
    for kind in NOISES:
        others = {name: rows for name, rows in spoiled.items() if name != kind}
        found[kind] = fit_quality(
            scorer.feature_names, real, np.concatenate([*others.values()]), [*others], seed=task.seed
        )
    return found


def _material(scorer: Scorer, task: NoiseTask) -> Material:
    return Material(task.pairs, scorer.languages.target, task.foreign)


def _all_scores(
    folder: Path, scorer: Scorer, pairs: Sequence[Pair], qualities: Mapping[str, QualityModel]
) -> dict[str, Floats]:
    """By name, turned so that high is bad: scores, penalties, and quality by the kind of noise that it has not seen."""
    assert scorer.calibration is not None
    features = scorer.features(pairs)
    scores = scorer.score(pairs)
    found = {name: np.array([getattr(score, name) for score in scores]) for name in COLUMNS if name != "quality"}
    found = {name: _badness(name, values, scorer) for name, values in found.items()}
    found |= attention_penalties(folder, scorer, pairs)
    found[ALL_KINDS] = -scorer.calibration.quality.logits(features)
    return found | {kind: -quality.logits(features) for kind, quality in qualities.items()}


def attention_penalties(folder: Path, scorer: Scorer, pairs: Sequence[Pair]) -> dict[str, Floats]:
    """Coverage deviation and absentmindedness (in and out), and their sum; high is bad.

    With ``a[i, j]`` the weight of target row i for source piece j, I rows and J pieces: coverage deviation is the mean
    over j of ``log(1 + (1 - sum_i a[i, j]) ** 2)``; absentmindedness is the mean over i of the entropy of row i, and
    the mean over j of that of column j, brought to a sum of 1.
    """
    layer = load_choice(find_model_folder(folder), scorer.model).layer
    values = np.zeros((3, len(pairs)))
    for start in range(0, len(pairs), WINDOW):
        window = EncodedWindow.encode(scorer.tokenizers, pairs[start : start + WINDOW])
        for batch in window.batches(np.arange(len(pairs[start : start + WINDOW]))):
            kept: list[Tensor] = []

            def take(number: int, weights: Tensor, kept: list[Tensor] = kept) -> None:
                if number == layer:
                    kept.append(weights.mean(1).double())

            forced = force(scorer.model, batch, take)
            rows = torch.arange(kept[0].shape[1]) < forced.target_lengths[:, None]
            columns = torch.arange(kept[0].shape[2]) < forced.source_lengths[:, None]
            values[:, start + batch.places] = _penalties(kept[0] * rows[..., None] * columns[:, None], rows, columns)
    coverage, out, into = values
    return dict(zip(PENALTIES, (coverage, out + into, coverage + out + into), strict=True))


def _penalties(weights: Tensor, rows: Tensor, columns: Tensor) -> Floats:
    """``[3, B]``: coverage deviation, absentmindedness out and in, of weights that are 0 at padding."""
    received = weights.sum(1)  # [B, S]
    deviation = torch.log1p((1 - received).square()) * columns
    out = torch.special.entr(weights).sum((1, 2)) / rows.sum(1)
    shares = weights / received.clamp_min(1e-12)[:, None]
    into = (torch.special.entr(shares).sum(1) * columns).sum(1) / columns.sum(1)
    return torch.stack([deviation.sum(1) / columns.sum(1), out, into]).numpy()


def _badness(name: str, values: Floats, scorer: Scorer) -> Floats:
    """Scores turned so that high is bad; that of the length ratio is its distance from the corpus's median."""
    if name == "length_ratio":
        assert scorer.calibration is not None
        quality: QualityModel = scorer.calibration.quality
        return np.abs(np.log(values) - quality.centre[quality.names.index("length_ratio")])
    return -values if name in SCORES and SCORES[name].good == "high" else values


def _measured(good: Floats, bad: Floats, seed: int) -> Measured:
    """Precision is that of the worst NOISE_RATE of a mixture with that share of noise; ties are broken by chance."""
    generator = np.random.default_rng(seed)
    count = min(len(bad), round(len(good) * NOISE_RATE / (1 - NOISE_RATE)))
    some_good = generator.permutation(len(good))[: round(count * (1 - NOISE_RATE) / NOISE_RATE)]
    some_bad = generator.permutation(len(bad))[:count]
    values = np.concatenate([good[some_good], bad[some_bad]])
    order = np.lexsort((generator.random(len(values)), -values))[:count]
    precision = float((order >= len(some_good)).mean()) if count else float("nan")
    return Measured(area_under_curve(good, bad), precision, len(bad))


# ---------------------------------------------------------------------- over training time


class Moment(NamedTuple):
    """One checkpoint: areas under the curve of the null rates of all heads ``[L, H]``, of layers, and of all."""

    step: int
    heads: list[list[float]]
    layers: list[float]
    null_rate: float
    coverage: float
    cross_entropy: float
    clean: float
    noisy: float


def over_time(run: Path, task: NoiseTask, kind: str) -> Iterator[Moment]:
    """For every checkpoint of a run, how well null rates tell one kind of noise."""
    letters = Letters.learn([source for source, _ in task.pairs]), Letters.learn([target for _, target in task.pairs])
    for checkpoint in list_checkpoints(run):
        scorer = Scorer.load(checkpoint.path)
        noisy = [pair[1:] for pair in make_noise(kind, _material(scorer, task), task.seed)]
        good, bad = scorer.features(task.pairs, letters), scorer.features(noisy, letters)
        config = scorer.model.config
        shape = (-1, config.decoder_layers, config.num_heads)

        def of(rows: Floats, name: str, scorer: Scorer = scorer, shape: tuple[int, ...] = shape) -> Floats:
            first = scorer.feature_names.index(f"{name}.1.0")
            return rows[:, first : first + shape[1] * shape[2]].reshape(shape)

        null = of(good, "null"), of(bad, "null")
        covered = [-of(rows, "coverage")[:, -1].mean(1) for rows in (good, bad)]
        yield Moment(
            checkpoint.step,
            [
                [
                    round(area_under_curve(null[0][:, layer, head], null[1][:, layer, head]), 4)
                    for head in range(shape[2])
                ]
                for layer in range(shape[1])
            ],
            [
                round(area_under_curve(null[0][:, layer].mean(1), null[1][:, layer].mean(1)), 4)
                for layer in range(shape[1])
            ],
            round(area_under_curve(null[0].mean((1, 2)), null[1].mean((1, 2))), 4),
            round(area_under_curve(covered[0], covered[1]), 4),
            round(area_under_curve(good[:, 0], bad[:, 0]), 4),
            round(float(null[0].mean()), 4),
            round(float(null[1].mean()), 4),
        )


def signature(task: NoiseTask, scorer_name: str) -> str:
    """All that decides what the numbers are."""
    foreign = "third" if task.foreign is not None else "source"
    return (
        f"noise|data:{task.name}|pairs:{len(task.pairs)}|calibrated-on:{len(task.calibration)}|foreign:{foreign}"
        f"|seed:{task.seed}|rate:{NOISE_RATE}|attention:{scorer_name}|v{__version__}"
    )
