"""The average of the last checkpoints."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from tests.training.helpers import model_bytes, tiny_config, train

from rela.model.directory import load_model, read_tensors
from rela.training.averaging import average_run, average_weights


@pytest.fixture(scope="module")
def run(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "run"
    train(tiny_config(store, budget__steps=6), run)
    return run


def write(folder: Path, **values: float) -> Path:
    folder.mkdir()
    save_file({name: torch.full((2,), value) for name, value in values.items()}, folder / "model.safetensors")
    return folder


def test_the_mean(tmp_path: Path) -> None:
    folders = [write(tmp_path / str(place), a=value, b=1.0) for place, value in enumerate((1.0, 2.0, 6.0))]
    found = average_weights(folders)
    assert found["a"].tolist() == [3.0, 3.0]
    assert {tensor.dtype for tensor in found.values()} == {torch.float32}


def test_the_sum_is_in_double(tmp_path: Path) -> None:
    folders = [write(tmp_path / str(place), a=value) for place, value in enumerate((2.0**24, 1.0, 1.0, 0.0))]
    assert average_weights(folders)["a"].tolist() == [2.0**22 + 0.5] * 2


def test_other_names_or_shapes(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"y: its weights have other names or shapes than those of .*x"):
        average_weights([write(tmp_path / "x", a=1), write(tmp_path / "y", b=1)])


def test_not_a_number(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected finite weights, got NaN or infinity in a"):
        average_weights([write(tmp_path / "x", a=float("nan"))])


def test_which_weights_link_words_stays_known(run: Path, tmp_path: Path) -> None:
    own = Path(shutil.copytree(run, tmp_path / "run"))
    (own / "model" / "alignment.json").write_text('{"layer": 0, "shifted": false}')
    average_run(own, 2, tmp_path / "out")
    average_run(own, 2, own / "model")
    for folder in (tmp_path / "out", own / "model"):
        assert json.loads((folder / "alignment.json").read_text()) == {"layer": 0, "shifted": False}


def test_of_a_run_that_deletes_checkpoints_meanwhile(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = Path(shutil.copytree(run, tmp_path / "live"))

    def slowly(folders: list[Path]) -> dict[str, torch.Tensor]:
        shutil.rmtree(live / "checkpoints" / "step-0000002", ignore_errors=True)
        return average_weights(folders)

    monkeypatch.setattr("rela.training.averaging.average_weights", slowly)
    assert average_run(live, 3, tmp_path / "out") == [4, 6]
    (live / "checkpoints" / "step-0000006" / "model.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match="step-0000006"):
        average_run(live, 3, tmp_path / "other")


def test_of_a_run(run: Path, tmp_path: Path) -> None:
    assert average_run(run, 2, tmp_path / "out") == [4, 6]
    first, second = (read_tensors(run / f"checkpoints/step-000000{step}/model.safetensors") for step in (4, 6))
    found = read_tensors(tmp_path / "out" / "model.safetensors")
    for name, tensor in found.items():
        torch.testing.assert_close(tensor, ((first[name].double() + second[name]) / 2).float(), rtol=0, atol=0)
    made_by = json.loads((tmp_path / "out" / "config.json").read_text())["made_by"]
    assert (made_by["average_of_steps"], made_by["seed"]) == ([4, 6], 1)
    assert load_model(tmp_path / "out").languages == ("en", "de")


def test_of_one_is_itself(run: Path, tmp_path: Path) -> None:
    average_run(run, 1, tmp_path / "out")
    expected = (run / "checkpoints/step-0000006/model.safetensors").read_bytes()
    assert (tmp_path / "out/model.safetensors").read_bytes() == expected


def test_the_end_of_training_is_the_same_average(run: Path, tmp_path: Path) -> None:
    average_run(run, 3, tmp_path / "out")
    assert (tmp_path / "out/model.safetensors").read_bytes() == model_bytes(run)
    average_run(run, 3, tmp_path / "out")  # a model may be replaced


def test_wrong_use(run: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="expected a run with checkpoints, got none; `rela train` makes them"):
        average_run(tmp_path, 5, tmp_path / "out")
    with pytest.raises(ValueError, match="last: expected at least 1 checkpoint, got 0"):
        average_run(run, 0, tmp_path / "out")


def test_nothing_but_a_model_is_replaced(run: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("years of work")
    (tmp_path / "file").write_text("a file")
    (tmp_path / "empty").mkdir()
    (tmp_path / "bert").mkdir()
    (tmp_path / "bert" / "config.json").write_text('{"model_type": "bert"}')
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    noted = Path(shutil.copytree(run / "model", tmp_path / "noted"))
    (noted / "notes.txt").write_text("what was good about it")
    wrong = (tmp_path / name for name in ("thesis", "file", "bert", "link", "noted"))
    for out in (*wrong, run, run / "checkpoints", run / "checkpoints/step-0000006"):
        before = sorted(path.name for path in tmp_path.iterdir())
        with pytest.raises(FileExistsError, match=r"expected a new folder or a model to replace, got .*; name another"):
            average_run(run, 2, out)
        assert sorted(path.name for path in tmp_path.iterdir()) == before
    average_run(run, 2, tmp_path / "empty")
