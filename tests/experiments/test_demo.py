"""The demo as a whole, with less of everything."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rela.experiments.demo import DemoSize, demo_config, run_demo
from rela.training.runs import resume, start
from rela.training.signals import InterruptedRunError
from rela.training.world import World

SMALL = DemoSize(train_pairs=300, merges=300, tokens=6_000, dev_pairs=5, test_pairs=5)


class Listener:
    """Remembers what it is told, and may interrupt."""

    def __init__(self, *, stop_at: int | None = None) -> None:
        self.steps: list[int] = []
        self.notes: list[str] = []
        self.stop_at = stop_at

    def started(self, facts: dict[str, Any]) -> None:
        self.notes.append(str(facts))

    def updated(self, step: int, spent: float, loss: float, tokens_per_second: float) -> None:
        self.steps.append(step)
        if step == self.stop_at:
            raise InterruptedRunError

    def noted(self, text: str) -> None:
        self.notes.append(text)


def test_makes_trains_translates_and_evaluates(tmp_path: Path):
    said: list[str] = []
    listener = Listener()
    result = run_demo(tmp_path / "demo", "rela-g", listener, said.append, size=SMALL)
    assert set(result.bleu) == {"test", "test-compositional"}
    assert all(0 <= score.score <= 100 for score in result.bleu.values())
    assert 0 <= result.aer <= 1
    assert result.seconds > 0
    assert listener.steps[0] == 1
    assert any("grammar" in line for line in said)
    data = result.to_json("rela-g")
    assert {"bleu", "bleu_compositional", "seconds", "model", "attention", "aer", "signatures"} <= data.keys()
    assert (Path(data["model"]) / "model.safetensors").is_file()
    assert Path(data["report"]).read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert len(data["findings"]) <= 3
    json.dumps(data, allow_nan=False)
    for shown in result.shown:
        sizes = len(shown.alignment.source_words), len(shown.alignment.target_words)
        assert all(i < sizes[0] and j < sizes[1] for i, j in shown.alignment.links)


def test_goes_on_where_it_was_cut_off_and_starts_anew_when_it_was_done(tmp_path: Path):
    folder = tmp_path / "demo"
    with pytest.raises(InterruptedRunError):
        run_demo(folder, "softmax", Listener(stop_at=2), lambda _: None, size=SMALL)
    store = (folder / "store" / "store.json").stat().st_mtime_ns
    said: list[str] = []
    run_demo(folder, "softmax", Listener(), said.append, size=SMALL)
    assert (folder / "store" / "store.json").stat().st_mtime_ns == store
    assert any("cut off" in line for line in said)
    said.clear()
    listener = Listener()
    run_demo(folder, "softmax", listener, said.append, size=SMALL)
    assert listener.steps[0] == 1
    assert not any("cut off" in line for line in said)


def test_what_was_trained_since_stays(tmp_path: Path):
    folder = tmp_path / "demo"
    result = run_demo(folder, "softmax", Listener(), lambda _: None, size=SMALL)
    with pytest.warns(UserWarning, match="with another budget"):
        resume(folder / "training", World(), Listener(), overrides=["budget.tokens=12000"]).train()
    with pytest.raises(FileExistsError, match=r"training: expected the training that the demo finished, got one that"):
        run_demo(folder, "softmax", Listener(), lambda _: None, size=SMALL)
    assert (result.model / "model.safetensors").is_file()


def test_the_time_before_a_cut_counts(tmp_path: Path):
    folder = tmp_path / "demo"
    config = demo_config(folder / "store", "softmax", SMALL, 1)
    with pytest.raises(InterruptedRunError):
        run_demo(folder, "softmax", Listener(stop_at=3), lambda _: None, size=SMALL)
    training = folder / "training"
    shutil.rmtree(training)
    config = replace(config, checkpoints=replace(config.checkpoints, every=1))
    trainer = start(config, training, World(), Listener(stop_at=3))
    trainer.seconds = 1000.0
    with pytest.raises(InterruptedRunError):
        trainer.train()
    assert run_demo(folder, "softmax", Listener(), lambda _: None, size=SMALL).seconds > 1000


def test_what_is_not_the_demos_stays(tmp_path: Path):
    folder = tmp_path / "demo"
    folder.mkdir()
    (folder / "thesis.txt").write_text("precious")
    for _ in range(2):
        run_demo(folder, "softmax", Listener(), lambda _: None, size=SMALL)
        assert (folder / "thesis.txt").read_text() == "precious"
    (tmp_path / "mine" / "store").mkdir(parents=True)
    with pytest.raises(
        FileExistsError, match=r"without corpus or store or training or analysis, .* got one with store; name"
    ):
        run_demo(tmp_path / "mine", "softmax", Listener(), lambda _: None, size=SMALL)


def test_an_unfinished_demo_of_another_attention_is_not_gone_on_with(tmp_path: Path):
    folder = tmp_path / "demo"
    with pytest.raises(InterruptedRunError):
        run_demo(folder, "softmax", Listener(stop_at=2), lambda _: None, size=SMALL)
    with pytest.raises(ValueError, match="model"):
        run_demo(folder, "rela-g", Listener(), lambda _: None, size=SMALL)
