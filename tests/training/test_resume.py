"""A run that was killed at any moment and resumed ends with the weights of one that was not, bit for bit."""

import json
import os
import random
import resource
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.training.helpers import (
    Silent,
    kill_at,
    make_store,
    model_bytes,
    plain_config,
    resumed_trainer,
    run_process,
    spawn,
    tiny_config,
    train,
)

from rela import _files
from rela.training import averaging, checkpoints, journal, runs, trainer
from rela.training.checkpoints import list_checkpoints
from rela.training.config import to_config
from rela.training.journal import read_log
from rela.training.runs import resume, start
from rela.training.signals import InterruptedRunError
from rela.training.validation import Validator
from rela.training.world import World

VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {"validation__bleu": True},
    "subword-dropout": {"batch__subword_dropout": 0.2, "rate__schedule": "linear"},
}

MOMENTS: dict[str, tuple[object, str, int]] = {
    "at the beginning": (runs, "write_text", 1),
    "in the first update": (trainer, "learning_rate", 1),
    "before the first checkpoint": (checkpoints, "write_model_files", 1),
    "between its files": (checkpoints, "write_tensors", 2),
    "before its last file": (checkpoints, "write_text", 2),
    "before it has its name": (_files, "replace_folder", 2),
    "after it has its name": (trainer, "prune", 2),
    "while old ones are deleted": (checkpoints, "delete", 1),
    "while validating": (Validator, "_loss", 2),
    "in the middle of an epoch": (trainer, "learning_rate", 6),
    "while the log is written": (journal.json, "dumps", 9),
    "after the last update": (trainer, "average_run", 1),
    "while the model is written": (averaging, "write_model_files", 1),
}


def begin(data: dict[str, Any], run: Path, moment: str | None) -> None:
    """In a process of its own: a training that is killed at some moment."""
    if moment is not None:
        owner, name, number = MOMENTS[moment]
        setattr(owner, name, kill_at(getattr(owner, name), number))
    start(to_config(data, "test"), run, World(), Silent()).train()


def go_on(run: Path) -> None:
    """In a process of its own: the rest."""
    resume(run, World(), Silent()).train()


@pytest.fixture(scope="module")
def whole(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Uninterrupted runs, made once."""
    made: dict[str, Path] = {}

    def make(variant: str) -> Path:
        if variant not in made:
            made[variant] = tmp_path_factory.mktemp("whole") / variant
            assert run_process(begin, plain_config(store, **VARIANTS[variant]), made[variant], None) == 0
        return made[variant]

    return make


def assert_same_end(run: Path, expected: Path) -> None:
    assert model_bytes(run) == model_bytes(expected)
    newest, other = (list_checkpoints(folder)[-1] for folder in (run, expected))
    for file in ("model.safetensors", "optimizer.safetensors"):
        assert (newest.path / file).read_bytes() == (other.path / file).read_bytes()
    states = [json.loads((c.path / "training.json").read_text()) | {"seconds": 0} for c in (newest, other)]
    assert states[0] == states[1]
    logs = [[{**e, "time": 0, "seconds": 0, "tokens_per_second": 0} for e in read_log(f)] for f in (run, expected)]
    assert [entry for entry in logs[0] if entry["event"] != "resumed"] == logs[1]
    assert json.loads((run / "status.json").read_text())["status"] == "done"
    assert not list(run.rglob(".*"))
    assert [c.step for c in list_checkpoints(run)] == [c.step for c in list_checkpoints(expected)]


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_and_resumed(moment: str, store: Path, tmp_path: Path, whole: Callable[[str], Path]) -> None:
    variant = list(VARIANTS)[list(MOMENTS).index(moment) % 2]
    run = tmp_path / "run"
    assert run_process(begin, plain_config(store, **VARIANTS[variant]), run, moment) == -signal.SIGKILL
    if moment == "at the beginning":  # no configuration yet: there is nothing to go on with
        with pytest.raises(FileNotFoundError, match=r"expected a run that was started before, with config.yaml"):
            resume(run, World(), Silent())
        return
    resumed_trainer(run)[0].train()
    assert_same_end(run, whole(variant))


def test_killed_again_and_again(store: Path, tmp_path: Path, whole: Callable[[str], Path]) -> None:
    """At random moments, from outside."""
    generator = random.Random(5)
    run = tmp_path / "run"
    killed = 0
    process = spawn(begin, plain_config(store, **VARIANTS["plain"]), run, None)
    while not (run / "config.yaml").exists():
        time.sleep(0.001)
    for attempt in range(12):
        process.join(
            generator.uniform(0.0, 0.02 + 0.05 * attempt)
        )  # at first soon: the whole run may be over in no time
        if process.exitcode is None:
            os.kill(process.pid, signal.SIGKILL)
            process.join()
            killed += 1
        if (run / "model").exists():
            break
        process = spawn(go_on, run)
    process.join()
    assert killed > 0
    resumed_trainer(run)[0].train()
    assert_same_end(run, whole("plain"))


def test_the_store_may_move(store: Path, tmp_path: Path, whole: Callable[[str], Path]) -> None:
    moved = Path(shutil.copytree(store, tmp_path / "moved"))
    run = tmp_path / "run"
    train(tiny_config(moved, **VARIANTS["plain"], budget__steps=4), run)
    moved.rename(tmp_path / "elsewhere")
    with pytest.raises(FileNotFoundError, match=r"moved: expected the store that .* add --set store=PATH"):
        resumed_trainer(run, "budget.steps=8")
    resumed_trainer(run, "budget.steps=8", f"store={tmp_path / 'elsewhere'}")[0].train()
    assert model_bytes(run) == model_bytes(whole("plain"))


def test_a_state_that_lacks_something_is_damaged(store: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(tiny_config(store, budget__steps=4), run)
    (run / "checkpoints/step-0000004/training.json").write_text('{"step": 4, "scheduled": true}')
    with pytest.warns(UserWarning, match=r"training\.json: expected the entries tokens, .* set aside as damaged-"):
        found, _ = resumed_trainer(run)
    assert found.step == 2


def test_another_one_may_start_a_run_at_the_same_time(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"

    def slow(*arguments: Any, **named: Any) -> trainer.Trainer:
        monkeypatch.undo()
        train(tiny_config(store, budget__steps=2), run)
        return trainer.Trainer(*arguments, **named)

    monkeypatch.setattr("rela.training.runs.Trainer", slow)
    with pytest.raises(FileExistsError, match="there is a run already"):
        start(tiny_config(store, seed=2), run, World(), Silent())
    assert "seed: 1" in (run / "config.yaml").read_text()


def test_a_run_that_is_done_stays_as_it_is(store: Path, tmp_path: Path, whole: Callable[[str], Path]) -> None:
    run = Path(shutil.copytree(whole("plain"), tmp_path / "run"))
    resumed_trainer(run)[0].train()
    assert_same_end(run, whole("plain"))


def test_the_state_of_early_stopping_comes_back(store: Path, tmp_path: Path) -> None:
    """Which validation was best, and how many followed, decides when training ends."""
    settings = {"validation__patience": 2, "validation__every": 1, "rate__peak": 0.9, "rate__warmup": 1}
    config = tiny_config(store, **settings, budget__steps=40)
    expected = train(config, tmp_path / "whole")
    assert 5 < expected["step"] < 40
    for cut in (expected["best"]["step"], expected["step"] - 1):
        run = tmp_path / f"cut-{cut}"
        train(to_config(plain_config(store, **settings, budget__steps=cut, checkpoints__every=1), "test"), run)
        found, _ = resumed_trainer(run, "budget.steps=40")
        result = found.train()
        assert (result["step"], result["best"]) == (expected["step"], expected["best"])


def test_a_cut_off_log(store: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(tiny_config(store, budget__steps=4), run)
    with (run / "log.jsonl").open("a") as file:
        file.write('{"event": "train", "step": 5}\n{"event": "tra')
    resumed_trainer(run, "budget.steps=6")[0].train()
    steps = [entry["step"] for entry in read_log(run) if entry["event"] == "train"]
    assert steps == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("override", "change"),
    [
        ("seed=2", "seed 2 instead of 1"),
        ("model.dim=32", "model.dim 32 instead of 16"),
        ("model.attention=softmax", "model.attention softmax instead of rela-g"),
        ("batch.tokens=61", "batch.tokens 61 instead of 60"),
        ("optimizer.clip=2", "optimizer.clip 2.0 instead of 1.0"),
        ("rate={warmup: 5, peak: 0.01}", "rate.warmup 5 instead of 4"),
        ("split=other", "split other instead of train"),
    ],
)
def test_settings_that_decide_the_weights_stay(store: Path, tmp_path: Path, override: str, change: str) -> None:
    start(tiny_config(store), tmp_path / "run", World(), Silent())
    before = (tmp_path / "run" / "config.yaml").read_text()
    with pytest.raises(ValueError, match=f"expected the settings it was started with, got {change}.*; start a new run"):
        resumed_trainer(tmp_path / "run", override)
    assert (tmp_path / "run" / "config.yaml").read_text() == before


def test_the_budget_may_grow(store: Path, tmp_path: Path) -> None:
    train(tiny_config(store), tmp_path / "long")
    train(tiny_config(store, budget__steps=4), tmp_path / "run")
    found, reporter = resumed_trainer(tmp_path / "run", "budget.steps=8", "log.every=2")
    assert found.train()["step"] == 8
    assert len(reporter.losses) == 4
    assert reporter.facts["spent"] == 0.5
    assert model_bytes(tmp_path / "run") == model_bytes(tmp_path / "long")
    assert yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())["budget"]["steps"] == 8


def test_the_budget_may_shrink(store: Path, tmp_path: Path) -> None:
    """To the update of an interrupt, of which there is no scheduled checkpoint."""
    config = tiny_config(store, budget__steps=5)
    train(config, tmp_path / "short")
    run = tmp_path / "run"
    found = start(tiny_config(store), run, World(), Silent())
    original = found._validate_and_save  # pyright: ignore[reportPrivateUsage]

    def stop(journal: Any) -> None:
        original(journal)
        found._stop.wanted = found.step == 5  # pyright: ignore[reportPrivateUsage]

    found._validate_and_save = stop  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(InterruptedRunError):
        found.train()
    resumed_trainer(run, "budget.steps=5")[0].train()
    assert model_bytes(run) == model_bytes(tmp_path / "short")
    assert [e["step"] for e in read_log(run) if e["event"] == "validation"] == [3, 5]


def test_another_store_of_the_same_name(tmp_path: Path) -> None:
    store = make_store(tmp_path / "text")
    train(tiny_config(store, budget__steps=2), tmp_path / "run")
    shutil.rmtree(tmp_path / "text")
    make_store(tmp_path / "text", pairs=61)
    with pytest.raises(ValueError, match="expected the store that the run was started with, got one that was prepared"):
        resumed_trainer(tmp_path / "run")


def with_a_small_disk(config: dict[str, Any], run: Path, message: Path, limit: int) -> None:
    """In a process of its own: no file may grow beyond the limit."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    try:
        if (run / "config.yaml").exists():
            resume(run, World(), Silent()).train()
        else:
            start(to_config(config, "test"), run, World(), Silent()).train()
    except OSError as error:
        message.write_text(str(error))
        raise SystemExit(1) from None


def test_a_full_disk(store: Path, tmp_path: Path, whole: Callable[[str], Path]) -> None:
    data = plain_config(store, **VARIANTS["plain"])
    run = tmp_path / "run"
    train(to_config(data | {"budget": {"steps": 4}}, "test"), run)
    (run / "config.yaml").write_text(yaml.safe_dump(data))
    before = {file: file.read_bytes() for file in (run / "checkpoints").rglob("*.safetensors")}
    assert run_process(with_a_small_disk, data, run, tmp_path / "message", 30_000) == 1
    assert "model.safetensors: could not be written: " in (tmp_path / "message").read_text()
    assert "is the disk full?" in (tmp_path / "message").read_text()
    assert json.loads((run / "status.json").read_text())["status"] == "failed"
    assert {file: file.read_bytes() for file in (run / "checkpoints").rglob("*.safetensors")} == before
    resumed_trainer(run)[0].train()
    assert model_bytes(run) == model_bytes(whole("plain"))


def test_a_disk_that_is_full_from_the_beginning(store: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert run_process(with_a_small_disk, plain_config(store), run, tmp_path / "message", 30_000) == 1
    assert list_checkpoints(run) == []
    assert not list((run / "checkpoints").iterdir())


def test_a_config_with_the_wrong_type(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("nothing")
    with pytest.raises(ValueError, match="expected a mapping of settings, got str"):
        resumed_trainer(tmp_path)
