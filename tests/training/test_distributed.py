"""Several processes train what one process trains."""

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
import yaml
from tests.model.folders import text_model
from tests.training.helpers import (
    Silent,
    make_store,
    model_bytes,
    new_trainer,
    partly_translated,
    plain_config,
    resumed_trainer,
    spawn,
    tiny_config,
    train,
)

from rela.model.directory import read_tensors
from rela.text.store import Sentences, Split
from rela.training import trainer
from rela.training.checkpoints import list_checkpoints
from rela.training.config import ValidationSection, to_config
from rela.training.journal import read_log
from rela.training.runs import resume, start
from rela.training.signals import InterruptedRunError
from rela.training.validation import Validator
from rela.training.world import World

EXACT: dict[str, Any] = {"model__dropout": 0.0, "model__attention_dropout": 0.0}


def work(rank: int, size: int, data: dict[str, Any] | None, run: Path, trouble: str | None) -> None:
    """One process of several: a new run, or without ``data`` the rest of one."""
    torch.set_num_threads(1)
    meeting = run.with_name(f"meeting-{run.name}-{data is None}")
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=size)
    world = World(rank, size)
    try:
        reporter = Silent()
        found = resume(run, world, reporter) if data is None else start(to_config(data, "test"), run, world, reporter)
        if trouble is not None:
            make_trouble(trouble, rank, reporter)
        found.train()
    except InterruptedRunError:
        sys.exit(130)
    except (ValueError, OSError):
        sys.exit(1)
    finally:
        world.leave()


def make_trouble(trouble: str, rank: int, reporter: Silent) -> None:
    if trouble == "stop the second" and rank == 1:
        updated = reporter.updated

        def stop(step: int, spent: float, loss: float, tokens_per_second: float) -> None:
            updated(step, spent, loss, tokens_per_second)
            if step == 3:
                os.kill(os.getpid(), signal.SIGTERM)

        reporter.updated = stop
    elif trouble == "fail in the first" and rank == 0:

        def fail(*_: object) -> None:
            raise OSError("No space left on device")

        trainer.save_checkpoint = fail
    elif trouble == "not a number in the second" and rank == 1:
        forward = trainer.Criterion.forward

        def broken(criterion: trainer.Criterion, *ids: torch.Tensor) -> Any:
            found = forward(criterion, *ids)
            return found._replace(smoothed=found.smoothed * torch.nan)

        trainer.Criterion.forward = broken  # pyright: ignore[reportAttributeAccessIssue]


def run_together(size: int, data: dict[str, Any] | None, run: Path, trouble: str | None = None) -> list[int]:
    """The exit codes of processes that train together."""
    processes = [spawn(work, rank, size, data, run, trouble) for rank in range(size)]
    for process in processes:
        process.join(60)
    if hanging := [process for process in processes if process.exitcode is None]:
        for process in hanging:
            process.kill()
        pytest.fail(f"{len(hanging)} processes wait for each other")
    return [process.exitcode for process in processes]


def assert_close(run: Path, expected: Path) -> None:
    for ours, theirs in zip(list_checkpoints(run), list_checkpoints(expected), strict=True):
        found, wanted = (read_tensors(c.path / "model.safetensors") for c in (ours, theirs))
        for name, tensor in wanted.items():
            torch.testing.assert_close(found[name], tensor, rtol=1e-3, atol=3e-5)


def events(run: Path, event: str) -> list[dict[str, Any]]:
    return [entry for entry in read_log(run) if entry["event"] == event]


@pytest.mark.parametrize(
    ("tokens", "update_tokens"),
    [(1, 1), (60, 150), (60, 250)],
    ids=["one batch for two", "three batches", "five batches"],
)
def test_two_processes_learn_what_one_learns(store: Path, tmp_path: Path, tokens: int, update_tokens: int) -> None:
    data = plain_config(store, **EXACT, batch__tokens=tokens, batch__update_tokens=update_tokens)
    alone, _ = new_trainer(to_config(data, "test"), tmp_path / "alone")
    counts = [len(alone._collect()) for _ in range(8)]  # pyright: ignore[reportPrivateUsage]
    assert any(count % 2 for count in counts)  # so that one process has more to do than the other
    train(to_config(data, "test"), tmp_path / "one")
    assert run_together(2, data, tmp_path / "two") == [0, 0]
    assert_close(tmp_path / "two", tmp_path / "one")
    for event, keys in {"train": ("loss", "nll", "gradient_norm"), "validation": ("loss",)}.items():
        for ours, theirs in zip(events(tmp_path / "two", event), events(tmp_path / "one", event), strict=True):
            assert ours["step"] == theirs["step"]
            assert [ours[key] for key in keys] == pytest.approx([theirs[key] for key in keys], rel=1e-3)
    seen = [[entry["tokens"] for entry in events(tmp_path / name, "train")] for name in ("one", "two")]
    assert seen[0] == seen[1]


def test_one_process_may_see_longer_sentences_than_the_other(tmp_path: Path) -> None:
    """Its table of positions is then longer too, in training and in validation."""
    store = make_store(tmp_path / "text", pairs=40, longest=150)
    batch = {"max_pieces": 2000, "tokens": 300, "update_tokens": 300}
    data = plain_config(store, **EXACT, batch=batch, validation__bleu=True)
    data["budget"] = {"steps": 4}
    train(to_config(data, "test"), tmp_path / "one")
    assert run_together(2, data, tmp_path / "two") == [0, 0]
    assert_close(tmp_path / "two", tmp_path / "one")


def test_resumed_together_bit_for_bit(store: Path, tmp_path: Path) -> None:
    data = plain_config(store)  # with dropout
    assert run_together(2, data, tmp_path / "whole") == [0, 0]
    assert run_together(2, data | {"budget": {"steps": 4}}, tmp_path / "run") == [0, 0]
    config = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text()) | {"budget": {"steps": 8}}
    (tmp_path / "run" / "config.yaml").write_text(yaml.safe_dump(config))
    assert run_together(2, None, tmp_path / "run") == [0, 0]
    assert model_bytes(tmp_path / "run") == model_bytes(tmp_path / "whole")


def test_another_number_of_processes_may_go_on(store: Path, tmp_path: Path) -> None:
    data = plain_config(store, **EXACT)
    train(to_config(data, "test"), tmp_path / "one")
    assert run_together(2, data | {"budget": {"steps": 4}}, tmp_path / "run") == [0, 0]
    with pytest.warns(UserWarning, match="was trained with processes 2, now 1: its weights will not be those of a run"):
        trainer, _ = resumed_trainer(tmp_path / "run", "budget.steps=8")
    trainer.train()
    assert_close(tmp_path / "run", tmp_path / "one")


@pytest.mark.parametrize(
    ("trouble", "codes", "status"),
    [
        ("stop the second", [130, 130], "interrupted"),
        ("fail in the first", [1, 1], "failed"),
        ("not a number in the second", [1, 1], "failed"),
    ],
)
def test_trouble_of_one_ends_all(store: Path, tmp_path: Path, trouble: str, codes: list[int], status: str) -> None:
    run = tmp_path / "run"
    assert run_together(2, plain_config(store), run, trouble) == codes
    assert json.loads((run / "status.json").read_text())["status"] == status
    if status == "interrupted":
        assert list_checkpoints(run)[-1][::2] == (3, False)


def test_a_damaged_checkpoint_is_left_out_by_all(store: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(tiny_config(store, budget__steps=4), run)
    (run / "checkpoints/step-0000004/training.json").write_text("{")
    code = run_together(2, None, run)
    assert code == [0, 0]
    assert [c.step for c in list_checkpoints(run)] == [2, 4]


def test_alone_a_world_is_simple(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    world = World.join("cpu")
    assert (world.is_first, world.sum(1.5, 2), world.gather("x"), world.any(False)) == (True, [1.5, 2], ["x"], False)
    assert world.share(lambda: 3) == 3
    world.wait()
    world.leave()


@pytest.mark.parametrize("device", ["gpu", "meta", "cpu:x", ""])
def test_devices_that_are_none(device: str) -> None:
    with pytest.raises(ValueError, match="device: expected cpu, cuda or cuda:1, got"):
        World.join(device)


def test_cuda_that_is_not_here() -> None:
    with pytest.raises(ValueError, match=r"expected one that is here, got 'cuda:99' \(.*\); use cpu"):
        World.join("cuda:99")


def together(rank: int, folder: Path, check: Callable[[World], None]) -> None:
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    world = World(rank, 2)
    try:
        check(world)
    finally:
        world.leave()


def look_at(world: World) -> None:
    assert world.sum(1.0, world.rank) == [2.0, 1.0]
    assert world.gather(world.rank) == [0, 1]
    assert world.any(world.rank == 1)
    assert not world.any(False)
    assert world.share(lambda: f"from {world.rank}") == "from 0"
    with pytest.raises(ValueError, match="from 0"):
        world.share(lambda: refuse(world.rank))
    world.wait()


def validate(world: World) -> None:
    model, sides = text_model(scale=2.5)
    texts = ["the dog runs", "a cat", "the small house sleeps", "under the old house", "a dog sees a cat"]
    ids = [np.array(sides.source.encode(text), np.int64) for text in texts]
    same = Sentences(np.concatenate(ids), np.cumsum([0, *map(len, ids)]))
    split = partly_translated(model, sides, Split(same, same))
    validator = Validator(split, sides, ValidationSection(), 30, 256)
    alone, found = validator.run(model, World()), validator.run(model, world)
    assert alone.bleu is not None
    assert 1 < alone.bleu < 99
    assert found == pytest.approx(alone, rel=1e-6)


def refuse(rank: int) -> None:
    raise ValueError(f"from {rank}")


@pytest.mark.parametrize("check", [look_at, validate])
def test_two_talk_to_each_other(tmp_path: Path, check: Callable[[World], None]) -> None:
    processes = [spawn(together, rank, tmp_path, check) for rank in range(2)]
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0]
