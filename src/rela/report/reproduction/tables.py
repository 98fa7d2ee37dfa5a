"""Tables 1 to 4 in the paper's form. Tables 5 and 6 are those of `rela report`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rela.report.choice import AbsentError
from rela.report.results import Results
from rela.report.tables import paper
from rela.report.tables.rows import text_row
from rela.report.tables.table import NOTHING, Cell, Column, Row, Table, mark_best, number_cell

Summary = Mapping[str, Any]

_PAPER: Final = "paper"
_NOT_THE_SAME: Final = (
    "The paper's numbers are of Transformer base on WMT data: other models and other data than ours, so not to be "
    "compared digit by digit."
)
_INTERVAL: Final = (
    "± is the standard deviation over seeds. Differences are from softmax, with their 95% interval: bootstrap over "
    "sentences, and the chance of seeds, whose spread is taken from all systems that were trained several times."
)


def ablation_table(summary: Summary) -> Table:
    """Table 1: every system on the main corpus."""
    rows: list[Row] = []
    signatures: dict[str, None] = {}
    if not summary["table1"]:
        raise AbsentError("no system was trained")
    for place, entry in enumerate(summary["table1"]):
        scores = [_score(entry[metric]) for metric in ("bleu", "tokenised")]
        if entry["failed"] and not entry["bleu"]:
            scores = [Cell("failed"), Cell("failed")]
        published = paper.ABLATION.get(entry["system"])
        papers = [Cell("failed")] * 2 if entry["system"] == "relu" else [Cell(NOTHING)] * 2
        if published is not None:
            papers = [number_cell(published[0]), number_cell(published[1], digits=2)]
        parameters = entry["parameters"]
        texts = [str(entry["row"] or NOTHING), entry["system"], entry["what"]]
        cells = [
            Cell(_trainings(entry)),
            *scores,
            _difference(entry["difference"]),
            Cell(NOTHING if parameters is None else f"{parameters:,}"),
            *papers,
        ]
        is_new = place > 0 and (entry["row"] is None) != (summary["table1"][place - 1]["row"] is None)
        rows.append(text_row(texts, cells, rule=is_new, contest="ours"))
        for metric in ("bleu", "tokenised"):
            if entry[metric]:
                signatures[entry[metric]["signature"]] = None
        if entry["difference"]:
            signatures[entry["difference"]["signature"]] = None
    columns = (
        Column("row", is_text=True),
        Column("system", is_text=True),
        Column("what", is_text=True),
        Column("seeds"),
        Column("BLEU"),
        Column("tokenised"),
        Column("over softmax"),
        Column("parameters"),
        Column("BLEU", _PAPER),
        Column("tokenised", _PAPER),
    )
    failed = [f"{one['system']}: {reason}." for one in summary["table1"] for reason in dict.fromkeys(one["failed"])]
    title = f"Ablation: BLEU on the test set of {summary['corpus']}"
    notes = (_INTERVAL, *failed, _NOT_THE_SAME)
    return Table("table-1", title, columns, mark_best(rows, [4, 5]), notes, tuple(signatures))


def _trainings(entry: Mapping[str, Any]) -> str:
    """How many there are, and how many of them came to their end."""
    count, failed = len(entry["seeds"]), len(entry["failed"])
    return f"{count - failed} of {count}" if 0 < failed < count else str(count)


def _score(found: Mapping[str, Any] | None) -> Cell:
    return Cell(NOTHING) if found is None else number_cell(found["mean"], found["spread"], digits=2)


def _difference(found: Mapping[str, Any] | None) -> Cell:
    if found is None:
        return Cell(NOTHING)
    text = f"{found['delta']:+.2f} ({found['low']:+.2f} to {found['high']:+.2f})"
    return Cell(text.replace("-", "\u2212"))


def efficiency_table(speed: Results | None, base: Results | None) -> Table:
    """Table 2: parameters and speeds beside softmax."""
    if speed is None:
        raise AbsentError("nothing was timed")
    signatures: dict[str, None] = {}

    def cell(results: Results | None, name: str, measure: str) -> Cell:
        entries = {} if results is None else {entry.name: entry for entry in results.models}
        found = entries[name].measures.get(measure) if name in entries else None
        if found is None:
            return Cell(NOTHING)
        signatures[found.signature] = None
        return Cell(f"{float(found.value):.2f}\u00d7", float(found.value))

    rows: list[Row] = []
    for entry in speed.models:
        published = paper.EFFICIENCY.get(entry.name)
        parameters = entry.info.get("parameters")
        cells = [
            Cell(NOTHING if parameters is None else f"{parameters:,}"),
            cell(speed, entry.name, "train.step.over.softmax"),
            cell(base, entry.name, "train.step.over.softmax"),
            cell(speed, entry.name, "decode.speed.mean"),
            cell(speed, entry.name, "decode.compiled.speed.mean"),
            *(
                [Cell(NOTHING)] * 4
                if published is None
                else [Cell(f"{published[0]:.2f}M"), *(Cell(f"{value:.2f}\u00d7") for value in published[1:])]
            ),
        ]
        rows.append(text_row([entry.name], cells))
    columns = (
        Column("system", is_text=True),
        Column("parameters"),
        Column("training"),
        Column("training, Transformer base"),
        Column("decoding"),
        Column("decoding, compiled"),
        Column("parameters", _PAPER),
        Column("training", _PAPER),
        Column("decoding", _PAPER),
        Column("training, PyTorch", _PAPER),
    )
    notes = [
        "Speeds beside softmax, which attends by torch's own kernel; medians. Decoding: one sentence at a time, as "
        "many pieces as the reference has, mean over groups of source length; all by the search in PyTorch, then those "
        "that can by the compiled one, which users get by default. sparsemax and entmax15 are those of the entmax "
        "package."
    ]
    share = speed.data.get("others_cpu_share")
    if share is not None:
        notes.append(f"Other processes took {share:.1%} of the processors meanwhile.")
    title = "Efficiency: speed of a training step and of decoding, softmax = 1"
    return Table("table-2", title, columns, tuple(rows), tuple(notes), tuple(signatures))


def pairs_table(summary: Summary) -> Table:
    """Table 3: other pairs of languages."""
    tasks = [task for task in summary["table3"] if task["systems"]]
    if len(tasks) < 2:
        raise AbsentError("one pair of languages alone was trained")
    names = list(dict.fromkeys(name for task in tasks for name in task["systems"]))
    signatures: dict[str, None] = {}
    rows: list[Row] = []
    for name in names:
        cells: list[Cell] = []
        for task in tasks:
            found = task["systems"].get(name)
            cells += [_score(found and found["bleu"]), _difference(found and found["difference"])]
            if found and found["bleu"]:
                signatures[found["bleu"]["signature"]] = None
        papers = [number_cell(value) for value in paper.PAIRS.get(name, ())] or [Cell(NOTHING)] * 4
        rows.append(text_row([name], [*cells, *papers], contest="ours"))
    columns = (
        Column("system", is_text=True),
        *(Column(what, task["corpus"]) for task in tasks for what in ("BLEU", "over softmax")),
        *(Column(pair, _PAPER) for pair in ("En-Fr", "En-Fi", "Zh-En", "Ro-En")),
    )
    marked = mark_best(rows, range(1, 2 * len(tasks), 2))
    notes = (_INTERVAL, _NOT_THE_SAME)
    return Table("table-3", "More pairs of languages: BLEU", columns, marked, notes, tuple(signatures))


def operations_table(summary: Summary) -> Table:
    """Table 4: operations of map and norm."""
    lengths = list(summary["table4"][0]["operations"])
    rows = [
        text_row([entry["system"]], [Cell(f"{entry['operations'][length]:,}") for length in lengths])
        for entry in summary["table4"]
    ]
    columns = (Column("system", is_text=True), *(Column(f"T = {length}") for length in lengths))
    notes = (
        "8 heads, d = 512, one sentence. softmax 3HT^2 - HT and rela-g HT^2 + 10Td + T as the paper counts (239K and "
        "592K at T = 100; 23.99M and 13.12M at T = 1000); the others counted the same way by us.",
    )
    return Table("table-4", "Operations of weight map and norm", columns, tuple(rows), notes, ())
