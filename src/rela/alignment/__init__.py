"""Where words meet weights: attention between words, and the links it makes."""

from typing import TYPE_CHECKING

from rela._lazy import attach

if TYPE_CHECKING:
    from rela.alignment.choice import Choice as Choice
    from rela.alignment.errors import ErrorCounts as ErrorCounts
    from rela.alignment.errors import GoldLinks as GoldLinks
    from rela.alignment.errors import alignment_error_rate as alignment_error_rate
    from rela.alignment.gold import read_gold as read_gold
    from rela.alignment.links import Alignment as Alignment
    from rela.alignment.links import SoftAlignment as SoftAlignment
    from rela.alignment.links import align as align
    from rela.alignment.links import align_softly as align_softly
    from rela.alignment.tally import AlignmentErrors as AlignmentErrors
    from rela.alignment.tally import GoldBatch as GoldBatch
else:
    __getattr__, __dir__ = attach(
        __name__,
        {
            "Alignment": "rela.alignment.links",
            "AlignmentErrors": "rela.alignment.tally",
            "Choice": "rela.alignment.choice",
            "ErrorCounts": "rela.alignment.errors",
            "GoldBatch": "rela.alignment.tally",
            "GoldLinks": "rela.alignment.errors",
            "SoftAlignment": "rela.alignment.links",
            "align": "rela.alignment.links",
            "align_softly": "rela.alignment.links",
            "alignment_error_rate": "rela.alignment.errors",
            "read_gold": "rela.alignment.gold",
        },
    )
