"""Whether two systems differ by more than chance: paired bootstrap and paired approximate randomisation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rela._version import __version__
from rela.evaluation.bleu import NAME, bleu_metric
from rela.evaluation.chrf import chrf_metric
from rela.evaluation.counts import SEED, Counts, bootstrap_scores, check_num_bootstrap
from rela.evaluation.lines import check_corpus
from rela.evaluation.recipe import Recipe
from rela.evaluation.sacre import counts_of, signature_of
from rela.evaluation.tokenised import NAME as TOKENISED_NAME
from rela.evaluation.tokenised import tokenised_counts, tokenised_signature
from rela.evaluation.tokenisers import tokeniser_for


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One system beside the baseline, by one metric.

    `delta` is the system's score minus the baseline's. The p-values say how probable a difference so large would be if
    the two systems were equally good: the randomisation's is two-sided, the bootstrap's counts one side, as usual. None
    stands for a test that was not asked for.
    """

    system: str
    name: str
    score: float
    baseline_score: float
    delta: float
    p_bootstrap: float | None
    p_randomisation: float | None
    signature: str

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON has them."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class _Measure:
    """A metric with its references: makes the counts of any system's translations."""

    name: str
    signature: str
    count: Callable[[Sequence[str]], Counts]


def compare(
    baseline: Sequence[str],
    systems: Mapping[str, Sequence[str]],
    references: Sequence[Sequence[str]],
    recipe: Recipe | None = None,
    *,
    num_bootstrap: int = 1000,
    num_shuffles: int = 10_000,
) -> list[Comparison]:
    """Compares each system with the baseline, by each metric of a recipe.

    The tests are those of sacrebleu but for one sign: a draw whose difference *equals* the observed one counts as so
    large. Thus two identical systems have p = 1, and swapping a single sentence proves nothing; in sacrebleu both
    would be significant.

    Args:
        baseline: the first system's translations.
        systems: further systems' translations, by name.
        references: one or more references, each a list of as many lines.
        recipe: which metrics, and on what text.
        num_bootstrap: samples of the paired bootstrap, 0 to leave it out.
        num_shuffles: trials of the approximate randomisation, 0 to leave it out.

    Raises:
        ValueError: not as many lines in each, or a number of samples that is too small.
    """
    check_corpus(baseline, references, "the baseline")
    for system, lines in systems.items():
        check_corpus(lines, references, repr(system))
    check_num_bootstrap(num_bootstrap)
    if num_shuffles < 0:
        raise ValueError(f"expected a number of trials, or 0 for no randomisation, got {num_shuffles}")
    draws = f"|bs:{num_bootstrap}" * bool(num_bootstrap) + f"|ar:{num_shuffles}" * bool(num_shuffles)
    recipe = recipe or Recipe()
    measures = [_measure(name, references, recipe) for name in recipe.chosen]
    firsts = [measure.count(baseline) for measure in measures]
    comparisons: list[Comparison] = []
    for system, lines in systems.items():
        for measure, first in zip(measures, firsts, strict=True):
            second = measure.count(lines)
            comparisons.append(
                Comparison(
                    system=system,
                    name=measure.name,
                    score=_score(second),
                    baseline_score=_score(first),
                    delta=_score(second) - _score(first),
                    p_bootstrap=_paired_bootstrap(first, second, num_bootstrap) if num_bootstrap else None,
                    p_randomisation=_paired_randomisation(first, second, num_shuffles) if num_shuffles else None,
                    signature=f"paired{draws}|seed:{SEED}|rela:{__version__}|{measure.signature}",
                )
            )
    return comparisons


def _measure(name: str, references: Sequence[Sequence[str]], recipe: Recipe) -> _Measure:
    if name == "tokenised":
        tokeniser = tokeniser_for(recipe.language)
        return _Measure(
            name=TOKENISED_NAME,
            signature=tokenised_signature(tokeniser, len(references), lowercase=recipe.lowercase),
            count=partial(tokenised_counts, references=references, tokeniser=tokeniser, lowercase=recipe.lowercase),
        )
    if name == "bleu":
        shown = NAME
        metric = bleu_metric(
            references, tokenize=recipe.bleu_tokenizer, language=recipe.language, lowercase=recipe.lowercase
        )
    else:
        metric = chrf_metric(references, words=name == "chrf++", lowercase=recipe.lowercase)
        shown = f"chrF{metric.beta}" + "+" * metric.word_order
    return _Measure(name=shown, signature=signature_of(metric, shown), count=partial(counts_of, metric))


def _score(counts: Counts) -> float:
    return counts.score(counts.rows.sum(0).tolist())


def _paired_bootstrap(first: Counts, second: Counts, num_samples: int) -> float:
    """Both systems on the same resampled test sets: how far do differences stray from their mean?

    The centred absolute differences are those of Moses' bootstrap-hypothesis-difference-significance.pl.
    """
    differences = np.abs(bootstrap_scores(second, num_samples) - bootstrap_scores(first, num_samples))
    return _p_value(differences - differences.mean(), abs(_score(second) - _score(first)))


def _paired_randomisation(first: Counts, second: Counts, num_shuffles: int) -> float:
    """Swaps the systems' outputs for a random half of the sentences: how often do they differ as much?"""
    generator = np.random.default_rng(SEED)
    change, unswapped = second.rows - first.rows, first.rows.sum(0)
    total = unswapped + second.rows.sum(0)
    differences = np.empty(num_shuffles)
    for trial in range(num_shuffles):
        swapped = generator.integers(2, size=len(change), dtype=bool)
        mixed = unswapped + swapped.astype(np.float64) @ change
        differences[trial] = first.score(mixed.tolist()) - first.score((total - mixed).tolist())
    return _p_value(np.abs(differences), abs(_score(second) - _score(first)))


def _p_value(differences: NDArray[np.float64], observed: float) -> float:
    """The share of draws that differ at least as much as observed, the observed one among them.

    Scores of equal counts are equal to the last bit, so "at least" needs no tolerance.
    """
    return float((np.sum(differences >= observed) + 1) / (len(differences) + 1))
