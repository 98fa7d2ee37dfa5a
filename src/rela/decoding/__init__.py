"""Decoding: cached beam search, and the Translator."""

from typing import TYPE_CHECKING

from rela._lazy import attach

if TYPE_CHECKING:
    from rela.decoding.search import Hypothesis as Hypothesis
    from rela.decoding.search import SearchOptions as SearchOptions
    from rela.decoding.search import beam_search as beam_search
    from rela.decoding.translator import Translation as Translation
    from rela.decoding.translator import Translator as Translator
else:
    __getattr__, __dir__ = attach(
        __name__,
        {
            "Hypothesis": "rela.decoding.search",
            "SearchOptions": "rela.decoding.search",
            "beam_search": "rela.decoding.search",
            "Translation": "rela.decoding.translator",
            "Translator": "rela.decoding.translator",
        },
    )
