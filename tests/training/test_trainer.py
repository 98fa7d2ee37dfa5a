"""The training loop in one process."""

import json
import math
import os
import signal
from pathlib import Path

import pytest
import torch
from tests.training.helpers import (
    Silent,
    changed,
    events,
    make_store,
    model_bytes,
    new_trainer,
    plain_config,
    resumed_trainer,
    status,
    steps,
    tiny_config,
    train,
)

from rela.model.config import ModelConfig
from rela.model.directory import load_model
from rela.model.transformer import Transformer
from rela.training import trainer as trainer_module
from rela.training.runs import start
from rela.training.signals import InterruptedRunError
from rela.training.trainer import Trainer
from rela.training.validation import Validation, Validator
from rela.training.world import World


def test_a_whole_training(store: Path, tmp_path: Path) -> None:
    trainer, reporter = new_trainer(tiny_config(store), tmp_path / "run")
    result = trainer.train()
    run = tmp_path / "run"
    assert (result["step"], result["attention"], result["model"]) == (8, "rela-g", str(run / "model"))
    assert result["parameters"] == sum(p.numel() for p in load_model(run).model.parameters())
    assert status(run)["status"] == "done"
    assert [entry["step"] for entry in events(run, "train")] == list(range(1, 9))
    assert [entry["step"] for entry in events(run, "validation")] == [3, 6, 8]
    assert events(run, "train")[-1]["tokens"] == result["tokens"]
    assert reporter.losses[-1] < reporter.losses[0] - 1
    assert reporter.spent == [step / 8 for step in range(1, 9)]
    assert reporter.facts["pairs"] == 60
    assert 0 <= reporter.facts["padding"] < 0.5
    assert any("the best so far" in note for note in reporter.notes)


def test_the_rate_follows_the_schedule(store: Path, tmp_path: Path) -> None:
    train(tiny_config(store), tmp_path / "run")
    found = [entry["rate"] for entry in events(tmp_path / "run", "train")]
    assert found == pytest.approx([0.01 * min(step / 4, (4 / step) ** 0.5) for step in range(1, 9)])


def test_the_same_seed_the_same_loss(store: Path, tmp_path: Path) -> None:
    losses: list[list[float]] = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        torch.rand(3)  # what was drawn before does not matter
        trainer, reporter = new_trainer(tiny_config(store, seed=seed), tmp_path / name)
        trainer.train()
        losses.append(reporter.losses)
    assert losses[0] == losses[1] != losses[2]
    assert model_bytes(tmp_path / "a") == model_bytes(tmp_path / "b")


def test_separate_vocabularies_begin_the_same() -> None:
    """The order in which tables are filled must not follow from where they lie in memory."""
    config = ModelConfig(source_vocabulary=7, target_vocabulary=9, dim=4, num_heads=1, ffn_dim=4, tied="target")
    models: list[Transformer] = []
    for _ in range(20):
        torch.manual_seed(3)
        models.append(Transformer(config))
    first = models[0].state_dict()
    for model in models[1:]:
        assert all(torch.equal(tensor, first[name]) for name, tensor in model.state_dict().items())


def test_separate_vocabularies_train(separate_store: Path, tmp_path: Path) -> None:
    train(tiny_config(separate_store, budget__steps=2), tmp_path / "run")
    assert load_model(tmp_path / "run").model.config.tied == "target"


def naive_updates(trainer: Trainer, count: int) -> list[torch.Tensor]:
    """Updates by the definition: the gradient of the mean over all tokens of the batches together, clipped, Adam."""
    config = trainer.config
    optimizer = torch.optim.Adam(trainer.model.parameters(), betas=(0.9, 0.98), eps=1e-8)
    for step in range(1, count + 1):
        optimizer.zero_grad()
        batches = [spoiled.batch for spoiled in trainer._collect()]  # pyright: ignore[reportPrivateUsage]
        losses = [trainer.criterion(*(torch.from_numpy(ids) for ids in batch[:3])).smoothed for batch in batches]
        (sum(losses) / sum(batch.num_tokens for batch in batches)).backward()  # pyright: ignore[reportAttributeAccessIssue]
        torch.nn.utils.clip_grad_norm_(trainer.model.parameters(), config.optimizer.clip)
        optimizer.param_groups[0]["lr"] = 0.01 * min(step / 4, (4 / step) ** 0.5)
        optimizer.step()
    return [parameter.detach() for parameter in trainer.model.parameters()]


def test_updates_are_those_of_the_definition(store: Path, tmp_path: Path) -> None:
    settings = {"model__dropout": 0.0, "model__attention_dropout": 0.0, "optimizer__clip": 0.5, "budget__steps": 4}
    config = tiny_config(store, **settings)
    trainer, _ = new_trainer(config, tmp_path / "run")
    assert len(trainer._collect()) > 1  # pyright: ignore[reportPrivateUsage]
    naive, _ = new_trainer(config, tmp_path / "naive")
    trained, _ = new_trainer(config, tmp_path / "trained")
    trained.train()
    for found, expected in zip(trained.model.parameters(), naive_updates(naive, 4), strict=True):
        torch.testing.assert_close(found.detach(), expected, rtol=1e-4, atol=1e-5)


def test_updates_have_the_tokens_that_were_asked_for(store: Path, tmp_path: Path) -> None:
    for tokens, wanted in ((1, 1), (60, 150), (60, 400)):
        config = tiny_config(store, batch__tokens=tokens, batch__update_tokens=wanted)
        trainer, _ = new_trainer(config, tmp_path / str(wanted))
        batches = [trainer._collect() for _ in range(20)]  # pyright: ignore[reportPrivateUsage]
        if wanted == 1:
            assert all(len(update) == 1 for update in batches)
        else:
            mean = sum(spoiled.batch.num_tokens for update in batches for spoiled in update) / 20
            assert mean == pytest.approx(wanted, rel=0.1)


@pytest.mark.parametrize(
    "budget", [{"tokens": 700}, {"epochs": 2}, {"steps": 3, "epochs": 9}, {"steps": 99, "tokens": 1}]
)
def test_budgets(store: Path, tmp_path: Path, budget: dict[str, int]) -> None:
    trainer, reporter = new_trainer(tiny_config(store, budget=budget, batch__subword_dropout=0.2), tmp_path / "run")
    result = trainer.train()
    assert reporter.spent[-1] == 1.0
    assert all(share < 1 for share in reporter.spent[:-1])
    if budget == {"tokens": 700}:
        assert 700 <= result["tokens"] < 900
    if budget == {"epochs": 2}:
        assert trainer.stream.position.epoch == 2


def test_early_stopping_saves_the_last_update(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    losses = iter([5.0, 4.0, 4.0, 4.5])
    monkeypatch.setattr(Validator, "run", lambda *_: Validation(next(losses), None))  # pyright: ignore[reportUnknownLambdaType]
    config = tiny_config(store, validation__patience=2, validation__every=1, checkpoints__every=3, budget__steps=50)
    result = train(config, tmp_path / "run")
    assert (result["step"], result["best"]["step"]) == (4, 2)
    # 3 by the schedule, 4 since it is the last one, 2 since it is the best.
    assert steps(tmp_path / "run") == [(2, False), (3, True), (4, True)]


def test_bleu_decides_if_asked(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = iter([Validation(3.0, 10.0), Validation(4.0, 12.0), Validation(2.0, 11.0)])
    monkeypatch.setattr(Validator, "run", lambda *_: next(found))  # pyright: ignore[reportUnknownLambdaType]
    config = tiny_config(store, validation={"metric": "bleu", "every": 1}, budget__steps=3)
    assert train(config, tmp_path / "run")["best"] == {"step": 2, "loss": 4.0, "bleu": 12.0}


def test_a_validation_that_is_no_number_is_never_the_best(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = iter([math.nan, 5.0, math.inf])
    monkeypatch.setattr(Validator, "run", lambda *_: Validation(next(found), None))  # pyright: ignore[reportUnknownLambdaType]
    result = train(tiny_config(store, validation__every=1, budget__steps=3), tmp_path / "run")
    assert result["best"]["step"] == 2
    assert [entry["loss"] for entry in events(tmp_path / "run", "validation")] == [None, 5.0, None]


def test_another_error_is_written_down_too(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device", "model.safetensors")

    monkeypatch.setattr(trainer_module, "save_checkpoint", fail)
    with pytest.raises(OSError, match="No space left on device"):
        train(tiny_config(store), tmp_path / "run")
    assert status(tmp_path / "run")["status"] == "failed"
    assert "No space left" in status(tmp_path / "run")["reason"]


class Interrupting(Silent):
    """Sends this process a signal after some update."""

    def __init__(self, at: int, *numbers: signal.Signals) -> None:
        super().__init__()
        self.at, self.numbers = at, numbers

    def updated(self, step: int, spent: float, loss: float, tokens_per_second: float) -> None:
        super().updated(step, spent, loss, tokens_per_second)
        if step == self.at:
            for number in self.numbers:
                os.kill(os.getpid(), number)


@pytest.mark.parametrize("numbers", [(signal.SIGINT,), (signal.SIGTERM,), (signal.SIGTERM,) * 2])
def test_an_interrupt_leaves_a_checkpoint(store: Path, tmp_path: Path, numbers: tuple[signal.Signals, ...]) -> None:
    config = tiny_config(store)
    train(config, tmp_path / "whole")
    reporter = Interrupting(5, *numbers)
    with pytest.raises(InterruptedRunError):
        start(config, tmp_path / "run", World(), reporter).train()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    run = tmp_path / "run"
    assert "stopping after this update; once more to stop at once" in reporter.notes
    assert status(run) == {"status": "interrupted", "step": 5}
    assert steps(run)[-1] == (5, False)
    resumed_trainer(run)[0].train()
    assert model_bytes(run) == model_bytes(tmp_path / "whole")
    assert (5, False) not in steps(run)


def test_a_second_interrupt_stops_at_once(store: Path, tmp_path: Path) -> None:
    config = tiny_config(store)
    with pytest.raises(KeyboardInterrupt):
        start(config, tmp_path / "run", World(), Interrupting(5, signal.SIGINT, signal.SIGINT)).train()
    assert status(tmp_path / "run") == {"status": "interrupted", "step": 5}
    assert steps(tmp_path / "run")[-1] == (4, True)


def test_an_interrupt_with_the_last_update(store: Path, tmp_path: Path) -> None:
    train(tiny_config(store), tmp_path / "whole")
    with pytest.raises(InterruptedRunError):
        start(tiny_config(store), tmp_path / "run", World(), Interrupting(8, signal.SIGINT)).train()
    resumed_trainer(tmp_path / "run")[0].train()
    assert model_bytes(tmp_path / "run") == model_bytes(tmp_path / "whole")


def test_a_folder_that_has_a_run(store: Path, tmp_path: Path) -> None:
    config = tiny_config(store)
    new_trainer(config, tmp_path / "run")
    with pytest.raises(FileExistsError, match=r"there is a run already; go on with `rela train --resume --run .*run`"):
        new_trainer(config, tmp_path / "run")
    (tmp_path / "other" / "checkpoints").mkdir(parents=True)
    with pytest.raises(FileExistsError, match="there is a run already"):
        new_trainer(config, tmp_path / "other")


def test_a_run_that_could_not_begin_leaves_nothing(store: Path, tmp_path: Path) -> None:
    for changes in ({"split": "nosuch"}, {"seed": 1, "validation__split": "nosuch"}, {"model__dim": 15}):
        with pytest.raises(ValueError, match=r"expected one of the splits|expected a multiple"):
            new_trainer(tiny_config(store, **changes), tmp_path / "run")
        assert not (tmp_path / "run").exists()


def test_a_store_relative_to_the_working_directory(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(store.parent)
    train(tiny_config(Path("store"), budget__steps=1), tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"store: expected the store that .* add --set store=PATH"):
        resumed_trainer(tmp_path / "run")


def test_one_pair(tmp_path: Path) -> None:
    store = make_store(tmp_path / "text", pairs=1, dev=1)
    result = train(tiny_config(store, budget__steps=2, validation__bleu=True), tmp_path / "run")
    assert result["step"] == 2


def test_an_empty_split(store: Path, tmp_path: Path) -> None:
    empty = tmp_path / "store"
    empty.mkdir()
    description = json.loads((store / "store.json").read_text())
    description["splits"]["train"] |= {"pairs": 0, "source_tokens": 0, "target_tokens": 0}
    (empty / "store.json").write_text(json.dumps(description))
    (empty / "tokenizer.json").write_text((store / "tokenizer.json").read_text())
    for side in ("source", "target"):
        (empty / f"train.{side}.tokens").touch()
        (empty / f"train.{side}.offsets").write_bytes(bytes(8))
        for kind in ("tokens", "offsets"):
            (empty / f"dev.{side}.{kind}").write_bytes((store / f"dev.{side}.{kind}").read_bytes())
    with pytest.raises(ValueError, match="expected at least one pair to train on, got an empty split"):
        new_trainer(tiny_config(empty), tmp_path / "run")


def test_tensorboard(store: Path, tmp_path: Path) -> None:
    train(tiny_config(store, log={"tensorboard": True, "every": 1}, budget__steps=1), tmp_path / "run")
    file = next((tmp_path / "run" / "tensorboard").glob("events.out.tfevents.*"))
    assert b"train/loss" in file.read_bytes()
    assert b"validation/loss" in file.read_bytes()


def test_without_tensorboard_nothing_begins(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("tensorboard", "torch.utils.tensorboard"):
        monkeypatch.setitem(__import__("sys").modules, name, None)
    with pytest.raises(ModuleNotFoundError, match="tensorboard"):
        new_trainer(tiny_config(store, log__tensorboard=True), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_log_is_written_now_and_then(store: Path, tmp_path: Path) -> None:
    train(tiny_config(store, log__every=3), tmp_path / "run")
    assert [entry["step"] for entry in events(tmp_path / "run", "train")] == [1, 3, 6]


def test_helpers_change_what_they_say(store: Path) -> None:
    assert changed(tiny_config(store), "budget", steps=3) == tiny_config(store, budget__steps=3)
    assert plain_config(store)["store"] == str(store)
