"""Quality: one number in [0, 1] for a pair, learned from a corpus's own pairs and the same pairs spoiled on purpose.

A logistic regression tells pairs as they are from spoiled ones, by all that forced decoding finds out about them. It
needs no labels. Two things keep it honest. Pairs of a crawl that are bad already stand on the wrong side: a first fit
tells how many times as frequent a pair is in the corpus as among spoiled ones, and so which share of the corpus looks
like these; in the second fit each pair counts by its probability of not being one of them. And each feature may only
speak in its own direction, so that a kind of noise that was not made on purpose can never count as a good sign: a large
loss is bad, whatever the corpus is full of.

One thing is not learned. Targets in a third language, of which a crawl may have enough for the model to translate into
it, are like good pairs in all but their letters, and none can be made out of the corpus itself. So a text that looks
unlike the others of its side costs a fixed price.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FORMAT: Final = "rela-quality-1"
_KNOTS: Final = (-8.0, -2.5, -1.0, 0.0, 1.0, 2.5, 8.0)
"""Standardised features are lines with bends here; beyond the ends they say no more."""
_PENALTY: Final = 1.0  # on squared weights
_MOST_STEPS: Final = 100
_CLOSE: Final = 1e-7
_LOWEST: Final = 0.3
"""Of spoiled pairs, the lowest share by which it is counted how many of the corpus are like them."""
_LEAST_TRUST: Final = 1e-3

LOW_IS_BAD: Final = frozenset({"coverage", "gap"})
BOTH_ARE_BAD: Final = frozenset({"length_ratio"})
NOT_LEARNED: Final = frozenset({"strange"})
"""Features by the first part of their names; of all others, high is bad."""

_STRANGE_FROM: Final = 2.0
_STRANGE_COST: Final = 2.0
"""Each deviation by which a text is stranger than so many costs so much, in log-odds."""


@dataclass(frozen=True)
class QualityModel:
    """From features to the probability of being a good pair.

    Features are standardised by the median and the spread of the corpus (strangeness by the spread of its lower half),
    bent at a few knots, weighed by numbers that are never negative, and summed: how bad a pair is. ``share`` of the
    corpus have a half or more.
    """

    names: tuple[str, ...]
    centre: Floats  # [F]
    scale: Floats  # [F]
    weights: Floats  # [columns]
    bias: float
    share: float
    num_pairs: int
    noises: tuple[str, ...]

    def logits(self, features: Floats) -> Floats:
        """``[n, F]`` to ``[n]``: log-odds of being good, if good and spoiled pairs were equally many."""
        z = (features - self.centre) / self.scale
        strange = np.maximum(z[:, _is(self.names, NOT_LEARNED)] - _STRANGE_FROM, 0.0).sum(1)
        return self.bias - product(badness_columns(self.names, z), self.weights) - _STRANGE_COST * strange

    def quality(self, features: Floats) -> Floats:
        """The probability of being good, if good and spoiled pairs were equally many."""
        return sigmoid(self.logits(features))

    def to_json(self) -> dict[str, Any]:
        """For a file."""
        return {
            "format": FORMAT,
            "features": list(self.names),
            "centre": self.centre.tolist(),
            "scale": self.scale.tolist(),
            "weights": self.weights.tolist(),
            "bias": self.bias,
            "share": self.share,
            "num_pairs": self.num_pairs,
            "noises": list(self.noises),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], where: str) -> QualityModel:
        """From a file."""
        found = data.get("format") if isinstance(data, dict) else None
        if found != FORMAT:
            raise ValueError(f"{where}: expected the format {FORMAT}, got {found!r}; calibrate anew")
        try:
            centre, scale, weights = (np.array(data[name], np.float64) for name in ("centre", "scale", "weights"))
            found = cls(
                tuple(data["features"]),
                centre,
                scale,
                weights,
                float(data["bias"]),
                float(data["share"]),
                int(data["num_pairs"]),
                tuple(data["noises"]),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"{where}: expected a calibration, got one without {error}; calibrate anew") from None
        except ValueError as error:
            raise ValueError(f"{where}: expected a calibration in numbers, got {error}; calibrate anew") from None
        fits = len(found.centre) == len(found.scale) == len(found.names)
        numbers = np.concatenate([found.centre, found.scale, found.weights, [found.bias]])
        if not np.isfinite(numbers).all() or not (found.scale > 0).all():
            raise ValueError(f"{where}: expected finite numbers, and scales above 0, got others; calibrate anew")
        if not fits or len(found.weights) != badness_columns(found.names, found.centre[None]).shape[1]:
            raise ValueError(f"{where}: expected a calibration whose numbers fit together, got others; calibrate anew")
        return found


def fit_quality(
    names: Sequence[str], real: Floats, spoiled: Floats, noises: Sequence[str], seed: int = 1
) -> QualityModel:
    """Learn to tell real pairs ``[n, F]`` from spoiled ones ``[m, F]``, whatever their numbers.

    How far a pair is trusted is asked of a fit that has not seen it: each half is judged by the other. With ``o`` the
    odds of being one of the corpus, and ``k`` the share of the corpus that is like spoiled pairs, its probability of
    being none of these is ``1 - k / o``.
    """
    centre = np.median(real, axis=0)
    low, high = np.percentile(real, [10, 90], axis=0)
    names = tuple(names)
    spread = np.where(_is(names, NOT_LEARNED), 2 * (centre - low), high - low)  # strange texts make the upper half wide
    scale = np.maximum(spread / 2.56, 1e-3 + 1e-2 * np.abs(centre))
    good, bad = (badness_columns(names, (rows - centre) / scale) for rows in (real, spoiled))
    halves = [np.random.default_rng((seed, side)).integers(2, size=len(rows)) for side, rows in enumerate((good, bad))]

    logits = [np.zeros(len(rows)) for rows in (good, bad)]
    for half in (0, 1):
        weights, bias = fit_weights(good[halves[0] != half], bad[halves[1] != half])
        for rows, chosen, found in zip((good, bad), halves, logits, strict=True):
            found[chosen == half] = bias - product(rows[chosen == half], weights)
    limit = np.quantile(logits[1], _LOWEST)
    like_bad = float((logits[0] < limit).mean() / max(_LOWEST / 2, float((logits[1] < limit).mean())))
    trust = np.clip(1 - like_bad * np.exp(-np.clip(logits[0], -30, 30)), _LEAST_TRUST, 1.0)
    weights, bias = fit_weights(good, bad, trust)
    found = QualityModel(names, centre, scale, weights, bias, 0.0, len(real), tuple(noises))
    return replace(found, share=float((found.quality(real) >= 0.5).mean()))


def badness_columns(names: Sequence[str], z: Floats) -> Floats:
    """Standardised features as columns that grow as a pair gets worse: how far each is within each stretch of knots."""
    both = _is(names, BOTH_ARE_BAD)
    turned = np.where(_is(names, LOW_IS_BAD), -z, z)[:, ~both & ~_is(names, NOT_LEARNED)]
    parts = [np.clip(turned, low, high) - low for low, high in pairwise(_KNOTS)]
    outer = [knot for knot in _KNOTS if knot >= 0]
    for side in (z[:, both], -z[:, both]):
        parts += [np.clip(side, low, high) - low for low, high in pairwise(outer)]
    return np.concatenate(parts, axis=1)


def _is(names: Sequence[str], kinds: frozenset[str]) -> NDArray[np.bool_]:
    """Which features are of these kinds, by the first part of their names."""
    return np.array([name.partition(".")[0] in kinds for name in names], np.bool_)


def fit_weights(good: Floats, bad: Floats, trust: Floats | None = None) -> tuple[Floats, float]:
    """Weights of 0 or more that make bad rows high, and a bias: a logistic regression where both groups weigh the same.

    Newton's method on the weights that may move, cut off at 0, with a step that is halved until the loss falls
    (Bertsekas 1982).
    """
    columns = np.concatenate([np.concatenate([good, bad]), np.ones((len(good) + len(bad), 1))], axis=1)
    labels = np.concatenate([np.zeros(len(good)), np.ones(len(bad))])
    trust = np.ones(len(good)) if trust is None else trust  # how much each good row counts
    each = np.concatenate([0.5 * trust / trust.sum(), np.full(len(bad), 0.5 / len(bad))]) * len(labels)
    penalty = np.full(columns.shape[1], _PENALTY)
    penalty[-1] = 1e-6
    lowest = np.zeros(columns.shape[1])
    lowest[-1] = -np.inf  # the bias is free

    def loss(weights: Floats) -> float:
        t = product(columns, weights)
        return float((each * (np.logaddexp(0, t) - labels * t)).sum() + 0.5 * (penalty * weights**2).sum())

    found = np.zeros(columns.shape[1])
    now = loss(found)
    for _ in range(_MOST_STEPS):
        p = sigmoid(product(columns, found))
        gradient = product(columns.T, each * (p - labels)) + penalty * found
        moves = (found > lowest) | (gradient < 0)
        some = columns[:, moves]
        curvature = product((some * (each * p * (1 - p))[:, None]).T, some) + np.diag(penalty[moves])
        step = np.zeros_like(found)
        step[moves] = -torch.linalg.solve(torch.from_numpy(curvature), torch.from_numpy(gradient[moves])).numpy()
        size = 1.0
        while True:
            new = np.maximum(found + size * step, lowest)
            then = loss(new)
            if then <= now + 1e-4 * float(gradient @ (new - found)) or size < 1e-6:
                break
            size /= 2
        fell, found, now = now - then, new, min(now, then)
        if fell < _CLOSE * abs(now):
            break
    return found[:-1], -float(found[-1])


def product(left: Floats, right: Floats) -> Floats:
    """``left @ right`` by torch, whose threads are ours to choose: numpy's result depends on how many it has."""
    return (torch.from_numpy(np.ascontiguousarray(left)) @ torch.from_numpy(np.ascontiguousarray(right))).numpy()


def sigmoid(x: Floats) -> Floats:
    """Without overflow, and exact where it is small: bad pairs have an order too."""
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, 1.0) / (1.0 + small)
