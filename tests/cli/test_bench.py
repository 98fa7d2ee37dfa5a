"""`rela bench`, its commands in their small forms; tests/bench has the parts."""

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.analysis.studies import make_model
from tests.cli.helpers import rela

from rela.bench.results import check, count_points
from rela.cli._app import run
from rela.cli._commands import COMMANDS, GROUPS
from rela.report.benchmarks.read import Benchmark, read_benchmark
from rela.report.results import load_results

SMALL = ("--dim", "32", "--heads", "4", "--tokens", "64", "--rounds", "3")


def results(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """What a command wrote, if the report can read it."""
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    check(data)
    return data


def read(data: dict[str, Any], folder: Path) -> Benchmark:
    (folder / "result.json").write_text(json.dumps(data), encoding="utf-8")
    return read_benchmark(folder / "result.json")


def test_one_batch_of_every_attention() -> None:
    done = rela("bench", "attention", *SMALL, "--lengths", "8", "--no-core")
    for word in ("spar-", "null", "extra", "fwd", "+bwd", "softmax", "rela-g-layernorm", "entmax", "topk"):
        assert word in done.stdout
    assert "relu_attention" not in done.stdout


@pytest.mark.slow
def test_the_core_and_the_sublayer(tmp_path: Path) -> None:
    model = make_model(tmp_path / "model")
    for name in ("test.en", "test.de"):
        (tmp_path / name).write_text("dog\ncat dog\n", encoding="utf-8")
    files = ("--model", str(model), "--src", str(tmp_path / "test.en"), "--tgt", str(tmp_path / "test.de"))
    arguments = (*SMALL, "--lengths", "4,8", "--attentions", "softmax,rela-g", *files, "--json", "-")
    bench = read(results(rela("bench", "attention", *arguments)), tmp_path)
    assert list(bench.entries) == ["softmax", "rela-g", "relu_attention"]
    assert [number.label for number in bench.numbers("rela-g", "sublayer.forward")] == ["4", "8"]
    assert bench.numbers("rela-g", "core.forward+backward")[0].value > 0
    assert bench.numbers("rela-g", "sublayer.forward")[0].rounds == 3
    assert bench.numbers("rela-g", "extra_parameters")[0].value == 64
    core = {number.label: number for number in bench.numbers("relu_attention", "core.forward")}
    assert core["plain T=4 BH=8 density=0.5"].target == 1.3
    assert [core[label].target for label in core if label.startswith("trained cross d_h=")] == [1.0]
    machine = bench.data["machine"]
    assert machine["threads"] >= 1
    assert machine["gflops"] > 0


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (("--lengths", "0"), 2, "--lengths"),
        (("--lengths", "many"), 2, "--lengths"),
        (("--heads", "7"), 2, "--heads"),
        (("--rounds", "1"), 2, "--rounds"),
        (("--attentions", "rela-x"), 2, "rela-g"),
        (("--no-core", "--no-sublayer"), 2, "--no-sublayer"),
        (("--no-core", "--model", "x"), 2, "--no-core: expected no option of what it leaves out, got --model;"),
        (("--no-core", "--src", "x", "--tgt", "y"), 2, "--no-core: .* got --src and --tgt;"),
        (("--no-sublayer", "--tokens", "2048"), 2, "--no-sublayer: .* got --tokens;"),  # its default, but given
        (
            ("--no-sublayer", "--attentions", "softmax", "--dim", "64", "--heads", "8"),
            2,
            "got --dim and --heads and --attentions;",
        ),
        (("--src", "x", "--tgt", "y"), 2, "expected --model as well"),
        (("--src", "x"), 2, "--tgt"),
        (("--resume",), 2, "--json"),
    ],
)
def test_wrong_use(arguments: tuple[str, ...], code: int, word: str) -> None:
    done = rela("bench", "attention", *arguments)
    assert done.returncode == code
    assert re.search(word, done.stderr)


def test_align(tmp_path: Path) -> None:
    make_model(tmp_path / "model")
    for name in ("test.en", "test.de"):
        (tmp_path / name).write_text("dog\ncat dog\n\n", encoding="utf-8")
    files = ("--src", str(tmp_path / "test.en"), "--tgt", str(tmp_path / "test.de"))
    done = rela("bench", "align", str(tmp_path / "model"), *files, "--rounds", "3", "--json", "-")
    data = results(done)
    assert data["data"]["pairs"] == 2
    cost = data["models"][0]["measures"]["align.cost"]
    assert 0 < cost["low"] <= cost["value"] <= cost["high"]
    assert cost["signature"].startswith("align|data:test|pairs:2|attention:rela-g|layer:")


def test_memory(tmp_path: Path) -> None:
    arguments = ("--lengths", "64,128,256,512", "--methods", "native,sdpa", "--rounds", "3", "--json", "-")
    bench = read(results(rela("bench", "memory", *arguments)), tmp_path)
    for name in ("native", "sdpa"):
        assert [number.label for number in bench.numbers(name, "scaling.forward.seconds")] == [
            "64",
            "128",
            "256",
            "512",
        ]
        assert all(number.value > 0 for number in bench.numbers(name, "scaling.forward+backward.seconds"))
        assert bench.numbers(name, "scaling.forward.seconds.exponent")


@pytest.mark.slow
def test_decode(tmp_path: Path) -> None:
    done = rela("bench", "decode", "--quick", "--peers", "none", "--precisions", "fp32", "--json", "-")
    bench = read(results(done), tmp_path)
    assert list(bench.entries) == ["rela-g float32", "softmax float32"]
    assert bench.number("rela-g float32", "decode.over.softmax", "1") is not None
    share = bench.number("rela-g float32", "decode.bandwidth_share")
    assert share is not None
    assert share.value > 0  # above 1 where so small a model stays in the caches: it need not come from memory
    assert bench.data["machine"]["read_gb_per_second"] > 0


def test_length_makes_the_figure(tmp_path: Path) -> None:
    file = tmp_path / "length.json"
    arguments = ("--attentions", "softmax,rela-g", "--json", str(file))
    done = rela("bench", "length", "--quick", *arguments)
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.glob("*.points"))
    speeds = load_results(file).models[1].measures["decode.speed"]
    assert 3 <= len(speeds.value) <= 5
    assert "|threads:1|" in speeds.signature  # others' work must not make it slow
    assert len(speeds.labels["length"]) == len(speeds.value)
    assert file_has_figure(file)


def file_has_figure(file: Path) -> bool:
    pytest.importorskip("matplotlib")
    from rela.report.figures.curves import draw_speed

    return len(draw_speed(load_results(file)).axes) == 1


def test_train_step(tmp_path: Path) -> None:
    bench = read(results(rela("bench", "train", "--quick", "--no-peer", "--json", "-")), tmp_path)
    ratio = bench.number("rela-g", "train.step.over.softmax")
    assert ratio is not None
    assert ratio.target == 1
    assert bench.number("softmax", "train.step.peak_share") is not None


def stopped(number: signal.Signals, *arguments: str, when: Callable[[], bool]) -> tuple[int, str]:
    """Exit code and standard error of a benchmark that gets a signal when something holds."""
    command = [sys.executable, "-m", "rela", "bench", *arguments, "--threads", "1"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        while not when():
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(number)
        errors = process.communicate(timeout=60)[1]
    return process.returncode, errors


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_and_resumed(tmp_path: Path, number: signal.Signals) -> None:
    file = tmp_path / "memory.json"
    points = tmp_path / "memory.json.points"
    arguments = ("memory", "--methods", "native", "--json", str(file), "--rounds", "3")
    begun = (*arguments, "--lengths", "64,128,32768")  # the last takes long
    code, errors = stopped(number, *begun, when=lambda: count_points(file) >= 2)
    assert code == 128 + number
    assert not file.exists()
    kept = count_points(file)
    assert errors == (
        f"rela: stopped; {points} has the {kept} points measured so far, and the same command with --resume goes on "
        "from there\n"
    )
    done = rela("bench", *arguments, "--lengths", "64,128", "--threads", "1", "--resume")
    assert done.returncode == 0, done.stderr
    assert not points.exists()


def test_stopped_without_a_file(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rela.cli.bench_memory.set_threads", stop)
    assert run(COMMANDS, GROUPS, ["bench", "memory"]) == 130
    expected = "rela: stopped; nothing is kept without --json FILE, so the same command begins anew\n"
    assert capsys.readouterr().err == expected
    assert run(COMMANDS, GROUPS, ["bench", "memory", "--json", "nothing.json"]) == 130
    assert "not one point was measured, so the same command begins anew" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("decode", "--size", "huge"), "base, small, tiny"),
        (("decode", "--peers", "moses"), "ctranslate2"),
        (("decode", "--precisions", "int4"), "expected some of fp32, int8, got int4"),
        (("decode", "--precisions", "float32"), "expected some of fp32, int8, got float32"),
        (("length", "--attentions", "rela-g,sparsemax"), "expected softmax among them"),
        (("length", "--attentions", "rela-g,sparsemax"), "got rela-g, sparsemax; add softmax"),
        (("length", "--threads", "100000"), "1024"),
        (("length", "--size", "huge"), "base, small, tiny"),
        (("length", "--tgt", "x"), "--src"),
        (("memory", "--methods", "magic"), "native"),
        (("memory", "--lengths", "-3"), "--lengths"),
        (("train", "--no-step", "--no-peer"), "--no-step"),
        (("train", "--no-step", "--step-size", "tiny"), "--no-step: expected no option of what it leaves out"),
        (("train", "--no-peer", "--size", "tiny", "--updates", "20"), "got --size and --updates;"),
        (("train", "--store", "x", "--merges", "3"), "--store: expected no option of what it leaves out, got --merges"),
    ],
)
def test_wrong_use_of_the_others(arguments: tuple[str, ...], word: str) -> None:
    done = rela("bench", *arguments)
    assert done.returncode == 2
    assert word in done.stderr
