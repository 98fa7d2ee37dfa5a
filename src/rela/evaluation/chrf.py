"""chrF2 and chrF2++ as sacrebleu computes them: F-scores of character n-grams, the latter of words too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rela.evaluation.lines import check_corpus
from rela.evaluation.sacre import score_with_interval, signature_of
from rela.evaluation.score import Score

if TYPE_CHECKING:
    from sacrebleu.metrics.chrf import CHRF

WORD_ORDER = 2
"""The words that the two plus signs of chrF++ stand for: single ones and pairs."""


def corpus_chrf(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    words: bool = False,
    lowercase: bool = False,
    num_bootstrap: int = 1000,
) -> Score:
    """chrF2 of a corpus of detokenised text, or with `words` chrF2++; arguments as for `corpus_bleu`."""
    check_corpus(hypotheses, references)
    metric = chrf_metric(references, words=words, lowercase=lowercase)
    score, interval = score_with_interval(metric, hypotheses, num_bootstrap)
    return Score(name=score.name, score=score.score, interval=interval, signature=signature_of(metric, score.name))


def chrf_metric(references: Sequence[Sequence[str]], *, words: bool = False, lowercase: bool = False) -> CHRF:
    """sacrebleu's metric for these references."""
    from sacrebleu.metrics.chrf import CHRF

    return CHRF(word_order=WORD_ORDER if words else 0, lowercase=lowercase, references=references)
