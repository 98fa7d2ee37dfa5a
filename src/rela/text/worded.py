"""A line as a model reads it, and the words of it that people count by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from rela.text.joining import blanks_between
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
        tokenised: words are what stands between the blanks of a line, as corpora with gold links have them. The model,
            which was trained with raw text, reads them joined as raw text would have them. Otherwise words are those of
            :func:`rela.text.words.split_words`.
        replacements: words that the model shall read another way, such as ``{"daß": "dass"}``: whole words, with just
            these capitals.
    """

    tokenised: bool = False
    replacements: Mapping[str, str] = field(default_factory=dict[str, str])

    def signature(self) -> str:
        """What words are, for the signatures of numbers."""
        replaced = ",".join(f"{old}={new}" for old, new in self.replacements.items()).replace("|", "/")
        return f"words:{'blanks' if self.tokenised else 'split'}" + (f"|replaced:{replaced}" if replaced else "")

    def read(self, line: str) -> Worded:
        """One line."""
        spans = blank_separated(line) if self.tokenised else split_words(line)
        words = word_texts(line, spans)
        if not self.tokenised and not self.replacements:
            return Worded(line, spans, words)
        read = [self.replacements.get(word, word) for word in words]
        between = blanks_between(read) if self.tokenised else _texts_between(line, spans)
        return Worded(*_joined(read, between), words)


def _texts_between(line: str, spans: Sequence[Span]) -> list[str]:
    """What stands before each span, and after the last."""
    ends = [0, *(span.end for span in spans)]
    starts = [*(span.start for span in spans), len(line)]
    return [line[end:start] for end, start in zip(ends, starts, strict=True)]


def _joined(words: Sequence[str], between: Sequence[str]) -> tuple[str, list[Span]]:
    """Words with what stands before, between and after them: the text, and where each word stands in it."""
    parts: list[str] = [between[0]]
    spans: list[Span] = []
    place = len(between[0])
    for word, after in zip(words, between[1:], strict=True):
        spans.append(Span(place, place + len(word)))
        parts += word, after
        place += len(word) + len(after)
    return "".join(parts), spans
