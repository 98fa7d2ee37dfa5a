"""`rela bench attention` and `rela bench align`."""

import json
from pathlib import Path

import pytest
from tests.analysis.studies import make_model
from tests.cli.helpers import rela

SMALL = ("--dim", "32", "--heads", "4", "--tokens", "64", "--rounds", "3")


def test_one_batch_of_every_attention() -> None:
    done = rela("bench", "attention", *SMALL, "--lengths", "8")
    for word in ("sparsity", "null", "extra", "fwd", "+bwd", "softmax", "rela-g-layernorm", "entmax", "topk"):
        assert word in done.stdout
    assert "core" not in done.stdout


def test_several_lengths_with_the_core() -> None:
    done = rela("bench", "attention", *SMALL, "--lengths", "4,8", "--attentions", "softmax,rela-g", "--json", "-")
    result = json.loads(done.stdout)
    assert [r["length"] for r in result["results"]] == [4, 8]
    assert [r["batch"] for r in result["results"]] == [16, 8]
    measured = result["results"][0]["attentions"]["rela-g"]
    assert measured["core forward+backward"]["median"] > 0
    assert measured["sublayer forward"]["rounds"] == 3
    assert measured["extra_parameters"] == 64
    assert result["baselines"]["core"] == "F.scaled_dot_product_attention"


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (("--lengths", "0"), 2, "--lengths"),
        (("--lengths", "many"), 2, "--lengths"),
        (("--heads", "7"), 2, "--heads"),
        (("--rounds", "1"), 2, "--rounds"),
        (("--attentions", "rela-x"), 2, "rela-g"),
    ],
)
def test_wrong_use(arguments: tuple[str, ...], code: int, word: str) -> None:
    done = rela("bench", "attention", *arguments)
    assert done.returncode == code
    assert word in done.stderr


def test_align(tmp_path: Path) -> None:
    make_model(tmp_path / "model")
    for name in ("test.en", "test.de"):
        (tmp_path / name).write_text("dog\ncat dog\n\n", encoding="utf-8")
    files = ("--src", str(tmp_path / "test.en"), "--tgt", str(tmp_path / "test.de"))
    done = rela("bench", "align", str(tmp_path / "model"), *files, "--rounds", "3", "--json", "-")
    result = json.loads(done.stdout)
    assert 0 < result["low"] <= result["ratio"] <= result["high"]
    assert result["pairs"] == 2
    assert result["signature"].startswith("align|data:test|pairs:2|attention:rela-g|layer:")
