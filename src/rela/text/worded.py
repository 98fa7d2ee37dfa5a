"""A line as a model reads it, and the words of it that people count by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from rela.text.words import Span, blank_separated, split_words, word_texts


class Worded(NamedTuple):
    """The text that goes into a model, and the words: where each stands in that text, and how the caller wrote it."""

    text: str
    spans: list[Span]
    words: list[str]


@dataclass(frozen=True, kw_only=True)
class Wording:
    """How lines become texts with words.

    Attributes:
        tokenised: words are what stands between the blanks of a line; otherwise they are those of
            :func:`rela.text.words.split_words`.
        replacements: words that the model shall read another way, such as ``{"daß": "dass"}``.
    """

    tokenised: bool = False
    replacements: Mapping[str, str] = field(default_factory=dict[str, str])

    def read(self, line: str) -> Worded:
        """One line."""
        spans = blank_separated(line) if self.tokenised else split_words(line)
        return Worded(line, spans, word_texts(line, spans))
