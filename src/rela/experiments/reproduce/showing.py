"""From results to what people read: tables, figures and the page, made anew from the files each time."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from matplotlib.figure import Figure

from rela._files import write_text
from rela.analysis.results import FORMAT, grouped
from rela.experiments.reproduce.claims import answer_claims
from rela.experiments.reproduce.evidence import Evidence
from rela.experiments.reproduce.places import Places
from rela.experiments.reproduce.plan import NORMS, PARTS, Wanted
from rela.experiments.reproduce.scales import Task
from rela.experiments.reproduce.speed import BASE_FILE, FILE
from rela.experiments.reproduce.summary import summarise
from rela.experiments.reproduce.systems import ANALYSED, OURS
from rela.report.choice import AbsentError
from rela.report.reproduction.figures import write_reproduction_figures
from rela.report.reproduction.further import DIFFERENCES, TRAINING, draw_differences, draw_training
from rela.report.reproduction.page import reproduction_page
from rela.report.reproduction.tables import ablation_table, efficiency_table, operations_table, pairs_table
from rela.report.results import Entry, Examples, Results, load_examples, load_results, specialists, to_results
from rela.report.tables import Table, make_table

SUMMARY_FILE: Final = "summary.json"
CLAIMS_FILE: Final = "claims.json"
PAGE_FILE: Final = "README.md"
_REMEDY: Final = "`rela reproduce` makes it"


class Shown:
    """What was written, and why something was not."""

    def __init__(self) -> None:
        self.tables: list[Table] = []
        self.figures: list[Path] = []
        self.left_out: dict[str, str] = {}
        self.claims: list[dict[str, Any]] = []


def show(evidence: Evidence, wanted: Wanted, facts: Sequence[str]) -> Shown:
    """Write summary, claims, tables, figures and page: what is wanted, and anew what was shown before."""
    places, shown = evidence.places, Shown()
    places.data.mkdir(parents=True, exist_ok=True)
    before = _shown_before(places)
    parts = [name for name in PARTS if wanted.wants(name) or name in before]
    summary = summarise(evidence)
    _write_json(places.data / SUMMARY_FILE, summary)
    if "claims" in parts:
        shown.claims = [verdict.to_json() for verdict in answer_claims(evidence)]
        _write_json(places.data / CLAIMS_FILE, shown.claims)
    main = _weights(evidence, evidence.study.main)
    linked = {task.corpus: found for task in evidence.linked if (found := _weights(evidence, task)) is not None}
    speed, base = (_benchmark(places.data / name) for name in (FILE, BASE_FILE))
    makers: dict[str, Callable[[], list[Table]]] = {
        "table1": lambda: [ablation_table(summary)],
        "table2": lambda: [efficiency_table(speed, base)],
        "table3": lambda: [pairs_table(summary)],
        "table4": lambda: [operations_table(summary)],
        "table5": lambda: [
            replace(table, name=f"table-5-{corpus}", title=f"{table.title}; {corpus}")
            for corpus, found in _there(linked, "weights beside gold links").items()
            for table in [make_table(found, "aer", paper=True)]
        ],
        "table6": lambda: [replace(make_table(_present(main), "diversity", paper=True), name="table-6")],
    }
    for name, make in makers.items():
        if name in parts:
            try:
                shown.tables += make()
            except AbsentError as error:
                shown.left_out[name] = str(error)
    _write_tables(places.out / "tables", shown.tables)
    _draw(evidence, parts, shown, main, linked, speed, summary)
    page = reproduction_page(
        summary,
        shown.claims,
        shown.tables,
        [path.relative_to(places.out) for path in shown.figures if path.suffix == ".svg"],
        shown.left_out,
        facts,
    )
    write_text(places.out / PAGE_FILE, page)
    return shown


def _shown_before(places: Places) -> set[str]:
    """The parts whose files are there, by their names: ``table-5-grammar.md``, ``figure-07-rela-g.svg``."""
    found = {"claims"} if (places.data / CLAIMS_FILE).exists() else set[str]()
    for path in (*places.out.glob("tables/table-*.md"), *places.out.glob("figures/figure-*.svg")):
        kind, name = path.stem.split("-")[:2]
        found.add(f"{kind}{int(name)}" if name.isdigit() else name)
    return found


def _draw(
    evidence: Evidence,
    parts: Sequence[str],
    shown: Shown,
    main: Results | None,
    linked: dict[str, Results],
    speed: Results | None,
    summary: dict[str, Any],
) -> None:
    """The figures; without matplotlib, none."""
    numbers = [number for number in range(1, 11) if f"figure{number}" in parts]
    draws: dict[str, Callable[[], Figure]] = {
        TRAINING: lambda: draw_training(_curves(evidence)),
        DIFFERENCES: lambda: draw_differences(summary["table1"]),
    }
    further = {name: draw for name, draw in draws.items() if name in parts}
    if not numbers and not further:
        return
    report = write_reproduction_figures(
        evidence.places.out / "figures",
        numbers,
        main=main,
        linked=linked,
        speed=speed,
        cases=_cases(evidence, main),
        further=further,
    )
    shown.figures = report.written
    shown.left_out |= report.left_out


def _curves(evidence: Evidence) -> dict[str, list[dict[str, Any]]]:
    """Along the trainings of some systems."""
    main = evidence.study.main
    return {name: [found.facts for found in evidence.of(main, name, "train")] for name in NORMS}


def _write_json(path: Path, data: Any) -> None:
    write_text(path, json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def _there(found: dict[str, Results], what: str) -> dict[str, Results]:
    if not found:
        raise AbsentError(f"there are no {what}")
    return found


def _present(found: Results | None) -> Results:
    if found is None:
        raise AbsentError("no weights were measured")
    return found


def _weights(evidence: Evidence, task: Task) -> Results | None:
    """The weights of the systems that the paper analyses, on one task, as `rela report` takes them."""
    found = [one for name in ANALYSED for one in evidence.of(task, name, "weights")]
    if not found:
        return None
    entries = [one.facts["entry"] for one in found]
    data = {"format": FORMAT, "data": found[0].facts["data"], "models": entries, "groups": grouped(entries)}
    return to_results(data, None, where=task.corpus, remedy=_REMEDY)


def _cases(evidence: Evidence, main: Results | None) -> Results | None:
    """The same with sentences to look at, of the training with the strongest specialist among its cross heads."""
    if main is None:
        return None
    kept = {found.seed: found.facts for found in evidence.of(evidence.study.main, OURS, "cases")}
    found: list[tuple[float, Entry, dict[str, Any]]] = []
    for entry in main.models:
        facts = kept.get(entry.info["seed"]) if entry.info["group"] == OURS else None
        if facts is not None and facts["examples"] is not None:
            strengths = [one["strength"] for one in specialists(entry) if one["kind"] == "cross"]
            found.append((max(strengths, default=0.0), entry, facts))
    if not found:
        return None
    _, entry, facts = max(found, key=lambda one: one[0])
    path = evidence.places.data / evidence.study.main.corpus / facts["examples"]
    examples = load_examples(path)
    if examples is None:
        return None
    shown = replace(entry, info={**entry.info, "best": facts["best"]})
    models = [shown if one is entry else one for one in main.models]
    return replace(main, models=models, examples=Examples([entry.name], examples.sentences, path))


def _benchmark(path: Path) -> Results | None:
    return load_results(path, remedy=_REMEDY) if path.exists() else None


def _write_tables(folder: Path, tables: Sequence[Table]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for old in (*folder.glob("table-*.md"), *folder.glob("table-*.tex")):
        old.unlink()
    for table in tables:
        write_text(folder / f"{table.name}.md", f"# {table.title}\n\n{table.markdown()}\n")
        write_text(folder / f"{table.name}.tex", f"{table.latex()}\n")
