"""`rela report`: the microscope's page, figures and tables out of result files."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rela.cli._output import JsonOption, check_not_input, console_for, write_json

if TYPE_CHECKING:
    from rela.report.figures import FigureReport
    from rela.report.results import Results

_BENCH = "`rela bench length --json FILE` makes one, with the measure decode.speed"
NO_MATPLOTLIB = 'matplotlib is not installed; pip install "rela-attention[report]"'


def report(
    results: Annotated[Path, typer.Argument(metavar="RESULTS", help="A results.json, or the folder it is in.")],
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where to write. Default: the folder of the results.", show_default=False),
    ] = None,
    bench: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Results of a benchmark of decoding, for figure 2.", show_default=False),
    ] = None,
    no_figures: Annotated[bool, typer.Option("--no-figures", help="Page and tables only.")] = False,
    paper: Annotated[bool, typer.Option("--paper", help="Add the paper's own numbers to the tables.")] = False,
    json_to: JsonOption = None,
) -> None:
    """Show results: a page to explore, the paper's figures (SVG, PNG) and tables (Markdown, LaTeX).

    Writes report.html, figures/ and tables/. Reads result files alone: no model, no torch. Figures and tables that
    the results have no numbers for are left out, and it says which and why.
    """
    if bench is not None and no_figures:
        raise typer.BadParameter(f"--no-figures: expected it without --bench, got --bench {bench} too")
    from rela.report.results import PAGE_FILE, RESULTS_FILE, load_results

    file = results / RESULTS_FILE if results.is_dir() else results
    check_not_input(json_to, "--json", {"RESULTS": [file], **({"--bench": [bench]} if bench else {})})
    from rela.report.page import write_page
    from rela.report.tables import write_tables

    read = load_results(results)
    speeds = None if bench is None else load_results(bench, remedy=_BENCH)
    folder = file.parent if out is None else out
    folder.mkdir(parents=True, exist_ok=True)
    page = write_page(read, folder / PAGE_FILE)
    tables = write_tables(read, folder / "tables", paper=paper)
    figures = None if no_figures else _write_figures(read, folder / "figures", speeds)
    left_out = dict(tables.left_out)
    if figures is None:
        left_out["all figures"] = "--no-figures was given" if no_figures else NO_MATPLOTLIB
    else:
        left_out = figures.left_out | left_out
    if bare := {name: page.total_sentences - count for name, count in page.sentences.items()}:
        left_out |= {
            f"{count:,} of {page.total_sentences:,} sentences of {name} on the page": "the page would be too large"
            for name, count in bare.items()
            if count > 0
        }
    if json_to is not None:
        result = {
            "schema": "rela-report/1",
            "page": str(page.path),
            "figures": [] if figures is None else [str(path) for path in figures.written],
            "tables": [str(path) for path in tables.written],
            "left_out": left_out,
            "notes": [] if figures is None else figures.notes,
        }
        write_json(result, json_to)
    console = console_for(json_to)
    console.print(f"{page.path}: {page.path.stat().st_size / 1e6:.1f} MB")
    for name, written in (("figures", figures.written if figures else []), ("tables", tables.written)):
        if written:
            stems = dict.fromkeys(path.stem for path in written)
            endings = ", ".join(dict.fromkeys(path.suffix[1:] for path in written))
            console.print(f"{folder / name}: {len(stems)} {name} ({endings}): {', '.join(stems)}")
    for what, why in left_out.items():
        console.print(f"left out: {what}: {why}")
    for note in figures.notes if figures else []:
        console.print(f"note: {note}")


def _write_figures(results: "Results", folder: Path, bench: "Results | None") -> "FigureReport | None":
    """The figures; None without matplotlib."""
    try:
        from rela.report.figures import write_figures
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        return None
    return write_figures(results, folder, bench=bench)
