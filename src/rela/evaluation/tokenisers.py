"""Tokenisers with names, so that a tokenised BLEU can say what it counted."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from rela._warn import warn

_BLANKS = re.compile(r"[ \t\n\v\f\r]+")
"""Where perl splits bytes. No-break and ideographic spaces are not among them."""

_WITHOUT_BLANKS = ("ja", "km", "lo", "my", "th", "yue")
"""Languages written without blanks, for which sacremoses knows no words."""


@dataclass(frozen=True, kw_only=True)
class Tokeniser:
    """A way to split a line into tokens, under the name that signatures give it."""

    name: str
    split: Callable[[str], list[str]]


def split_at_blanks(line: str) -> list[str]:
    """The tokens of tokenised text, as perl's `split` finds them."""
    return [token for token in _BLANKS.split(line) if token]


def tokeniser_for(language: str | None) -> Tokeniser:
    """The tokeniser of a language: for Chinese every character alone, for all others sacremoses.

    None stands for text that is tokenised already: it is split at blanks.

    Raises:
        ValueError: not the code of a language.
    """
    if language is None:
        return Tokeniser(name="none", split=split_at_blanks)
    check_language(language)
    return _chinese() if language == "zh" else _moses(language)


def check_language(language: str) -> None:
    """Checks that this looks like the code of a language.

    Raises:
        ValueError: it is not two or three small letters.
    """
    if not re.fullmatch("[a-z]{2,3}", language):
        raise ValueError(f"expected the code of a language, such as 'de' or 'zh'; got {language!r}")


def _chinese() -> Tokeniser:
    import sacrebleu
    from sacrebleu.tokenizers.tokenizer_zh import TokenizerZh

    separate = TokenizerZh()
    return Tokeniser(
        name=f"sacrebleu-{sacrebleu.__version__}-zh-characters", split=lambda line: split_at_blanks(separate(line))
    )


def _moses(language: str) -> Tokeniser:
    import sacremoses
    from sacremoses.corpus import NonbreakingPrefixes

    if language in _WITHOUT_BLANKS:
        warn(
            f"rela: tokenised BLEU: {language!r} is written without blanks and sacremoses does not find its words; "
            "segment the text yourself and evaluate it as tokenised already"
        )
    elif language not in NonbreakingPrefixes().available_langs:
        warn(f"rela: tokenised BLEU: sacremoses has no abbreviations for {language!r} and takes the English ones")
    moses = sacremoses.MosesTokenizer(language)

    def split(line: str) -> list[str]:
        return split_at_blanks(" ".join(moses.tokenize(line, aggressive_dash_splits=False, escape=False)))

    return Tokeniser(name=f"sacremoses-{sacremoses.__version__}-{language}-nohyphen-noescape", split=split)
