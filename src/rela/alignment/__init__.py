"""Where words meet weights: attention between words, and the links it makes."""

from typing import TYPE_CHECKING

from rela._lazy import attach

if TYPE_CHECKING:
    from rela.alignment.links import Alignment as Alignment
    from rela.alignment.links import align as align
    from rela.alignment.links import best_links as best_links
    from rela.alignment.weights import PiecePair as PiecePair
    from rela.alignment.weights import cross_weights as cross_weights
    from rela.alignment.weights import word_weights as word_weights
else:
    __getattr__, __dir__ = attach(
        __name__,
        {
            "Alignment": "rela.alignment.links",
            "align": "rela.alignment.links",
            "best_links": "rela.alignment.links",
            "PiecePair": "rela.alignment.weights",
            "cross_weights": "rela.alignment.weights",
            "word_weights": "rela.alignment.weights",
        },
    )
