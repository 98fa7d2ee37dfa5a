"""Which metrics to compute, and on what text."""

from __future__ import annotations

from dataclasses import dataclass

from rela._warn import warn
from rela.evaluation.tokenisers import check_language

METRICS = ("bleu", "chrf", "chrf++", "tokenised")
"""The metrics by name; "tokenised" is tokenised BLEU."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What to compute: the metrics, and how they read the text.

    Args:
        metrics: names out of `METRICS`. None: BLEU and chrF, and tokenised BLEU when it is known how to tokenise.
        tokenize: sacrebleu's tokenizer for BLEU. None: the one that sacrebleu has for the language, else "13a".
        language: the code of the target language, such as "de".
        pretokenised: the text is tokenised already: both BLEUs split it at blanks.
        lowercase: whether to ignore case.

    Raises:
        ValueError: a metric that does not exist or cannot be computed so, or options that contradict each other.
    """

    metrics: tuple[str, ...] | None = None
    tokenize: str | None = None
    language: str | None = None
    pretokenised: bool = False
    lowercase: bool = False

    def __post_init__(self) -> None:
        if self.metrics is not None and not (self.metrics and set(self.metrics) <= set(METRICS)):
            given = ", ".join(self.metrics) or "none"
            raise ValueError(f"expected metrics out of {', '.join(METRICS)}; got {given}")
        if self.language is not None:
            check_language(self.language)
        if self.pretokenised and self.language is not None:
            raise ValueError(f"expected pretokenised text or a language to tokenise, got both ({self.language!r})")
        if self.pretokenised and self.tokenize not in (None, "none"):
            raise ValueError(f"expected pretokenised text or a tokenizer for it, got both ({self.tokenize!r})")
        if "tokenised" in self.chosen and self.language is None and not self.pretokenised:
            raise ValueError("expected a language for tokenised BLEU, or text that is pretokenised; got neither")
        self._warn_of_what_is_ignored()

    def _warn_of_what_is_ignored(self) -> None:
        if self.tokenize is not None and "bleu" not in self.chosen:
            warn(f"rela: the tokenizer {self.tokenize!r} is ignored: it is BLEU's, which is not computed")
        if self.language is not None and not {"bleu", "tokenised"} & set(self.chosen):
            warn(f"rela: the language {self.language!r} is ignored: chrF does not tokenise")

    @property
    def chosen(self) -> tuple[str, ...]:
        """The metrics to compute, each once, in the order of `METRICS`."""
        wanted = self.metrics
        if wanted is None:
            wanted = METRICS if self.language is not None or self.pretokenised else ("bleu", "chrf")
            wanted = tuple(name for name in wanted if name != "chrf++")
        return tuple(name for name in METRICS if name in wanted)

    @property
    def bleu_tokenizer(self) -> str | None:
        """sacrebleu's tokenizer for BLEU; None if it is left to the language."""
        return "none" if self.pretokenised else self.tokenize
