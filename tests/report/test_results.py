"""Reading result files."""

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.report.helpers import edit_results, write_results

from rela.report.results import load_results


def test_reads_both_files(tmp_path: Path):
    results = load_results(write_results(tmp_path, layers=2, heads=4, sentences=3))
    assert [entry.name for entry in results.models] == ["rela-g", "softmax"]
    null = results.models[0].measures["cross.null"]
    assert null.axes == ("layer", "head")
    assert null.value.shape == (2, 4)
    assert results.examples is not None
    weights = results.examples.weights(0, "cross", 1)
    assert weights is not None
    assert weights.shape[:2] == (2, 4)
    assert results.examples.weights(0, "cross", 99) is None


def test_groups_have_means_and_spreads(tmp_path: Path):
    results = load_results(write_results(tmp_path, seeds=3))
    name = "cross.null.layer"
    values = [entry.measures[name].value for entry in results.models if entry.info["group"] == "rela-g"]
    group = results.groups[0].measures[name]
    assert np.allclose(group.value, np.mean(values, axis=0))
    assert group.spread is not None
    assert np.allclose(group.spread, np.std(values, axis=0, ddof=1))


def test_the_file_or_its_folder(tmp_path: Path):
    write_results(tmp_path)
    assert load_results(tmp_path).data == load_results(tmp_path / "results.json").data


def test_without_examples(tmp_path: Path):
    write_results(tmp_path)
    (tmp_path / "attention.npz").unlink()
    assert load_results(tmp_path).examples is None


def test_nothing_to_measure_is_not_a_number(tmp_path: Path):
    write_results(tmp_path)
    data = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    data["models"][0]["measures"]["cross.null"]["value"][0][0] = None
    (tmp_path / "results.json").write_text(json.dumps(data), encoding="utf-8")
    assert np.isnan(load_results(tmp_path).models[0].measures["cross.null"].value[0, 0])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "expected JSON"),
        ("[]", "expected results of the format 'rela-results-1', got 'list'"),
        ('{"format": "other"}', "got 'other'"),
        ('{"format": "rela-results-1"}', "expected data, models and groups"),
    ],
)
def test_another_file(tmp_path: Path, content: str, message: str):
    (tmp_path / "results.json").write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        load_results(tmp_path)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([[0.1, 0.2], [0.3]], "got lists of unequal length: not rectangular; "),
        ([0.1, [0.2]], "got lists of unequal length: not rectangular; "),
        ([["x", 0.2], [0.3, 0.4]], "got something else among them; "),
        ([0.1, 0.2], r"expected the axes \('layer', 'head'\), got 1; "),
    ],
)
def test_a_measure_that_does_not_fit(tmp_path: Path, value: Any, message: str):
    def change(data: dict[str, Any]) -> None:
        data["models"][1]["measures"]["cross.null"]["value"] = value

    folder = edit_results(write_results(tmp_path), change)
    with pytest.raises(ValueError, match=f"results.json: measure 'cross.null' of 'softmax': .*{message}"):
        load_results(folder)


def test_no_file(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match="rela analyze"):
        load_results(tmp_path)


def test_damaged_examples(tmp_path: Path):
    write_results(tmp_path)
    path = tmp_path / "attention.npz"
    whole = path.read_bytes()
    for damaged in (b"no archive", b"", whole[:1000], whole[:-30]):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"attention\.npz: expected examples of .*, or move the file away"):
            load_results(tmp_path)


def test_damaged_weights(tmp_path: Path):
    """The list of the parts is whole, but one of them is not."""
    write_results(tmp_path)
    path = tmp_path / "attention.npz"
    with zipfile.ZipFile(path) as archive:
        place = archive.getinfo("0.cross.0.npy").header_offset
    data = bytearray(path.read_bytes())
    data[place + 60 : place + 160] = bytes(100)
    path.write_bytes(data)
    examples = load_results(tmp_path).examples
    assert examples is not None
    with pytest.raises(ValueError, match=r"attention\.npz: expected examples"):
        examples.weights(0, "cross", 0)
