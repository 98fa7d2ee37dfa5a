"""Checkpoints: whole or not there, pruned, and found again after damage."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.training.helpers import model_bytes, new_trainer, resumed_trainer, tiny_config, train

from rela.model.directory import read_description, read_tensors
from rela.training import checkpoints
from rela.training.checkpoints import (
    NEEDED,
    OPTIMIZER_FILE,
    STATE_FILE,
    clear_leftovers,
    list_checkpoints,
    load_checkpoint,
    optimizer_tensors,
    prune,
    save_checkpoint,
)
from rela.training.trainer import Trainer


def names(run: Path) -> list[str]:
    return sorted(path.name for path in (run / "checkpoints").iterdir())


def steps(run: Path) -> list[int]:
    return [checkpoint.step for checkpoint in list_checkpoints(run)]


def with_optimizer(run: Path) -> list[int]:
    return [c.step for c in list_checkpoints(run) if (c.path / OPTIMIZER_FILE).exists()]


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


@pytest.fixture(scope="module")
def trained(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that is done; nobody writes into it."""
    run = tmp_path_factory.mktemp("runs") / "trained"
    train(tiny_config(store), run)
    return run


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(trained, tmp_path / "run"))


@pytest.fixture
def trainer(store: Path, tmp_path: Path) -> Trainer:
    return new_trainer(tiny_config(store), tmp_path / "run")[0]


def save(trainer: Trainer, step: int, *, scheduled: bool = True) -> Path:
    state: dict[str, Any] = {"step": step, "scheduled": scheduled, **dict.fromkeys(NEEDED, 1)}
    return save_checkpoint(
        trainer.run_folder,
        trainer.model,
        trainer.optimizer,
        trainer.tokenizers,
        trainer.languages,
        state,
        trainer.config.seed,
    )


def test_the_files_of_a_checkpoint(run: Path) -> None:
    assert names(run) == ["step-0000004", "step-0000006", "step-0000008"]
    newest = run / "checkpoints" / "step-0000008"
    assert sorted(path.name for path in newest.iterdir()) == [
        "config.json",
        "model.safetensors",
        "optimizer.safetensors",
        "tokenizer.json",
        "training.json",
    ]
    assert len({path.stat().st_mode for path in newest.iterdir()}) == 1
    state = json.loads((newest / STATE_FILE).read_text())
    assert (state["step"], state["scheduled"]) == (8, True)
    made_by = json.loads((newest / "config.json").read_text())["made_by"]
    assert made_by == {"seed": 1, "step": 8, "tokens": state["tokens"]}
    assert with_optimizer(run) == [6, 8]


def test_everything_comes_back(run: Path, store: Path, tmp_path: Path) -> None:
    trainer, _ = new_trainer(tiny_config(store, seed=9), tmp_path / "other")
    path = run / "checkpoints" / "step-0000008"
    load_checkpoint(path, trainer.model, trainer.optimizer)
    save(trainer, 1)
    for file in ("model.safetensors", OPTIMIZER_FILE):
        assert (path / file).read_bytes() == (tmp_path / "other/checkpoints/step-0000001" / file).read_bytes()
    found = optimizer_tensors(trainer.model, trainer.optimizer)
    assert len(found) == 3 * len(list(trainer.model.parameters()))
    assert {float(tensor) for name, tensor in found.items() if name.startswith("step.")} == {8.0}


def test_models_know_the_seed_of_their_training(store: Path, tmp_path: Path) -> None:
    trainer, _ = new_trainer(tiny_config(store, seed=9, budget__steps=2), tmp_path / "run")
    trainer.train()
    for folder in ("checkpoints/step-0000002", "model"):
        assert read_description(tmp_path / "run" / folder)["made_by"]["seed"] == 9


def test_before_the_first_update_there_are_no_moments(trainer: Trainer) -> None:
    path = save(trainer, 1)
    assert read_tensors(path / OPTIMIZER_FILE) == {}
    load_checkpoint(path, trainer.model, trainer.optimizer)
    assert len(trainer.optimizer.state) == 0


def test_keep_last_and_the_best(trainer: Trainer) -> None:
    for step in range(1, 8):
        save(trainer, step)
        prune(trainer.run_folder, 3, 2)
    assert steps(trainer.run_folder) == [2, 5, 6, 7]
    assert with_optimizer(trainer.run_folder) == [6, 7]
    assert names(trainer.run_folder) == [f"step-{step:07d}" for step in (2, 5, 6, 7)]


def test_one_from_an_interrupt_is_not_among_the_last(trainer: Trainer) -> None:
    for step in (2, 4, 5, 6):
        save(trainer, step, scheduled=step != 5)
        prune(trainer.run_folder, 2, None)
        if step == 5:
            assert steps(trainer.run_folder) == [2, 4, 5]
    assert steps(trainer.run_folder) == [4, 6]
    assert with_optimizer(trainer.run_folder) == [4, 6]


def test_pruning_without_checkpoints(tmp_path: Path) -> None:
    prune(tmp_path, 3, None)
    clear_leftovers(tmp_path)


def test_only_whole_ones_have_the_name(trainer: Trainer, monkeypatch: pytest.MonkeyPatch) -> None:
    save(trainer, 1)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoints, "write_tensors", fail)
    with pytest.raises(OSError, match="No space left"):
        save(trainer, 2)
    assert names(trainer.run_folder) == ["step-0000001"]


def test_leftovers_of_a_kill_are_cleared(run: Path) -> None:
    for name in (".step-0000002.old", ".step-0000009.partial"):
        shutil.copytree(run / "checkpoints" / "step-0000008", run / "checkpoints" / name)
    assert steps(run) == [4, 6, 8]
    resumed_trainer(run)
    assert names(run) == ["step-0000004", "step-0000006", "step-0000008"]


@pytest.mark.parametrize("file", ["model.safetensors", OPTIMIZER_FILE, STATE_FILE, "config.json", "tokenizer.json"])
def test_a_damaged_file_the_one_before_is_taken(run: Path, file: str) -> None:
    expected = model_bytes(run)
    shutil.rmtree(run / "model")
    damaged = run / "checkpoints" / "step-0000008" / file
    cut(damaged)
    with pytest.warns(UserWarning, match=rf"step-0000008/{file}: .*set aside as damaged-step-0000008") as caught:
        trainer, _ = resumed_trainer(run)
    assert len(caught) == 1
    assert trainer.step == 6
    assert names(run) == ["damaged-step-0000008", "step-0000004", "step-0000006"]
    trainer.train()
    assert model_bytes(run) == expected
    assert steps(run) == [4, 6, 8]


@pytest.mark.parametrize("file", ["model.safetensors", STATE_FILE, "config.json", "tokenizer.json"])
def test_a_damaged_older_one_is_set_aside_too(run: Path, file: str) -> None:
    cut(run / "checkpoints" / "step-0000004" / file)
    with pytest.warns(UserWarning, match=f"step-0000004/{file}"):
        trainer, _ = resumed_trainer(run)
    assert trainer.step == 8
    assert steps(run) == [6, 8]


def test_none_is_whole(run: Path) -> None:
    for step in (6, 8):
        cut(run / "checkpoints" / f"step-{step:07d}" / OPTIMIZER_FILE)
    with pytest.raises(
        ValueError, match=r"step-0000008/optimizer.safetensors: .*damaged.*no earlier checkpoint to go on"
    ):
        resumed_trainer(run)
    assert steps(run) == [4, 6, 8]  # nothing was touched


def test_a_missing_file_is_damage(run: Path) -> None:
    (run / "checkpoints" / "step-0000008" / OPTIMIZER_FILE).unlink()
    with pytest.warns(UserWarning, match=r"step-0000008/optimizer.safetensors: expected a file"):
        assert resumed_trainer(run)[0].step == 6


def test_weights_that_are_no_numbers_are_damage(run: Path) -> None:
    path = run / "checkpoints" / "step-0000008"
    weights = read_tensors(path / "model.safetensors")
    next(iter(weights.values())).fill_(torch.nan)
    checkpoints.write_tensors(path / "model.safetensors", weights)
    with pytest.warns(UserWarning, match="expected finite weights, got NaN"):
        assert resumed_trainer(run)[0].step == 6


@pytest.mark.parametrize("text", ["{}", "[]", '{"step": 3}', "null"])
def test_a_state_without_its_entries(run: Path, text: str) -> None:
    (run / "checkpoints" / "step-0000004" / STATE_FILE).write_text(text)
    with pytest.raises(ValueError, match=r"training.json: expected the entries .*scheduled"):
        list_checkpoints(run)


def test_moments_of_another_model(run: Path) -> None:
    trainer, _ = resumed_trainer(run)
    path = run / "checkpoints" / "step-0000008"
    moments = read_tensors(path / OPTIMIZER_FILE)
    name = next(name for name in moments if name.startswith("exp_avg."))
    for broken in ({k: v for k, v in moments.items() if k != name}, moments | {name: torch.zeros(1)}):
        checkpoints.write_tensors(path / OPTIMIZER_FILE, broken)
        with pytest.raises(ValueError, match=r"optimizer.safetensors: the optimizer's state of .* incomplete or"):
            load_checkpoint(path, trainer.model, trainer.optimizer)
    step = name.replace("exp_avg.", "step.")
    checkpoints.write_tensors(path / OPTIMIZER_FILE, {k: v for k, v in moments.items() if k != step})
    with pytest.raises(ValueError, match="expected the optimizer's state of"):
        load_checkpoint(path, trainer.model, trainer.optimizer)
