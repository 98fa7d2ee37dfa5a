"""`rela flops`."""

import json
from pathlib import Path

import pytest
from tests.cli.helpers import rela


def test_the_papers_numbers_as_json() -> None:
    done = rela("flops", "--heads", "8", "--dim", "512", "--length", "100", "--json", "-")
    counts = json.loads(done.stdout)
    assert (counts["softmax"], counts["rela-g"]) == (239_200, 592_100)
    assert counts["matrix_products"]["softmax"] == counts["matrix_products"]["rela-g"] == 230_195_200
    assert counts["parameters"]["rela-g"] - counts["parameters"]["softmax"] == 18_432
    assert counts["extra_parameters"]["rela-i"] == 512
    assert "H:8|d:512|T:100" in counts["signature"]


def test_a_table_for_people() -> None:
    done = rela("flops", "--length", "1000")
    assert "23,992,000" in done.stdout
    assert "13,121,000" in done.stdout


@pytest.mark.parametrize("arguments", [("--heads", "0"), ("--length", "-1"), ("--heads", "7"), ("--dim", "many")])
def test_wrong_sizes(arguments: tuple[str, ...]) -> None:
    done = rela("flops", *arguments)
    assert done.returncode == 2
    assert arguments[0] in done.stderr


def test_json_into_a_file(tmp_path: Path) -> None:
    rela("flops", "--json", str(tmp_path / "flops.json"))
    assert json.loads((tmp_path / "flops.json").read_text())["relu"] == 80_000
