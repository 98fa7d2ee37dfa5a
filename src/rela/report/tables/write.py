"""All tables of a result: one as a string, or all as files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rela._files import write_text
from rela.report.choice import AbsentError
from rela.report.results import Results
from rela.report.tables.links import make_aer, make_best_heads, make_layers, make_symmetrised
from rela.report.tables.models import make_ablation, make_models
from rela.report.tables.table import Table
from rela.report.tables.weights import make_diversity, make_hallucination, make_null, make_sparsity, make_tags

TABLES: Final[dict[str, Callable[[Results, bool], Table]]] = {
    "models": make_models,
    "aer": make_aer,
    "best-heads": make_best_heads,
    "alignment-layers": make_layers,
    "symmetrised": make_symmetrised,
    "diversity": make_diversity,
    "sparsity": make_sparsity,
    "null": make_null,
    "hallucination": make_hallucination,
    "tags": make_tags,
    "ablation": make_ablation,
}
"""What makes each table; the flag adds the paper's rows where it has any."""


@dataclass
class TableReport:
    """The files that were written, and why a table was not."""

    written: list[Path] = field(default_factory=list[Path])
    left_out: dict[str, str] = field(default_factory=dict[str, str])


def make_table(results: Results, name: str, *, paper: bool = False) -> Table:
    """One table by its name; an AbsentError, which is a ValueError, says what it lacks."""
    if name not in TABLES:
        raise ValueError(f"expected a table out of {', '.join(TABLES)}, got {name!r}")
    return TABLES[name](results, paper)


def markdown_table(results: Results, name: str, *, paper: bool = False) -> str:
    """One table as Markdown, with its notes and signatures."""
    return make_table(results, name, paper=paper).markdown()


def latex_table(results: Results, name: str, *, paper: bool = False) -> str:
    """One table as LaTeX, for ``booktabs``."""
    return make_table(results, name, paper=paper).latex()


def write_tables(results: Results, folder: Path, *, paper: bool = False) -> TableReport:
    """Write every table that the results have the numbers for, and remove those of earlier results."""
    folder.mkdir(parents=True, exist_ok=True)
    report = TableReport()
    for name in TABLES:
        files = {form: folder / f"{name}.{form}" for form in ("md", "tex")}
        try:
            table = make_table(results, name, paper=paper)
        except AbsentError as error:
            report.left_out[f"table {name}"] = str(error)
            for file in files.values():
                file.unlink(missing_ok=True)
            continue
        write_text(files["md"], f"# {table.title}\n\n{table.markdown()}\n")
        write_text(files["tex"], f"{table.latex()}\n")
        report.written += files.values()
    return report
