"""Trainings that fail: what is noticed, what is written down, and what stays whole."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.training.helpers import events, new_trainer, resumed_trainer, status, steps, tiny_config

from rela.model.directory import read_tensors
from rela.training.checkpoints import list_checkpoints
from rela.training.divergence import DivergedError
from rela.training.loss import Criterion, TrainingLoss
from rela.training.trainer import Trainer


class Poisoned:
    """The criterion, whose loss is NaN in certain calls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *calls: int, start: int | None = None) -> None:
        self.calls = 0
        original = Criterion.forward

        def forward(criterion: Criterion, *ids: torch.Tensor) -> TrainingLoss:
            self.calls += 1
            bad = self.calls in calls or (start is not None and self.calls >= start)
            found = original(criterion, *ids)
            return found._replace(smoothed=found.smoothed * math.nan) if bad else found

        monkeypatch.setattr(Criterion, "forward", forward)


def assert_finite(run: Path) -> None:
    assert list_checkpoints(run)
    for checkpoint in list_checkpoints(run):
        for file in checkpoint.path.glob("*.safetensors"):
            assert all(bool(torch.isfinite(tensor).all()) for tensor in read_tensors(file).values())


def test_nan_is_skipped_and_then_reported(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Poisoned(monkeypatch, start=4)
    one_batch = {"tokens": 1, "update_tokens": 1}
    config = tiny_config(store, batch=one_batch, checkpoints__every=1, divergence__max_skipped=3)
    trainer, _ = new_trainer(config, tmp_path / "run")
    with pytest.raises(DivergedError, match="diverged at update 6: the loss was not a finite number 3 times in a row"):
        trainer.train()
    run = tmp_path / "run"
    assert (status(run)["status"], status(run)["step"]) == ("failed", 6)
    assert "3 times in a row" in status(run)["reason"]
    assert events(run, "failed")[0]["step"] == 6
    assert [entry["skipped"] for entry in events(run, "train")] == [0, 0, 0, 1, 2]
    assert events(run, "train")[-1]["loss"] is None
    assert not (run / "model").exists()
    assert_finite(run)


def test_a_skipped_update_changes_no_weight(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Poisoned(monkeypatch, 1)
    config = tiny_config(store, batch={"tokens": 1, "update_tokens": 1}, budget__steps=1, checkpoints__every=1)
    trainer, _ = new_trainer(config, tmp_path / "run")
    before = {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}
    trainer.train()
    assert all(torch.equal(tensor, before[name]) for name, tensor in trainer.model.state_dict().items())
    resumed, _ = resumed_trainer(tmp_path / "run", "budget.steps=3")  # with no moments yet
    resumed.train()
    assert_finite(tmp_path / "run")


def break_weights(trainer: Trainer, *, at: int) -> None:
    """Weights that are no numbers after an update."""
    original = trainer.optimizer.step

    def step() -> None:
        original()
        if trainer.step + 1 == at:
            next(iter(trainer.model.parameters())).data.fill_(math.inf)

    trainer.optimizer.step = step  # pyright: ignore[reportAttributeAccessIssue]


def test_weights_that_are_no_numbers_overwrite_nothing(store: Path, tmp_path: Path) -> None:
    trainer, _ = new_trainer(tiny_config(store), tmp_path / "run")
    break_weights(trainer, at=4)
    with pytest.raises(DivergedError, match="after update 4 the weights are not finite numbers; the last checkpoint"):
        trainer.train()
    assert steps(tmp_path / "run") == [(2, True), (3, False)]
    assert status(tmp_path / "run")["status"] == "failed"
    assert_finite(tmp_path / "run")


@pytest.mark.parametrize(("attention", "peak"), [("relu", 0.99), ("rela-g", 0.99)])
def test_a_rate_far_too_high_is_noticed(store: Path, tmp_path: Path, attention: str, peak: float) -> None:
    settings: dict[str, Any] = {
        "model__attention": attention,
        "rate": {"peak": peak, "warmup": 10},
        "divergence": {"window": 5, "patience": 40, "max_rise": 1.0},
        "optimizer__clip": 0.0,
        "batch__update_tokens": 60,
        "budget__steps": 200,
    }
    trainer, _ = new_trainer(tiny_config(store, **settings), tmp_path / "run")
    with pytest.raises(DivergedError, match=r"diverged at update \d+: the loss (rose|did not|was not)"):
        trainer.train()
    assert status(tmp_path / "run")["status"] == "failed"
    assert_finite(tmp_path / "run")


def test_a_loss_that_stays_where_guessing_would_be(store: Path, tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "rate": {"peak": 1e-7, "warmup": 1},
        "divergence": {"window": 2, "patience": 1000, "stuck_after": 6},
        "budget__steps": 20,
    }
    trainer, _ = new_trainer(tiny_config(store, **settings), tmp_path / "run")
    with pytest.raises(DivergedError, match=r"at update 6: the loss stays at .* to guess pieces by how frequent they"):
        trainer.train()
    assert status(tmp_path / "run")["status"] == "failed"


def test_weights_that_are_no_numbers_are_found_before_bleu(store: Path, tmp_path: Path) -> None:
    trainer, _ = new_trainer(tiny_config(store, validation={"every": 3, "bleu": True}), tmp_path / "run")
    break_weights(trainer, at=3)
    with pytest.raises(DivergedError, match="after update 3 the weights are not finite numbers"):
        trainer.train()
