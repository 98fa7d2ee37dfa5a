"""Figures 1 to 10 of a reproduction: those of `rela report`, from several result files; and further ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from rela.report.choice import AbsentError, slug
from rela.report.figures.style import drawing, save
from rela.report.figures.write import FigureReport, write_some_figures
from rela.report.results import Results

_LINKS = 4


def write_reproduction_figures(
    folder: Path,
    numbers: Sequence[int],
    *,
    main: Results | None,
    linked: Mapping[str, Results],
    speed: Results | None,
    cases: Results | None,
    further: Mapping[str, Callable[[], Figure]],
) -> FigureReport:
    """Write the figures with these numbers.

    ``main`` has the weights of the main corpus; ``linked``, by corpus, those that can be compared with gold links, each
    of which gets a figure 4; ``cases`` is ``main`` with sentences to look at; ``further`` draws others, by
    name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for old in (*folder.glob("figure-*.svg"), *folder.glob("figure-*.png")):
        old.unlink()
    report = FigureReport()
    results = cases or main or Results({}, [], [], None)
    _join(report, write_some_figures(results, folder, bench=speed, numbers=[n for n in numbers if n != _LINKS]))
    if _LINKS in numbers:
        for corpus, name in zip(linked, slug(list(linked)), strict=True):
            _join(report, write_some_figures(linked[corpus], folder, numbers=[_LINKS], suffix=name))
        if not linked:
            report.left_out[f"figure {_LINKS}"] = "there are no weights beside gold links"
    for name, draw in further.items():
        try:
            with drawing():
                report.written += save(draw(), folder, f"figure-{name}")
        except AbsentError as error:
            report.left_out[f"figure of {name}"] = str(error)
    report.written.sort()
    return report


def _join(report: FigureReport, found: FigureReport) -> None:
    report.written += found.written
    report.left_out |= found.left_out
    report.notes += found.notes
