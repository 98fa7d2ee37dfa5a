"""All figures of a result, into a folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from matplotlib.figure import Figure

from rela.report.choice import AbsentError, slug
from rela.report.figures.cases import (
    Case,
    draw_null_clauses,
    draw_null_heads,
    draw_null_layer,
    draw_quality,
    find_cases,
)
from rela.report.figures.curves import draw_aer, draw_diversity, draw_null, draw_sparsity, draw_speed
from rela.report.figures.overview import draw_overview
from rela.report.figures.style import drawing, save
from rela.report.results import Results

_FIGURES: Final[dict[int, tuple[str, Callable[[Results], Figure]]]] = {
    1: ("overview", draw_overview),
    3: ("sparsity", draw_sparsity),
    4: ("aer", draw_aer),
    5: ("diversity", draw_diversity),
    6: ("null-rate", draw_null),
}
_SPEED: Final = (2, "decoding-speed")
_CASES: Final[dict[int, tuple[str, Callable[[Case], Figure]]]] = {
    7: ("null-heads", draw_null_heads),
    8: ("null-layer", draw_null_layer),
    9: ("null-clauses", draw_null_clauses),
    10: ("pair-quality", draw_quality),
}


@dataclass
class FigureReport:
    """The files that were written, and why a figure was not. ``notes``: what a reader of the figures should know."""

    written: list[Path] = field(default_factory=list[Path])
    left_out: dict[str, str] = field(default_factory=dict[str, str])
    notes: list[str] = field(default_factory=list[str])


ALL: Final = tuple(sorted((*_FIGURES, _SPEED[0], *_CASES)))
"""The numbers of the figures."""


def write_figures(results: Results, folder: Path, *, bench: Results | None = None) -> FigureReport:
    """Write every figure that the results have the numbers for, and remove those of earlier results."""
    report = write_some_figures(results, folder, bench=bench)
    _remove_older(folder, report.written)
    return report


def write_some_figures(
    results: Results, folder: Path, *, bench: Results | None = None, numbers: Sequence[int] = ALL, suffix: str = ""
) -> FigureReport:
    """Write the figures with these numbers that the results have the numbers for.

    Figures of single heads are written for one model of each group that has null rows. ``bench``, the results of a
    benchmark of decoding, is for figure 2 alone. ``suffix`` stands at the end of the names of files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    report = FigureReport()
    ending = f"-{suffix}" if suffix else ""
    with drawing() as missing:
        for number in numbers:
            if number == _SPEED[0]:
                _write(report, folder, number, _SPEED[1] + ending, lambda: draw_speed(bench))
            elif number in _FIGURES:
                name, draw = _FIGURES[number]
                _write(report, folder, number, name + ending, lambda draw=draw: draw(results))
        chosen = {number: _CASES[number] for number in numbers if number in _CASES}
        try:
            cases = find_cases(results) if chosen else []
        except AbsentError as error:
            report.left_out |= {_title(number): str(error) for number in chosen}
        else:
            report.notes += [
                f"figures 7 to 10 of {case.name} show {case.model.name}"
                for case in cases
                if case.model.name != case.name
            ]
            for number, (name, draw) in chosen.items():
                for case, model in zip(cases, slug([case.name for case in cases]), strict=True):
                    of_model = f" of {case.name}" if len(cases) > 1 else ""
                    _write(report, folder, number, f"{name}-{model}{ending}", lambda d=draw, c=case: d(c), of_model)
    if missing:
        signs = " ".join(missing[:20]) + (" ..." if len(missing) > 20 else "")
        report.notes.append(f"no font here has {signs}: boxes stand for them; a font such as Noto Sans CJK has more")
    return report


def _write(
    report: FigureReport, folder: Path, number: int, name: str, draw: Callable[[], Figure], of_model: str = ""
) -> None:
    try:
        report.written += save(draw(), folder, f"figure-{number:02}-{name}")
    except AbsentError as error:
        report.left_out[_title(number) + of_model] = str(error)


def _title(number: int) -> str:
    name = _CASES[number][0] if number in _CASES else _FIGURES[number][0] if number in _FIGURES else _SPEED[1]
    return f"figure {number} ({name})"


def _remove_older(folder: Path, written: list[Path]) -> None:
    """What earlier results left here under our names would be taken for these results' figures."""
    names = [*(f"{number:02}-{name}" for number, (name, _) in _FIGURES.items()), f"{_SPEED[0]:02}-{_SPEED[1]}"]
    names += [f"{number:02}-{name}-*" for number, (name, _) in _CASES.items()]
    for name in names:
        for form in ("svg", "png"):
            for path in folder.glob(f"figure-{name}.{form}"):
                if path not in written:
                    path.unlink()
