"""A table, and its two forms: Markdown, and LaTeX with booktabs."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from rela.report.tables.signatures import shorten

NOTHING: Final = "\u2013"
"""Stands where there is no number."""

_MARKDOWN: Final = re.compile(r"([\\`*_{}\[\]<>|#~$])")
_LATEX: Final = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}", "\u2013": "--", "\u2212": "--", "±": r"$\pm$", "τ": r"$\tau$", "↓": r"$\downarrow$",
    "↑": r"$\uparrow$", "≤": r"$\leq$", "\u00d7": r"$\times$",
}  # fmt: skip


@dataclass(frozen=True)
class Column:
    """A column's name and, where several belong together, what they have in common."""

    name: str
    over: str = ""
    is_text: bool = False


@dataclass(frozen=True)
class Cell:
    """What stands in a place of a table; ``value`` is the number that may be the best of its column."""

    text: str
    value: float | None = None
    bold: bool = False


@dataclass(frozen=True)
class Row:
    """A row; ``rule``: a line above it. Only rows of the same ``contest`` are compared for the best value."""

    cells: tuple[Cell, ...]
    rule: bool = False
    contest: str | None = None


@dataclass(frozen=True)
class Table:
    """A table with its title, and what follows it: notes in words, and the signatures of its numbers."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    signatures: tuple[str, ...] = field(default=())

    def markdown(self) -> str:
        """A table as GitHub has it, without its title."""
        heads = [escape_markdown(f"{column.over} {column.name}".strip()) for column in self.columns]
        lines = [_line(heads), "|" + "".join("---|" if column.is_text else "--:|" for column in self.columns)]
        for row in self.rows:
            texts = (escape_markdown(cell.text) for cell in row.cells)
            lines.append(
                _line([f"**{text}**" if cell.bold else text for text, cell in zip(texts, row.cells, strict=True)])
            )
        for note in self.notes:
            lines += ["", escape_markdown(note)]
        if self.signatures:
            lines += ["", "; ".join(_code(signature) for signature in shorten(self.signatures))]
        return "\n".join(lines)

    def latex(self) -> str:
        r"""A table for a paper; it needs ``\usepackage{booktabs}``."""
        places = "".join("l" if column.is_text else "r" for column in self.columns)
        wide = len(self.columns) > 6
        kind, size = ("table*", r"\footnotesize") if wide else ("table", r"\small")
        lines = [rf"\begin{{{kind}}}[t]", r"\centering", size, rf"\begin{{tabular}}{{{places}}}", r"\toprule"]
        lines += [
            *self._over_heads(),
            " & ".join(escape_latex(column.name) for column in self.columns) + r" \\",
            r"\midrule",
        ]
        for place, row in enumerate(self.rows):
            if row.rule and place:
                lines.append(r"\midrule")
            texts = (escape_latex(cell.text) for cell in row.cells)
            marked = (rf"\textbf{{{text}}}" if cell.bold else text for text, cell in zip(texts, row.cells, strict=True))
            lines.append(" & ".join(marked) + r" \\")
        lines += [
            r"\bottomrule",
            r"\end{tabular}",
            rf"\caption{{{escape_latex(self.title)}}}",
            rf"\label{{tab:{self.name}}}",
        ]
        for note in self.notes:
            lines += [r"\par\smallskip", rf"{{\footnotesize {escape_latex(note)}}}"]
        for signature in shorten(self.signatures):
            broken = escape_latex(signature).replace(r"\textbar{}", r"\textbar{}\allowbreak ")
            lines += [r"\par", rf"{{\scriptsize\raggedright\texttt{{{broken}}}\par}}"]
        return "\n".join([*lines, rf"\end{{{kind}}}"])

    def _over_heads(self) -> list[str]:
        """The line of what columns have in common, if there is any."""
        if not any(column.over for column in self.columns):
            return []
        cells: list[str] = []
        rules: list[str] = []
        start = 1
        for over, members in itertools.groupby(self.columns, key=lambda column: column.over):
            count = len(list(members))
            cells.append(rf"\multicolumn{{{count}}}{{c}}{{{escape_latex(over)}}}" if over else " & ".join([""] * count))
            if over:
                rules.append(rf"\cmidrule(lr){{{start}-{start + count - 1}}}")
            start += count
        return [" & ".join(cells) + r" \\", " ".join(rules)]


def number_cell(value: float, spread: float | None = None, *, digits: int = 1, percent: bool = False) -> Cell:
    """A number with so many digits behind the point, and its spread."""
    if not np.isfinite(value):
        return Cell(NOTHING)
    factor = 100 if percent else 1
    text = f"{value * factor:.{digits}f}"
    if spread is not None and np.isfinite(spread):
        text += f" ± {spread * factor:.{digits}f}"
    return Cell(text.replace("-", "\u2212"), float(f"{value * factor:.{digits}f}"))


def mark_best(rows: Sequence[Row], columns: Sequence[int], *, least: bool = False) -> tuple[Row, ...]:
    """The rows with the best value of each of these columns in bold: as printed, so that equal ones are all best.

    What is bold already stays so. Where there is nothing to compare with, nothing is best.
    """
    best: dict[tuple[str | None, int], float] = {}
    for contest, place in itertools.product({row.contest for row in rows}, columns):
        of_contest = (row.cells[place].value for row in rows if row.contest == contest)
        values = [value for value in of_contest if value is not None]
        if contest is not None and len(values) > 1:
            best[contest, place] = min(values) if least else max(values)

    def marked(row: Row) -> Row:
        cells = (
            Cell(
                cell.text,
                cell.value,
                bold=cell.bold or (cell.value is not None and best.get((row.contest, place)) == cell.value),
            )
            for place, cell in enumerate(row.cells)
        )
        return Row(tuple(cells), row.rule, row.contest)

    return tuple(marked(row) for row in rows)


def escape_markdown(text: str) -> str:
    """Text that Markdown shows as it is."""
    return _MARKDOWN.sub(r"\\\1", " ".join(text.split()).replace("&", "&amp;"))


def escape_latex(text: str) -> str:
    """Text that LaTeX shows as it is."""
    return "".join(_LATEX.get(sign, sign) for sign in " ".join(text.split()))


def _code(text: str) -> str:
    """A code span; backticks inside take a longer fence."""
    longest = max((len(found) for found in re.findall(r"`+", text)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {text} {fence}" if longest else f"{fence}{text}{fence}"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
