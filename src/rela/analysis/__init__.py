"""The microscope: what heads do, as weights, statistics and words."""

from typing import TYPE_CHECKING

from rela._lazy import attach

if TYPE_CHECKING:
    from rela.analysis.inspection import Inspection as Inspection
    from rela.analysis.inspection import inspect as inspect
else:
    __getattr__, __dir__ = attach(
        __name__,
        {
            "Inspection": "rela.analysis.inspection",
            "inspect": "rela.analysis.inspection",
        },
    )
