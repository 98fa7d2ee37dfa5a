"""Going on with a run under other circumstances than before."""

import os
import resource
import signal
import warnings
from pathlib import Path
from typing import Any

import pytest
from tests.training.helpers import (
    Silent,
    make_store,
    model_bytes,
    new_trainer,
    plain_config,
    resumed_trainer,
    run_process,
    tiny_config,
    train,
)

from rela.training.checkpoints import list_checkpoints
from rela.training.config import to_config
from rela.training.journal import read_log, read_status
from rela.training.runs import start
from rela.training.signals import StopRequest
from rela.training.validation import BestSoFar, Validation, Validator
from rela.training.world import World


@pytest.mark.parametrize(("before", "after"), [("bleu", "loss"), ("loss", "bleu")])
def test_another_metric(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str, after: str) -> None:
    """What was best before is compared by the metric of now."""
    found = iter([Validation(3.0, 10.0), Validation(2.5, 11.0), Validation(2.0, 9.0), Validation(4.0, 12.0)])
    monkeypatch.setattr(Validator, "run", lambda *_: next(found))  # pyright: ignore[reportUnknownLambdaType]
    train(tiny_config(store, validation={"metric": before, "every": 1}, budget__steps=2), tmp_path / "run")
    result = resumed_trainer(tmp_path / "run", "budget.steps=4", f"validation.metric={after}")[0].train()
    assert result["best"]["step"] == {"loss": 3, "bleu": 4}[after]


def test_a_metric_that_was_not_measured_before(store: Path) -> None:
    first, second = (BestSoFar(tiny_config(store, validation={"metric": m}).validation) for m in ("loss", "bleu"))
    assert first.take(1, Validation(3.0, None))
    second.restore(first.state())
    assert not second.take(2, Validation(2.0, None))
    assert second.take(3, Validation(4.0, 0.5))


@pytest.mark.parametrize("change", ["validation.split=train", "validation.max_sentences=2"])
def test_other_pairs_to_validate_on(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    found = iter([1.0, 1.5, 3.0, 2.5, 2.6])
    monkeypatch.setattr(Validator, "run", lambda *_: Validation(next(found), None))  # pyright: ignore[reportUnknownLambdaType]
    settings = {"validation__every": 1, "validation__patience": 3}
    train(tiny_config(store, **settings, budget__steps=2), tmp_path / "run")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that nothing is held out
        result = resumed_trainer(tmp_path / "run", "budget.steps=5", change)[0].train()
    assert (result["step"], result["best"]["step"]) == (5, 4)


def test_another_budget_with_a_linear_schedule(store: Path, tmp_path: Path) -> None:
    linear = {"schedule": "linear", "warmup": 2, "peak": 0.01}
    train(tiny_config(store, rate=linear, budget__steps=4), tmp_path / "run")
    with pytest.warns(UserWarning, match="with another budget, the rate of the schedule 'linear' is on another line"):
        resumed_trainer(tmp_path / "run", "budget.steps=8")


def test_another_number_of_threads_or_processes(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(World, "place", lambda _: {"processes": 2, "threads": 8, "device": "cpu"})  # pyright: ignore[reportUnknownLambdaType]
    train(tiny_config(store, budget__steps=2), tmp_path / "run")
    monkeypatch.setattr(World, "place", lambda _: {"processes": 1, "threads": 8, "device": "cuda"})  # pyright: ignore[reportUnknownLambdaType]
    with pytest.warns(UserWarning, match="was trained with processes 2, now 1; device cpu, now cuda: its weights will"):
        resumed_trainer(tmp_path / "run")


def test_a_machine_without_the_folder(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(tiny_config(store, budget__steps=2), tmp_path / "run")
    monkeypatch.setattr(World, "any", lambda *_: True)  # pyright: ignore[reportUnknownLambdaType]
    with pytest.raises(FileNotFoundError, match="expected the run's folder on every machine, got one without; put it"):
        resumed_trainer(tmp_path / "run")


def test_files_in_the_place_of_the_model(store: Path, tmp_path: Path) -> None:
    train(tiny_config(store, budget__steps=2), tmp_path / "run")
    (tmp_path / "run" / "model" / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match=r"other files in it, such as notes\.txt; name another, or move it"):
        resumed_trainer(tmp_path / "run")
    assert (tmp_path / "run" / "model" / "notes.txt").read_text() == "mine"


def test_a_failed_attempt_lets_the_next_one_in(store: Path, tmp_path: Path) -> None:
    train(tiny_config(store, budget__steps=2), tmp_path / "run")
    other = make_store(tmp_path / "text", pairs=61)
    with pytest.raises(ValueError, match="expected the store that the run was started with") as kept:
        resumed_trainer(tmp_path / "run", f"store={other}")
    assert kept.traceback  # and with it, all frames
    assert resumed_trainer(tmp_path / "run", "budget.steps=3")[0].train()["step"] == 3


def test_two_checkpoints_to_go_on_from(store: Path, tmp_path: Path) -> None:
    config = tiny_config(store, checkpoints={"every": 1, "keep_last": 1, "average": 1}, validation__every=100)
    train(config, tmp_path / "whole")
    run = tmp_path / "run"
    train(tiny_config(store, checkpoints={"every": 1, "keep_last": 1, "average": 1}, budget__steps=4), run)
    last = list_checkpoints(run)[-1]
    (last.path / "model.safetensors").write_bytes(b"cut")
    with pytest.warns(UserWarning, match="the checkpoint is set aside as damaged-step-0000004"):
        trainer, _ = resumed_trainer(run, "budget.steps=8", "validation.every=100")
    assert trainer.step == 3
    trainer.train()
    assert model_bytes(run) == model_bytes(tmp_path / "whole")


def test_what_a_kill_left_of_small_files_goes(store: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(tiny_config(store, budget__steps=2), run)
    (run / ".status.json.77.partial").touch()
    (run / ".notes").touch()
    resumed_trainer(run)
    assert sorted(file.name for file in run.glob(".*")) == [".notes"]


def with_a_small_log(config: dict[str, Any], run: Path, message: Path) -> None:
    """In a process of its own: no file may become larger than a few lines of the log."""
    trainer = start(to_config(config, "test"), run, World(), Silent())
    resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600))
    try:
        trainer.train()
    except OSError as error:
        message.write_text(f"{error.filename}: {error.strerror}; lock held: {trainer.lock and trainer.lock.is_held}")
        raise SystemExit(1) from None


def test_a_disk_that_is_full_when_the_log_is_written(store: Path, tmp_path: Path) -> None:
    data = plain_config(store, checkpoints__every=1000, validation__every=1000, budget__steps=100)
    run, message = tmp_path / "run", tmp_path / "message"
    assert run_process(with_a_small_log, data, run, message) == 1
    assert message.read_text() == f"{run / 'log.jsonl'}: File too large; lock held: False"
    assert read_status(run) == "failed"
    assert resumed_trainer(run, "budget.steps=3")[0].train()["step"] == 3
    assert [entry["step"] for entry in read_log(run) if entry["event"] == "train"] == [1, 2, 3]


def test_a_language_whose_bleu_cannot_be_computed(tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> None:
        raise ValueError("BLEU needs a package for 'ja'")

    monkeypatch.setattr("rela.training.validation.bleu_metric", missing)
    new_trainer(tiny_config(store), tmp_path / "without")
    with pytest.raises(ValueError, match=r"package for 'ja'; or leave it out with --set validation\.bleu=false"):
        new_trainer(tiny_config(store, validation__bleu=True), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_signals_that_are_ignored_stay_ignored() -> None:
    """As in a script's `rela train CONFIG &`, which Ctrl-C is not meant for."""
    request = StopRequest(lambda _: None)
    old = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with request.listening():
            os.kill(os.getpid(), signal.SIGINT)
            assert not request.wanted
            os.kill(os.getpid(), signal.SIGTERM)
            assert request.wanted
    finally:
        signal.signal(signal.SIGINT, old)
