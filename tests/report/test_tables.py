"""Tables: exact values, both forms, and nothing lost of the signatures."""

import itertools
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.report.helpers import edit_results, write_results

from rela.report.choice import AbsentError
from rela.report.results import Entry, Measure, Results, load_results
from rela.report.tables import TABLES, latex_table, make_table, markdown_table, write_tables
from rela.report.tables.signatures import shorten
from rela.report.tables.table import Cell, Column, Row, Table, escape_latex, escape_markdown, mark_best, number_cell

import numpy as np  # isort: skip

NAN = float("nan")


def measure(value: Any, *axes: str, spread: Any = None, name: str = "m", **labels: list[str]) -> Measure:
    found = None if spread is None else np.array(spread, float)
    return Measure(f"{name}|v1", axes, labels, np.array(value, float), found)


def results_of(*groups: tuple[str, dict[str, Measure]]) -> Results:
    models = [Entry(name, measures, {"findings": []}) for name, measures in groups]
    entries = [Entry(name, measures, {"models": [name]}) for name, measures in groups]
    return Results({}, models, entries, None)


def aer(*values: float) -> dict[str, Measure]:
    names = [
        f"cross.{what}.{shift}.{rule}"
        for rule in ("merged", "any")
        for shift in ("normal", "shifted")
        for what in ("aol", "aoh")
    ]
    return {name: measure(value, name=name) for name, value in zip(names, values, strict=True)}


def test_aer_exactly():
    results = results_of(
        ("softmax", aer(0.7595, 0.6751, 0.7938, 0.5431, 0.8, 0.7, NAN, 0.5)),
        ("rela_g", aer(0.6446, 0.6164, 0.5924, 0.5241, 0.7, 0.7, 0.6, 0.4)),
    )
    assert markdown_table(results, "aer").splitlines()[:6] == [
        "| model | words | normal AoL | normal AoH | shifted AoL | shifted AoH |",
        "|---|---|--:|--:|--:|--:|",
        "| softmax | merged | 75.95 | 67.51 | 79.38 | 54.31 |",
        "| rela\\_g | merged | **64.46** | **61.64** | **59.24** | **52.41** |",
        "| softmax | any | 80.00 | **70.00** | \u2013 | 50.00 |",
        "| rela\\_g | any | **70.00** | **70.00** | 60.00 | **40.00** |",
    ]


def test_the_papers_rows_are_marked():
    results = results_of(("softmax", aer(*[0.5] * 8)))
    table = markdown_table(results, "aer", paper=True)
    assert "| rela-g (paper) | \u2013 | 64.46 | 61.64 | 59.24 | 52.41 |" in table
    assert "Zhang, Titov and Sennrich (2021), table 5" in table
    assert "paper" not in markdown_table(results, "aer")
    assert "**" not in table  # one model alone is not the best


def test_spread_over_seeds(tmp_path: Path):
    results = load_results(write_results(tmp_path, ["rela-g"], seeds=3, layers=2, sentences=1, words=2))
    group = results.groups[0].measures["cross.sparsity.layer"]
    assert group.spread is not None
    rows = markdown_table(results, "sparsity").splitlines()
    cross = next(row for row in rows if row.startswith("| cross | rela-g | pieces"))
    assert f"| {group.value[1] * 100:.1f} ± {group.spread[1] * 100:.1f} |" in cross
    means = [m.measures["cross.sparsity.layer"].value.mean() for m in results.models]
    assert cross.endswith(f"| {np.mean(means) * 100:.1f} ± {np.std(means, ddof=1) * 100:.1f} |")


def test_diversity_by_tau():
    kinds = ("encoder", "decoder", "cross")
    dense = {f"{kind}.diversity{end}": measure([0.2, 0.4], "layer") for kind in kinds for end in ("", ".word")}
    dense |= {f"{kind}.diversity.mean": measure(0.3) for kind in kinds}
    by_tau = measure([[1.0, 1.5], [0.5, 0.6]], "tau", "layer", tau=["1", "0.5"])
    relu = dense | {f"{kind}.diversity.tau{end}": by_tau for kind in kinds for end in ("", ".word")}
    lines = markdown_table(results_of(("softmax", dense), ("rela-g", relu)), "diversity").splitlines()
    assert lines[2] == "| softmax | 0.30 | 0.30 | 0.30 | 0.30 | 0.30 | 0.30 |"
    assert lines[3].startswith("| rela-g, τ = 1 | **1.25** | **1.25**")
    assert lines[4].startswith("| rela-g, τ = 0.5 | 0.55 |")
    assert r"rela-g, $\tau$ = 0.5 & 0.55" in latex_table(results_of(("rela-g", relu)), "diversity")


def test_null_leaves_models_without_to_a_note(tmp_path: Path):
    results = load_results(write_results(tmp_path, ["rela-g", "softmax"], layers=2, sentences=1, words=2))
    table = markdown_table(results, "null")
    assert "| cross | rela-g | variance over heads | 0." in table
    assert "| cross | rela-g | layer attention |" in table
    assert "| softmax |" not in table
    assert "All are 0 of softmax." in table


def test_tags_of_specialised_heads(tmp_path: Path):
    results = load_results(write_results(tmp_path, ["rela-g"], layers=2, sentences=1, words=2, findings=2))
    lines = markdown_table(results, "tags").splitlines()
    assert lines[0] == "| after | rows | rela-g, cross 2.1 | rela-g, cross 2.2 |"
    rate = results.models[0].measures["cross.null.tag"].value[1, 1, 1]
    assert lines[4].startswith(f"| ADJ | 200 | {rate * 100:.1f} |")


def test_findings_of_other_sorts_are_no_specialists(tmp_path: Path):
    """Some are about a whole kind, and have no head."""

    def change(data: dict[str, Any]) -> None:
        sparsest = {"text": "x", "strength": 1, "sort": "sparsity", "kind": "cross", "layer": None, "head": None}
        sink = {"text": "y", "strength": 0.99, "sort": "sink", "kind": "decoder", "layer": 1, "head": 2}
        data["models"][0]["findings"] += [sparsest, sink]

    write_results(tmp_path, ["rela-g"], layers=2, sentences=1, words=2)
    edit_results(tmp_path, change)
    results = load_results(tmp_path)
    assert markdown_table(results, "tags").splitlines()[0] == "| after | rows | rela-g, cross 2.1 |"


def test_best_heads_are_the_best(tmp_path: Path):
    results = load_results(write_results(tmp_path, ["rela-g"], layers=2, heads=3, sentences=1, words=2))
    errors = results.models[0].measures["cross.aer.normal.merged"].value
    layer, head = np.unravel_index(errors.argmin(), errors.shape)
    f1 = results.models[0].measures["cross.f1.normal.merged"].value[layer, head]
    row = markdown_table(results, "best-heads").splitlines()[2]
    assert row.startswith(f"| rela-g | normal | merged | {layer + 1} | {head} | {errors.min() * 100:.2f} |")
    assert row.endswith(f"| {f1 * 100:.2f} |")


def test_symmetrised_and_ablation(tmp_path: Path):
    def add(data: dict[str, Any]) -> None:
        for entry, key in ((data["models"][0], "value"), (data["groups"][0], "mean")):
            for score, values in {
                "aer": [0.3, 0.2],
                "precision": [0.8, 0.7],
                "recall": [0.6, 0.9],
                "f1": [0.7, None],
            }.items():
                entry["measures"][f"symmetrised.{score}"] = {
                    "signature": score, "axes": ["method"], "labels": {"method": ["forward", "union"]}, key: values,
                }  # fmt: skip
        for name, values in {"": [[0.5, 0.1]], ".null": [[None, 0.0]], ".active": [[0.6, -0.2]]}.items():
            measure = {"signature": "a", "axes": ["layer", "head"], "value": values}
            data["models"][0]["measures"][f"cross.ablation{name}"] = measure

    write_results(tmp_path, ["rela-g"], layers=1, heads=2, sentences=1, words=2)
    results = load_results(edit_results(tmp_path, add))
    assert markdown_table(results, "symmetrised").splitlines()[2:4] == [
        "| rela-g | forward | 30.00 | **80.00** | 60.00 | 70.00 |",
        "| rela-g | union | **20.00** | 70.00 | **90.00** | \u2013 |",
    ]
    assert (
        markdown_table(results, "ablation").splitlines()[2]
        == "| rela-g | cross | 1 | 0.3000 | 0.5000 | 0.0000 | 0.2000 |"
    )


def check_latex(text: str) -> None:
    """Braces and environments are balanced, and each row has as many cells as the head says."""
    assert re.sub(r"\\[{}]", "", text).count("{") == re.sub(r"\\[{}]", "", text).count("}")
    assert re.findall(r"\\begin\{(.+?)\}", text) == re.findall(r"\\end\{(.+?)\}", text)[::-1]
    (places,) = re.findall(r"\\begin\{tabular\}\{(.+)\}", text)
    inside = text.partition(r"\toprule")[2].partition(r"\bottomrule")[0]
    rows = [line for line in inside.splitlines() if line.endswith(r"\\")]
    for row in rows:
        spanned = sum(int(count) - 1 for count in re.findall(r"\\multicolumn\{(\d+)\}", row))
        assert len(re.findall(r"(?<!\\)&", row)) + 1 + spanned == len(places), row
    assert not re.search(r"(?<!\\)[%#]", text)


def test_all_tables_into_a_folder(tmp_path: Path):
    folder = write_results(tmp_path, ["rela-g", "a_b&c%d#e"], seeds=2, layers=2, sentences=1, words=2)
    (tmp_path / "ablation.md").write_text("of earlier results")
    report = write_tables(load_results(folder), tmp_path, paper=True)
    assert set(report.left_out) == {"table symmetrised", "table ablation"}
    assert not (tmp_path / "ablation.md").exists()
    assert {path.stem for path in report.written} == set(TABLES) - {"symmetrised", "ablation"}
    for path in report.written:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".tex":
            check_latex(text)
        else:
            table = [re.sub(r"\\\|", "", line) for line in text.splitlines() if line.startswith("|")]
            assert len({line.count("|") for line in table}) == 1
            assert "nan" not in text


@pytest.mark.parametrize("name", sorted(set(TABLES) - {"models", "sparsity", "diversity", "hallucination"}))
def test_what_is_not_there_is_said(tmp_path: Path, name: str):
    results = load_results(write_results(tmp_path, ["softmax"], layers=1, sentences=1, words=2, gold=False))
    with pytest.raises(AbsentError):
        make_table(results, name)


def test_a_table_that_nobody_knows():
    with pytest.raises(ValueError, match=r"expected a table out of models, aer, .* got 'nosuch'"):
        make_table(results_of(), "nosuch")


def test_escaping():
    assert escape_markdown("a_b|c*\n<d> &amp; `e`") == "a\\_b\\|c\\* \\<d\\> &amp;amp; \\`e\\`"
    assert escape_latex("50% & a_b #1 {x} ~^ \\ ± \u2013 <|>") == (
        r"50\% \& a\_b \#1 \{x\} \textasciitilde{}\textasciicircum{} \textbackslash{} $\pm$ -- "
        r"\textless{}\textbar{}\textgreater{}"
    )


def test_cells():
    assert number_cell(NAN).text == "\u2013"
    assert number_cell(-0.5, 0.25, digits=2).text == "\u22120.50 ± 0.25"
    assert number_cell(0.5, NAN, percent=True).text == "50.0"


def test_equal_as_printed_is_equally_good():
    rows = [Row((number_cell(value, digits=1),), contest="a") for value in (0.51, 0.54, 0.1)]
    assert [row.cells[0].bold for row in mark_best(rows, [0])] == [True, True, False]


def test_a_signature_with_backticks():
    table = Table("t", "T", (Column("a"),), (Row((Cell("1"),)),), (), ("x`y|z",))
    assert table.markdown().endswith("\n\n`` x`y|z ``")


def expand(line: str) -> list[str]:
    """What a line with braces stands for."""
    parts = [re.fullmatch(r"(.*?)\{(.*)\}", field) for field in line.split("|")]
    choices = [
        [field] if found is None or "," not in found[2] else [found[1] + value for value in found[2].split(",")]
        for field, found in zip(line.split("|"), parts, strict=True)
    ]
    return ["|".join(chosen) for chosen in itertools.product(*choices)]


SIGNATURES = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"), st.sampled_from("123")).map(
        lambda parts: f"{parts[0]}|kind:{parts[1]}|level:{parts[2]}|v1"
    )
)


@given(SIGNATURES)
def test_short_signatures_are_complete(signatures: list[str]):
    lines = shorten(signatures)
    spelled = [signature for line in lines for signature in expand(line)]
    assert sorted(spelled) == sorted(set(signatures))


def test_signatures_in_one_line_where_that_is_all():
    kinds = [f"null|kind:{kind}|heads:{heads}|v1" for kind in ("cross", "encoder") for heads in ("1", "2")]
    assert shorten(kinds) == ["null|kind:{cross,encoder}|heads:{1,2}|v1"]
    assert shorten(["a|x:1,2|v1", "a|x:3|v1"]) == ["a|x:1,2|v1", "a|x:3|v1"]
    assert shorten(["a|v1", "b|x:1|v1"]) == ["a|v1", "b|x:1|v1"]
    assert shorten(["m|k:a|v1", "m|k:b|v1", "t|k:b|v1", "t|k:c|v1"]) == ["m|k:{a,b}|v1", "t|k:{b,c}|v1"]
