"""The README of a reproduction: each claim with its answer, every table and figure, and how they were made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rela.report.reproduction.further import TITLES
from rela.report.tables.table import Table, escape_markdown

_MARKS: Final = {
    "holds": "**holds**",
    "does not hold": "**does not hold**",
    "underpowered": "underpowered",
    "not measured": "not measured",
}
_FIGURES: Final = {
    "01": "Figure 1: softmax attention and ReLA",
    "02": "Figure 2: decoding speed by source length",
    "03": "Figure 3: weights that are exactly zero",
    "04": "Figure 4: alignment error rate by layer",
    "05": "Figure 5: how different heads are",
    "06": "Figure 6: null rates; dashed with targets shuffled",
    "07": "Figure 7: heads that specialise, on one sentence",
    "08": "Figure 8: all heads of a layer",
    "09": "Figure 9: sentences of several clauses",
    "10": "Figure 10: one alignment head on a good pair, with words inserted, and with another target",
    **TITLES,
}


def reproduction_page(
    summary: Mapping[str, Any],
    claims: Sequence[Mapping[str, Any]],
    tables: Sequence[Table],
    figures: Sequence[Path],
    left_out: Mapping[str, str],
    facts: Sequence[str],
) -> str:
    """Markdown. ``facts`` are sentences about how it was made; figures are relative to the page."""
    lines = [
        f"# The paper on {summary['corpus']}, scale {summary['scale']}",
        "",
        "Made by `rela reproduce`; every number is in `data/`. The paper: Zhang, Titov and Sennrich, *Sparse Attention "
        "with Linear Units* (EMNLP 2021).",
        "",
        *facts,
        "",
    ]
    if claims:
        lines += _claims(claims)
    lines += ["## Tables", ""]
    for table in tables:
        lines += [f"### {_table_title(table)}", "", table.markdown(), ""]
    lines += ["## Figures", ""]
    for path in figures:
        title = _FIGURES.get(path.stem.split("-")[1], path.stem)
        lines += [f"### {title}", "", f"![{title}]({path.as_posix()})", ""]
    if left_out:
        lines += ["## What is not here", "", *(f"- {what}: {why}" for what, why in left_out.items()), ""]
    return "\n".join(lines)


def _table_title(table: Table) -> str:
    name = table.name.replace("table-", "Table ")
    return f"{name}: {escape_markdown(table.title)}"


def _claims(claims: Sequence[Mapping[str, Any]]) -> list[str]:
    """Each with its answer, then with all its parts."""
    lines = [
        "## The claims",
        "",
        "| | claim | here |",
        "|--:|---|---|",
        *(
            f"| [{one['number']}](#claim-{one['number']}) | {escape_markdown(one['claim'])} | {_MARKS[one['answer']]} |"
            for one in claims
        ),
        "",
        "A claim holds if all its parts do, and does not hold if one does not. About BLEU and alignment, the 95% "
        "interval of the difference decides; a difference whose interval has both signs is underpowered. It knows the "
        "chance of the sentences, and that of the seeds, whose spread is taken from all systems that were trained "
        "several times, as if it was the same for all. About weights, a t-test over trainings decides, at 5%. Many "
        "things are tested, without a correction for that: one in twenty differences that are none looks like one.",
        "",
    ]
    for one in claims:
        lines += [f"### Claim {one['number']}", "", f"{escape_markdown(one['claim'])} {_MARKS[one['answer']]}.", ""]
        lines += [
            f"- {_MARKS[part['answer']]}: {escape_markdown(part['text'])}"
            + (f" *{escape_markdown(part['test'])}.*" if part["test"] else "")
            + (f" Paper: {escape_markdown(part['paper'])}." if part["paper"] not in ("", "-") else "")
            + (f" `{part['signature']}`" if part["signature"] else "")
            for part in one["statements"]
        ]
        lines.append("")
    return lines
