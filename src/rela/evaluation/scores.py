"""All metrics of one system at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rela._warn import warn
from rela.evaluation.bleu import corpus_bleu
from rela.evaluation.chrf import corpus_chrf
from rela.evaluation.lines import check_corpus
from rela.evaluation.recipe import Recipe
from rela.evaluation.score import Score
from rela.evaluation.tokenised import tokenised_bleu


@dataclass(frozen=True, kw_only=True)
class Scores:
    """The scores of one system, by the name of the metric: `scores["bleu"].score`."""

    num_lines: int
    by_metric: Mapping[str, Score]

    def __getitem__(self, metric: str) -> Score:
        return self.by_metric[metric]

    def __iter__(self) -> Iterator[Score]:
        return iter(self.by_metric.values())

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON has them."""
        return {
            "num_lines": self.num_lines,
            "scores": {metric: score.to_json() for metric, score in self.by_metric.items()},
        }


def evaluate(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    recipe: Recipe | None = None,
    *,
    num_bootstrap: int = 1000,
) -> Scores:
    """Computes the metrics of a recipe; without one, BLEU and chrF.

    Args:
        hypotheses: the translations.
        references: one or more references, each a list of as many lines.
        recipe: which metrics, and on what text.
        num_bootstrap: samples for the 95% intervals, 0 for none.

    Raises:
        ValueError: not as many lines in each.
    """
    recipe = recipe or Recipe()
    check_corpus(hypotheses, references)
    _warn_of_empty(references)
    return Scores(
        num_lines=len(hypotheses),
        by_metric={name: _score(name, hypotheses, references, recipe, num_bootstrap) for name in recipe.chosen},
    )


def _score(
    name: str, hypotheses: Sequence[str], references: Sequence[Sequence[str]], recipe: Recipe, num_bootstrap: int
) -> Score:
    if name == "bleu":
        return corpus_bleu(
            hypotheses,
            references,
            tokenize=recipe.bleu_tokenizer,
            language=recipe.language,
            lowercase=recipe.lowercase,
            num_bootstrap=num_bootstrap,
        )
    if name == "tokenised":
        return tokenised_bleu(
            hypotheses, references, language=recipe.language, lowercase=recipe.lowercase, num_bootstrap=num_bootstrap
        )
    return corpus_chrf(
        hypotheses, references, words=name == "chrf++", lowercase=recipe.lowercase, num_bootstrap=num_bootstrap
    )


def _warn_of_empty(references: Sequence[Sequence[str]]) -> None:
    count = sum(not line.strip() for reference in references for line in reference)
    if count:
        total = sum(map(len, references))
        warn(f"rela: {count} of {total} reference lines are empty; whatever is translated there counts as wrong")
