"""The tables of docs/results.md, the paper at small scale: from what `rela reproduce` made, for make_documents.py."""

import json
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Final

import tune_laptop

from rela.report.tables.table import escape_markdown

ROOT: Final = Path(__file__).resolve().parent.parent
STUDY: Final = ROOT / "reproduction" / "multi30k-en-de-laptop"
PAGE: Final = "docs/results.md"
NOT_YET: Final = "Not measured yet."
NUM_CLAIMS: Final = 15
SHOWN: Final = ("1", "2", "3", "4", "5-grammar", "5-europarl-en-de", "6")


def _claims() -> list[Any]:
    path = STUDY / "data" / "claims.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []


def claims_table() -> str:
    """Markdown: all claims, each with its answer, and how many of its parts hold."""
    claims = _claims()
    if not claims:
        return NOT_YET
    lines = ["| | the paper says | here | parts that hold |", "|--:|---|---|--:|"]
    for claim in claims:
        answers = [statement["answer"] for statement in claim["statements"]]
        held = "\u2013" if set(answers) == {"not measured"} else f"{answers.count('holds')} of {len(answers)}"
        name = f"[{claim['number']}](#claim-{claim['number']})"
        lines.append(f"| {name} | {escape_markdown(claim['claim'])} | {_bold(claim['answer'])} | {held} |")
    return "\n".join(lines)


def claim_parts(number: int) -> str:
    """Markdown: the parts of a claim, with numbers and tests of significance."""
    for claim in _claims():
        if claim["number"] == number:
            return "\n".join([f"> {escape_markdown(claim['claim'])}", "", *map(_part, claim["statements"])])
    return NOT_YET


def _part(statement: Any) -> str:
    test = f" *{escape_markdown(statement['test'])}.*" if statement["test"] else ""
    papers = f" Paper: {escape_markdown(statement['paper'])}." if statement["paper"] not in ("", "-") else ""
    signature = f" `{statement['signature']}`" if statement["signature"] else ""
    return f"- {_bold(statement['answer'])}: {escape_markdown(statement['text'])}{test}{papers}{signature}"


def _bold(answer: str) -> str:
    return answer if answer in ("underpowered", "not measured") else f"**{answer}**"


def study_table(name: str) -> str:
    """Markdown: a table as `rela reproduce` wrote it, without its title."""
    path = STUDY / "tables" / f"table-{name}.md"
    return path.read_text(encoding="utf-8").partition("\n")[2].strip() if path.exists() else NOT_YET


def tuning_table(ways: Iterable[str]) -> str:
    """Markdown: recipes that were tried, by their validation pairs."""
    lines = ["| recipe | parameters | dev loss | dev BLEU |", "|---|--:|--:|--:|"]
    paths = [tune_laptop.RESULTS / f"{tune_laptop.folder_of(name)}.json" for name in ways]
    found = [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.exists()]
    if not found:
        return NOT_YET
    best = max(entry["bleu"]["score"] for entry in found)
    for entry in found:
        score = f"{entry['bleu']['score']:.2f}"
        shown = f"**{score}**" if entry["bleu"]["score"] == best else score
        lines.append(f"| {entry['way']} | {entry['parameters']:,} | {entry['loss']:.3f} | {shown} |")
    return "\n".join([*lines, "", f"`{found[0]['bleu']['signature']}`"])


TABLES: Final[dict[str, tuple[str, Callable[[], str]]]] = {
    "paper claims": (PAGE, claims_table),
    **{f"paper claim {number}": (PAGE, partial(claim_parts, number)) for number in range(1, NUM_CLAIMS + 1)},
    **{f"paper table {name}": (PAGE, partial(study_table, name)) for name in SHOWN},
    "paper tuning": (PAGE, partial(tuning_table, tune_laptop.WAYS)),
    "paper tuning of rela-g": (PAGE, partial(tuning_table, tune_laptop.AFTERWARDS)),
}
