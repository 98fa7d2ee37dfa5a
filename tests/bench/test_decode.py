"""Decoders in turn: ours, and a stand-in for a peer that is a real process and speaks as they do."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from rela.bench.decode import Contestant, DecodeSetting, measure_decoding
from rela.bench.forcing import force_length, random_model
from rela.bench.peers import PEERS, environment, versions
from rela.bench.results import Points, check, document
from rela.bench.work import Worker, all_workers, speed_over, take_turns
from rela.model.config import SIZES

WORKERS = Path(sys.modules[Worker.__module__].__file__ or "").with_name("workers")
FAKE = f"""
import sys, time
sys.path.insert(0, {str(WORKERS)!r})
from loop import serve

now = 0.0
time.perf_counter = lambda: now  # a clock of its own, which no other work on this machine disturbs

def prepare(setting):
    print("noise of a library")
    if setting["precision"] == "int4":
        raise ValueError("no such precision")
    if setting["precision"] == "gone":
        sys.exit("gone for good")
    def run():
        global now
        now += 0.02 if setting["precision"] == "float32" else 0.04
        return {{"lengths": [setting["length"]] * len(setting["source"])}}
    return run

serve(prepare)
"""
SETTING = DecodeSetting(size="tiny", vocabulary=300, beam=2, length=4, source_length=3, threads=1)


@pytest.fixture
def fake(tmp_path: Path) -> Path:
    path = tmp_path / "fake_worker.py"
    path.write_text(FAKE, encoding="utf-8")
    return path


def peer(script: Path, precision: str = "float32", name: str = "ctranslate2") -> Contestant:
    return Contestant(name=name, precision=precision, script=script, python=Path(sys.executable), versions="fake:1")


def ours(name: str) -> Contestant:
    return Contestant(name=name, precision="float32", script="rela_worker.py", more={"attention": name})


@pytest.mark.slow
def test_ours_beside_a_peer(fake: Path) -> None:
    contestants = [ours("rela-g"), ours("softmax"), peer(fake), peer(fake, "int8"), peer(fake, name="transformers")]
    points = Points(None, resume=False)
    entries = measure_decoding(SETTING, contestants, [1], rounds=3, bandwidth=1e10, points=points)
    check(document("decode", {}, entries))
    by_name = {entry["name"]: entry["measures"] for entry in entries}
    assert list(by_name) == [one.label for one in contestants]
    assert by_name["ctranslate2 float32"]["decode.step_ms"]["value"][0] == pytest.approx(5)
    assert by_name["ctranslate2 float32"]["decode.step_ms"]["labels"] == {"batch": ["1"]}
    share = by_name["ctranslate2 float32"]["decode.bandwidth_share"]["value"]
    assert share == pytest.approx(4 * SETTING.weights_read() / 1e10 / 0.02)
    assert by_name["ctranslate2 int8"]["decode.bandwidth_share"]["value"] == pytest.approx(share / 8)
    ratios = by_name["rela-g float32"]
    assert ratios["decode.over.softmax"]["target"] == [1.0]
    assert ratios["decode.over.ctranslate2"]["target"] == [1.2]
    assert ratios["decode.best_over.ctranslate2"]["target"] == [1.5]
    assert ratios["decode.over.transformers"]["target"] == [2.0]
    assert "target" not in by_name["softmax float32"]["decode.over.ctranslate2"]
    assert "decode.over.softmax" not in by_name["softmax float32"]
    assert "decode.over.softmax" not in by_name["ctranslate2 float32"]


def test_of_several_numbers_of_threads_the_fastest_counts(fake: Path) -> None:
    """Which of the two is the fastest is known: int8 takes twice as long here, whatever its threads."""
    slow, fast = peer(fake, "int8"), replace(peer(fake), threads=2)
    assert (slow.label, fast.label) == ("ctranslate2 int8", "ctranslate2 float32, 2 threads")
    assert replace(slow, threads=1).label == "ctranslate2 int8, 1 thread"
    contestants = [ours("rela-g"), slow, fast]
    points = Points(None, resume=False)
    entries = measure_decoding(SETTING, contestants, [1], rounds=3, bandwidth=1e10, points=points)
    by_name = {entry["name"]: entry["measures"] for entry in entries}
    best = by_name["rela-g float32"]["decode.best_over.ctranslate2"]["value"][0]
    medians = {name: measures["decode.step_ms"]["value"][0] for name, measures in by_name.items()}
    assert best == pytest.approx(medians[fast.label] / medians["rela-g float32"])
    assert by_name["rela-g float32"]["decode.over.ctranslate2"]["value"] == [best]


def test_weights_of_a_call() -> None:
    """Transformer base with 32,000 pieces: a step reads 38 million weights."""
    base = DecodeSetting(size="base", vocabulary=32_000, beam=4, length=30, source_length=25, threads=1)
    longer = DecodeSetting(size="base", vocabulary=32_000, beam=4, length=31, source_length=25, threads=1)
    assert longer.weights_read() - base.weights_read() == pytest.approx(38.4e6, rel=0.01)


def test_rounds_go_back_and_forth(fake: Path) -> None:
    ran: list[str] = []
    with all_workers([lambda p=p: peer(fake, p).worker(SETTING, 1) for p in ("float32", "int8")]) as workers:
        seconds = take_turns(
            workers, rounds=3, pause=0, least=0.05, on_run=lambda worker, _: ran.append(worker.name.split()[1])
        )
    assert ran == ["float32", "int8", "int8", "float32", "float32", "int8"]
    speed = speed_over(seconds, "ctranslate2 float32", "ctranslate2 int8")
    assert speed.median == pytest.approx(2)
    assert speed.rounds == 3


@pytest.mark.parametrize(("precision", "message"), [("int4", "no such precision"), ("gone", "gone for good")])
def test_a_worker_that_does_not_work(fake: Path, precision: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        peer(fake, precision).worker(SETTING, 1).ready()


def test_translations_of_another_length_are_refused(fake: Path) -> None:
    fake.write_text(FAKE.replace('setting["length"]]', "7]"), encoding="utf-8")
    points = Points(None, resume=False)
    with pytest.raises(ValueError, match="expected 1 translations of 4 pieces"):
        measure_decoding(SETTING, [peer(fake)], [1], rounds=3, bandwidth=1e10, points=points)


@pytest.mark.parametrize("attention", ["rela-g", "softmax"])
def test_every_translation_has_the_same_length(attention: str) -> None:
    model = random_model(attention, "tiny", 300)
    run = force_length(model, [[5, 6, 7], [8]], beam=2, length=9)
    assert run() == {"lengths": [9, 9]}
    assert run() == {"lengths": [9, 9]}


def test_random_models_are_the_same_for_a_seed() -> None:
    first, second = (random_model("rela-g", "tiny", 300) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    assert first.config.dim == SIZES["tiny"]["dim"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "script"), [("ctranslate2", "ctranslate2_worker.py"), ("transformers", "marian_worker.py")]
)
def test_the_real_peers(name: str, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In environments that are there: tests do not install anything."""

    def no_installation(*_: Any) -> None:
        pytest.skip(f"there is no environment of {name}; `rela bench decode` makes one")

    monkeypatch.setattr("rela.bench.peers._install", no_installation)
    python = environment(PEERS[name])
    assert versions(PEERS[name], python).startswith(f"{name}:")
    contestant = Contestant(name=name, precision="float32", script=script, python=python)
    with contestant.worker(SETTING, 2) as worker:
        assert worker.ready().run()["found"] == {"lengths": [4, 4]}
