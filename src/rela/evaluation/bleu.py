"""BLEU as sacrebleu computes it, on detokenised text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rela._warn import warn
from rela.evaluation.lines import check_corpus
from rela.evaluation.sacre import collect_notes, score_with_interval, signature_of
from rela.evaluation.score import BleuScore

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU

NAME = "BLEU"
MANY_TOKENISED = 100
"""So many lines that end in " ." are no accident, says sacrebleu; neither is it when most lines do."""


def corpus_bleu(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    tokenize: str | None = None,
    language: str | None = None,
    lowercase: bool = False,
    num_bootstrap: int = 1000,
) -> BleuScore:
    """BLEU of a corpus of detokenised text, with sacrebleu's signature and bootstrap interval.

    Args:
        hypotheses: the translations.
        references: one or more references, each a list of as many lines.
        tokenize: sacrebleu's tokenizer, such as "13a", "intl", "zh", "char" or "none". None: the one that sacrebleu
            has for `language` ("zh", "ja", "ko"), "13a" for all others.
        language: the code of the target language.
        lowercase: whether to ignore case.
        num_bootstrap: samples for the interval, 0 for none. Their seed is 12345 unless SACREBLEU_SEED says
            otherwise; the signature has both.

    Raises:
        ValueError: not as many lines in each, or a tokenizer that sacrebleu does not have.
    """
    check_corpus(hypotheses, references)
    metric = bleu_metric(references, tokenize=tokenize, language=language, lowercase=lowercase)
    if metric.tokenizer_signature != "none":
        _warn_if_tokenised(hypotheses)
    score, interval = score_with_interval(metric, hypotheses, num_bootstrap)
    return BleuScore(
        name=NAME,
        score=score.score,
        interval=interval,
        signature=signature_of(metric, NAME),
        precisions=tuple(score.precisions),
        brevity_penalty=score.bp,
        hypothesis_length=score.sys_len,
        reference_length=score.ref_len,
    )


def bleu_metric(
    references: Sequence[Sequence[str]],
    *,
    tokenize: str | None = None,
    language: str | None = None,
    lowercase: bool = False,
) -> BLEU:
    """sacrebleu's metric for these references."""
    from sacrebleu.metrics.bleu import BLEU

    check_tokenize(tokenize)
    with collect_notes() as notes:
        try:
            metric = BLEU(
                lowercase=lowercase,
                tokenize=tokenize,
                trg_lang=language or "",
                force=True,  # we say it ourselves, in one line
                references=references,
            )
        except (ImportError, RuntimeError) as error:  # sacrebleu's own word on a tokenizer's missing package
            reason = " ".join(str(error).split())
            raise ValueError(f"BLEU needs a package for {tokenize or language!r}: {reason}") from error
    if notes:
        warn(f"rela: sacrebleu says: {' '.join(notes)}")
    return metric


def check_tokenize(tokenize: str | None) -> None:
    """Checks the name of a tokenizer.

    Raises:
        ValueError: sacrebleu has none of this name.
    """
    from sacrebleu.metrics.bleu import BLEU

    if tokenize is not None and tokenize not in BLEU.TOKENIZERS:
        raise ValueError(f"expected one of sacrebleu's tokenizers {', '.join(BLEU.TOKENIZERS)}; got {tokenize!r}")


def _warn_if_tokenised(hypotheses: Sequence[str]) -> None:
    count = sum(line.endswith(" .") for line in hypotheses)
    if count >= MANY_TOKENISED or count > len(hypotheses) / 2:
        warn(
            f"rela: {count} of {len(hypotheses)} hypotheses end in ' .', as tokenised text does; BLEU expects "
            "detokenised text: detokenise it first, or choose no tokenizer ('none')"
        )
