"""How good translations are: BLEU, tokenised BLEU, chrF, and whether two systems differ. Needs no torch."""

from typing import TYPE_CHECKING

from rela._lazy import attach

if TYPE_CHECKING:
    from rela.evaluation.bleu import corpus_bleu as corpus_bleu
    from rela.evaluation.chrf import corpus_chrf as corpus_chrf
    from rela.evaluation.lines import check_parallel as check_parallel
    from rela.evaluation.lines import read_lines as read_lines
    from rela.evaluation.recipe import METRICS as METRICS
    from rela.evaluation.recipe import Recipe as Recipe
    from rela.evaluation.score import BleuScore as BleuScore
    from rela.evaluation.score import Interval as Interval
    from rela.evaluation.score import Score as Score
    from rela.evaluation.scores import Scores as Scores
    from rela.evaluation.scores import evaluate as evaluate
    from rela.evaluation.significance import Comparison as Comparison
    from rela.evaluation.significance import compare as compare
    from rela.evaluation.tokenised import tokenised_bleu as tokenised_bleu
else:
    __getattr__, __dir__ = attach(
        __name__,
        {
            "corpus_bleu": "rela.evaluation.bleu",
            "corpus_chrf": "rela.evaluation.chrf",
            "check_parallel": "rela.evaluation.lines",
            "read_lines": "rela.evaluation.lines",
            "METRICS": "rela.evaluation.recipe",
            "Recipe": "rela.evaluation.recipe",
            "Scores": "rela.evaluation.scores",
            "evaluate": "rela.evaluation.scores",
            "BleuScore": "rela.evaluation.score",
            "Interval": "rela.evaluation.score",
            "Score": "rela.evaluation.score",
            "Comparison": "rela.evaluation.significance",
            "compare": "rela.evaluation.significance",
            "tokenised_bleu": "rela.evaluation.tokenised",
        },
    )
