"""Names that tell models apart and can be read; groups of those that differ in their seed alone."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.analysis.studies import make_model

from rela.analysis.naming import name_models


def names(folder: Path, *models: dict[str, Any]) -> list[tuple[str, str]]:
    """Name and group of models with these properties, in folders m0, m1 ..."""
    paths = [make_model(folder / f"m{place}", seed=place, **model) for place, model in enumerate(models)]
    return [
        (found.name.replace(str(folder), "."), found.group.replace(str(folder), ".")) for found in name_models(paths)
    ]


def seed(number: int) -> dict[str, Any]:
    return {"made_by": {"seed": number, "step": 10}}


def test_attentions_alone(tmp_path: Path):
    assert names(tmp_path, {"attention": "rela-g"}, {"attention": "softmax", **seed(1)}) == [
        ("rela-g", "rela-g"),
        ("softmax", "softmax"),
    ]


def test_seeds(tmp_path: Path):
    found = names(tmp_path, seed(1), seed(2), {"attention": "softmax", **seed(1)})
    assert found == [("rela-g seed 1", "rela-g"), ("rela-g seed 2", "rela-g"), ("softmax", "softmax")]
    models = name_models([tmp_path / "m0", tmp_path / "m2"])
    assert [(model.seed, model.attention, model.languages) for model in models] == [
        (1, "rela-g", ("en", "de")),
        (1, "softmax", ("en", "de")),
    ]


def test_models_of_earlier_versions(tmp_path: Path):
    """Without a seed the folder tells them apart."""
    assert names(tmp_path, {}, {}, seed(3)) == [
        ("rela-g (./m0)", "rela-g"),
        ("rela-g (./m1)", "rela-g"),
        ("rela-g seed 3", "rela-g"),
    ]


@pytest.mark.parametrize(
    ("changes", "suffixes"),
    [
        ({"decoder_layers": 3}, ("2+2 layers", "2+3 layers")),
        ({"num_heads": 2}, ("4 heads", "2 heads")),
        ({"dim": 32}, ("dim 16", "dim 32")),
        ({"ffn_dim": 48}, ("ffn 24", "ffn 48")),
        ({"dropout": 0.5}, ("dropout 0.1", "dropout 0.5")),
    ],
)
def test_other_configurations_are_other_groups(tmp_path: Path, changes: dict[str, Any], suffixes: tuple[str, str]):
    assert names(tmp_path, seed(1), {**seed(1), **changes}) == [(f"rela-g, {s}", f"rela-g, {s}") for s in suffixes]


def test_other_tokenizers_are_other_groups(tmp_path: Path):
    [(first, one), (second, other)] = names(tmp_path, seed(1), {**seed(2), "merges": 30})
    assert (first, second) == (one, other)
    assert first != second
    assert first.endswith(" pieces")


def test_several_seeds_of_several_shapes(tmp_path: Path):
    found = names(tmp_path, seed(1), {**seed(1), "dim": 32}, seed(2), {"attention": "softmax"})
    assert [name for name, _ in found] == [
        "rela-g, dim 16 seed 1",
        "rela-g, dim 32",
        "rela-g, dim 16 seed 2",
        "softmax",
    ]
    assert [group for _, group in found] == ["rela-g, dim 16", "rela-g, dim 32", "rela-g, dim 16", "softmax"]


def test_checkpoints_of_one_training_are_no_seeds(tmp_path: Path):
    found = names(tmp_path, {"made_by": {"seed": 1, "step": 10}}, {"made_by": {"seed": 1, "step": 20}})
    assert found == [("rela-g (./m0)", "rela-g (./m0)"), ("rela-g (./m1)", "rela-g (./m1)")]


def test_nonsense_in_made_by_is_no_seed(tmp_path: Path):
    assert names(tmp_path, {"made_by": {"seed": "first"}}) == [("rela-g", "rela-g")]


def test_a_run_s_folder(tmp_path: Path):
    make_model(tmp_path / "run" / "model")
    [found] = name_models([tmp_path / "run"])
    assert found.folder == tmp_path / "run" / "model"


class TestRefused:
    def test_a_model_twice(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        make_model(tmp_path / "run" / "model")
        monkeypatch.chdir(tmp_path)
        for other in ("run/model", str(tmp_path / "run"), "./run"):
            with pytest.raises(ValueError, match=r"expected different models, got .*model more than once; give each"):
                name_models([Path("run"), Path(other)])
        shutil.copytree(tmp_path / "run", tmp_path / "copy")
        assert len({model.name for model in name_models([Path("run"), Path("copy")])}) == 2

    def test_other_directions(self, tmp_path: Path):
        paths = [make_model(tmp_path / "a"), make_model(tmp_path / "b", languages=("de", "en"))]
        with pytest.raises(
            ValueError, match=r"b: expected a model from en to de, as .*a is, got one from de to en; one of"
        ):
            name_models(paths)

    def test_no_model(self, tmp_path: Path):
        with pytest.raises(FileNotFoundError, match="expected a model directory"):
            name_models([tmp_path])
