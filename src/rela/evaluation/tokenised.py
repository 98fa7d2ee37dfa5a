"""Tokenised BLEU as Moses' multi-bleu.perl computes it: no smoothing, counts of the whole corpus."""

from __future__ import annotations

import math
import string
from collections import Counter
from collections.abc import Sequence

import numpy as np

from rela._version import __version__
from rela.evaluation.counts import SEED, Counts, bootstrap_interval
from rela.evaluation.lines import check_corpus
from rela.evaluation.score import BleuScore
from rela.evaluation.tokenisers import Tokeniser, tokeniser_for

NAME = "tokenised BLEU"
ORDERS = (1, 2, 3, 4)
FARTHEST = 9999
"""Where the script's search for the closest reference starts: as if there was one so long and so far away."""

_ASCII_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def tokenised_bleu(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    language: str | None,
    lowercase: bool = False,
    num_bootstrap: int = 1000,
) -> BleuScore:
    """BLEU of tokenised text, as multi-bleu.perl has it. Compare it only under the same signature.

    An order of n-grams without a match makes the score 0. With several references the length of the closest counts,
    of two equally close ones the shorter. What differs from the script: hypotheses without any token have the score
    0 (it divides by zero), and a last line without a line break keeps its last character (it loses it).

    Args:
        hypotheses: the translations.
        references: one or more references, each a list of as many lines.
        language: what to tokenise as: sacremoses' rules for the language, characters for "zh". None: the text
            is tokenised already and split at blanks.
        lowercase: whether to ignore case, of the letters A to Z alone: the script works on bytes.
        num_bootstrap: samples for the interval, which the script does not have; 0 for none.

    Raises:
        ValueError: not as many lines in each, or not the code of a language.
    """
    check_corpus(hypotheses, references)
    tokeniser = tokeniser_for(language)
    counts = tokenised_counts(hypotheses, references, tokeniser=tokeniser, lowercase=lowercase)
    interval = bootstrap_interval(counts, num_bootstrap)
    sums = counts.rows.sum(0).tolist()
    return BleuScore(
        name=NAME,
        score=score_of(sums),
        interval=interval,
        signature=tokenised_signature(tokeniser, len(references), lowercase=lowercase, num_bootstrap=num_bootstrap),
        precisions=tuple(100 * precision for precision in _precisions(sums)),
        brevity_penalty=_brevity_penalty(sums),
        hypothesis_length=int(sums[0]),
        reference_length=int(sums[1]),
    )


def tokenised_signature(
    tokeniser: Tokeniser, num_references: int, *, lowercase: bool = False, num_bootstrap: int = 0
) -> str:
    """The recipe of a tokenised BLEU."""
    case = "lc-ascii" if lowercase else "mixed"
    bootstrap = f"|bs:{num_bootstrap}|seed:{SEED}" if num_bootstrap else ""
    return f"BLEU|multi-bleu|tok:{tokeniser.name}|case:{case}|refs:{num_references}{bootstrap}|v{__version__}"


def tokenised_counts(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], *, tokeniser: Tokeniser, lowercase: bool = False
) -> Counts:
    """The counts of each sentence: its length, the closest reference's, then matches and n-grams of each order."""

    def tokens(line: str) -> list[str]:
        found = tokeniser.split(line)
        return [token.translate(_ASCII_LOWER) for token in found] if lowercase else found

    rows = [
        _sentence_counts(tokens(hypothesis), [tokens(reference) for reference in alternatives])
        for hypothesis, *alternatives in zip(hypotheses, *references, strict=True)
    ]
    return Counts(rows=np.array(rows, dtype=np.float64), score=score_of)


def _sentence_counts(hypothesis: Sequence[str], references: Sequence[Sequence[str]]) -> list[int]:
    length = len(hypothesis)
    closest = min([(FARTHEST, FARTHEST), *((abs(len(r) - length), len(r)) for r in references)])[1]
    wanted = Counter[tuple[str, ...]]()
    for reference in references:
        wanted |= _ngrams(reference)  # the most often that any one reference has it
    matches = Counter(len(ngram) for ngram in (_ngrams(hypothesis) & wanted).elements())
    return [length, closest, *(matches[n] for n in ORDERS), *(max(0, length - n + 1) for n in ORDERS)]


def _ngrams(tokens: Sequence[str]) -> Counter[tuple[str, ...]]:
    return Counter(tuple(tokens[i : i + n]) for n in ORDERS for i in range(len(tokens) - n + 1))


def score_of(sums: Sequence[float]) -> float:
    """The score, 0 to 100, of counts that were summed over a corpus."""
    precisions = _precisions(sums)
    if not all(precisions):
        return 0.0
    return 100 * _brevity_penalty(sums) * math.exp(sum(map(math.log, precisions)) / len(precisions))


def _precisions(sums: Sequence[float]) -> list[float]:
    matches, totals = sums[2:6], sums[6:10]
    return [match / total if total else 0.0 for match, total in zip(matches, totals, strict=True)]


def _brevity_penalty(sums: Sequence[float]) -> float:
    length, reference = sums[:2]
    if length == 0 or reference == 0:
        return 0.0
    return math.exp(1 - reference / length) if length < reference else 1.0
