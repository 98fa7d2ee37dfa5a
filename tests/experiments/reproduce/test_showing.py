"""Tables, figures and the page of a study, from its files alone."""

import json
from pathlib import Path

import pytest
from tests.experiments.reproduce.made_up import make_study

from rela.experiments.reproduce.evidence import Evidence
from rela.experiments.reproduce.plan import Wanted
from rela.experiments.reproduce.showing import Shown, show


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    return make_study(tmp_path_factory.mktemp("study"))


@pytest.fixture(scope="module")
def shown(evidence: Evidence) -> Shown:
    return show(evidence, Wanted(), ["Made in a test."])


def test_tables_in_the_paper_s_form(evidence: Evidence, shown: Shown) -> None:
    tables = {table.name: table.markdown() for table in shown.tables}
    assert set(tables) == {"table-1", "table-3", "table-4", "table-5-grammar", "table-5-europarl-en-de", "table-6"}
    first = tables["table-1"].splitlines()
    softmax = next(line for line in first if "| softmax |" in line)
    assert "50.20 ± 0.10" in softmax
    assert "26.9" in softmax
    relu = next(line for line in first if "| relu |" in line)
    assert relu.count("failed") == 4
    assert "239,200" in tables["table-4"]
    assert "592,100" in tables["table-4"]
    assert "multi30k-en-cs" in tables["table-3"]
    for table in shown.tables:
        assert (evidence.places.out / "tables" / f"{table.name}.tex").is_file()


def test_figures(evidence: Evidence, shown: Shown) -> None:
    names = {path.stem for path in shown.figures}
    assert {"figure-01-overview", "figure-03-sparsity", "figure-05-diversity", "figure-06-null-rate"} <= names
    assert {"figure-training", "figure-differences"} <= names
    assert {"figure-04-aer-grammar", "figure-04-aer-europarl-en-de"} <= names
    assert all(path.exists() for path in shown.figures)
    assert "figure 2 (decoding-speed)" in shown.left_out


def test_the_page_names_all_of_it(evidence: Evidence, shown: Shown) -> None:
    page = (evidence.places.out / "README.md").read_text(encoding="utf-8")
    assert "Made in a test." in page
    for number in range(1, 16):
        assert f"### Claim {number}\n" in page
    for path in shown.figures:
        if path.suffix == ".svg":
            assert f"(figures/{path.name})" in page
    assert "## What is not here" in page
    claims = json.loads((evidence.places.data / "claims.json").read_text(encoding="utf-8"))
    assert [claim["number"] for claim in claims] == list(range(1, 16))


def test_only_some_of_it(evidence: Evidence, tmp_path: Path) -> None:
    made = make_study(tmp_path)
    found = show(made, Wanted(parts=("table4", "figure3")), [])
    assert [table.name for table in found.tables] == ["table-4"]
    assert {path.stem for path in found.figures} == {"figure-03-sparsity"}


def test_what_was_shown_before_stays(evidence: Evidence, tmp_path: Path) -> None:
    made = make_study(tmp_path)
    show(made, Wanted(parts=("table4", "figure3")), [])
    found = show(made, Wanted(parts=("table1",)), [])
    assert [table.name for table in found.tables] == ["table-1", "table-4"]
    assert {path.stem for path in found.figures} == {"figure-03-sparsity"}


def test_results_of_other_settings_are_refused(tmp_path: Path) -> None:
    made = make_study(tmp_path)
    path = made.places.data / "multi30k-en-de" / "softmax-1.test.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"warmup": 1500', '"warmup": 1501'), encoding="utf-8")
    with pytest.raises(ValueError, match=r"rate.warmup"):
        show(made, Wanted(parts=("table1",)), [])
