"""Tables and figures of benchmarks say what their result files say."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rela.report.benchmarks import tables
from rela.report.benchmarks.read import Benchmark, read_benchmark

MACHINE = {
    "processor": "Some CPU",
    "cores": 2,
    "hardware_threads": 4,
    "flags": ["avx2"],
    "memory_gib": 8.0,
    "torch": "2.13.0",
    "threads": 2,
    "kernel": "native",
}


def made(axis: str, **columns: Any) -> dict[str, Any]:
    labels = columns.pop("labels")
    return {"signature": f"{axis}|v1", "axes": [axis], "labels": {axis: labels}, **columns}


def one(value: float, **more: float) -> dict[str, Any]:
    return {"signature": "one|v1", "axes": [], "labels": {}, "value": value, **more}


def bench(folder: Path, entries: dict[str, dict[str, Any]], **more: Any) -> Benchmark:
    models = [{"name": name, "measures": measures, **more} for name, measures in entries.items()]
    data = {"format": "rela-results-1", "data": {"machine": MACHINE}, "models": models, "groups": []}
    path = folder / "bench.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    return read_benchmark(path)


@pytest.fixture
def core(tmp_path: Path) -> Benchmark:
    labels = [f"plain T={length} BH=8 density={d}" for length in (32, 512) for d in ("0.5", "0.15")]
    labels += ["causal T=512 BH=8 density=0.5", "trained cross d_h=32"]
    speeds = {
        "value": [1.4, 1.2, 1.2, 1.7, 0.9, 1.1],
        "low": [1.3, 1.1, 1.1, 1.6, 0.8, 1.0],
        "high": [1.5, 1.3, 1.3, 1.8, 1.0, 1.2],
        "target": [1.3, 1.3, 1.15, 1.6, 1.0, 1.0],
    }
    measures = {f"core.{mode}": made("case", labels=labels, **speeds) for mode in tables.MODES}
    measures["core.density"] = made("case", labels=labels, value=[0.5, 0.15, 0.5, 0.15, 0.5, 0.3])
    measures["core.forward.entmax15"] = made("case", labels=labels[2:3], value=[25.0], target=[20.0])
    return bench(tmp_path, {"relu_attention": measures})


@pytest.fixture
def scaling(tmp_path: Path) -> Benchmark:
    lengths = [128, 256, 512, 1024]
    measures: dict[str, Any] = {}
    for mode in tables.MODES:
        texts = [str(length) for length in lengths]
        seconds = [1e-6 * length**2 for length in lengths]
        measures[f"scaling.{mode}.seconds"] = made("length", labels=texts, value=seconds)
        measures[f"scaling.{mode}.bytes"] = made("length", labels=texts, value=[1024.0 * n for n in lengths])
        measures[f"scaling.{mode}.seconds.exponent"] = one(2.0)
    left_out = {"forward": "T=2048 and more: a call would take about 60 s"}
    return bench(tmp_path, {"native": measures, "sdpa": measures}, left_out=left_out)


@pytest.fixture
def decode(tmp_path: Path) -> Benchmark:
    ours = {
        "decode.step_ms": made("batch", labels=["1", "16"], value=[6.5, 40.0], low=[6.0, 39.0], high=[7.0, 41.0]),
        "decode.over.ctranslate2": made("batch", labels=["1", "16"], value=[2.0, 1.1], target=[1.2, 1.2]),
        "decode.bandwidth_share": one(0.72),
    }
    theirs = {"decode.step_ms": made("batch", labels=["1", "16"], value=[13.0, 44.0])}
    return bench(tmp_path, {"rela-g float32": ours, "ctranslate2 float32": theirs})


def test_the_core(core: Benchmark) -> None:
    text = tables.core_table(core)
    assert "| T = 32, B·H = 8 | 0.50 | 1.40 (1.30-1.50) | ≥ 1.3 met | 1.40 (1.30-1.50) | ≥ 1.3 met |" in text
    assert "| causal, T = 512, B·H = 8 | 0.50 | 0.90 (0.80-1.00) | ≥ 1 **missed** |" in text
    assert "| trained model, cross, d_h = 32 | 0.30 |" in text
    assert "`case|v1`" in text
    assert "| 25.0 | ≥ 20 met | - | - |" in tables.entmax_table(core)


def test_all_that_was_asked_for(core: Benchmark, decode: Benchmark) -> None:
    rows = {line.split(" | ")[0].strip("| "): line for line in tables.summary_table([core, decode]).splitlines()}
    assert rows["forward, T = 32..128"].endswith("≥ 1.3 | 1.20 to 1.40, **missed** in 1 of 2 |")
    assert rows["forward, T = 512..512, density 0.15"].endswith("≥ 1.6 | 1.70, met |")
    assert "**missed** in 2 of 2" in rows["masks, Tq != Tk, grouped heads, dropout"]
    assert "**missed** in 1 of 2" in rows["decoding over CTranslate2, float32"]


def test_a_column_for_each_machine(core: Benchmark, decode: Benchmark) -> None:
    other = replace(core, data={"machine": MACHINE | {"processor": "Intel(R) Xeon(R)", "flags": ["avx2", "avx512f"]}})
    lines = tables.summary_table([core, decode], [other]).splitlines()
    assert lines[0] == "|  | asked | Some CPU, AVX2 | Intel, AVX-512 |"
    assert "| forward, T = 512..512, density 0.15 | ≥ 1.6 | 1.70, met | 1.70, met |" in lines
    assert "| decoding over CTranslate2, float32 | ≥ 1.2 | 1.10 to 2.00, **missed** in 1 of 2 | - |" in lines


def test_results_of_two_machines_are_no_column(core: Benchmark, decode: Benchmark) -> None:
    other = replace(decode, data={"machine": MACHINE | {"processor": "AMD EPYC"}})
    with pytest.raises(
        ValueError, match=r"expected results of one machine .*, got Some CPU, AVX2 and AMD, AVX2; .*make bench"
    ):
        tables.summary_table([core, other])


def test_how_things_grow(scaling: Benchmark) -> None:
    text = tables.scaling_table(scaling)
    row = "| `native`, forward | 1,024 | 1.05 s | 1 MiB | 2.00 | - | T=2048 and more: a call would take about 60 s |"
    assert row in text
    assert "| 128 | 16.4 / 0.1 | 16.4 / 0.1 |" in tables.scaling_points_table(scaling)


def test_decoders(decode: Benchmark) -> None:
    assert "| `rela-g float32` | 6.50 (6.00-7.00) | 40.00 (39.00-41.00) | 72% |" in tables.steps_table(decode)
    assert "| `rela-g float32` over ctranslate2 | 16 | 1.10 | ≥ 1.2 **missed** |" in tables.decoding_table(decode)


def test_lengths_and_training(tmp_path: Path) -> None:
    speeds = {"decode.speed": made("length", labels=["1-5", "6"], value=[1.0, 0.9]), "decode.speed.mean": one(0.95)}
    assert "| 6 | 0.90 |" in tables.length_table(bench(tmp_path, {"rela-g": speeds}))
    steps = {"train.step.over.softmax": one(1.05, target=1.0, low=1.0, high=1.1)}
    text = tables.train_table(bench(tmp_path, {"rela-g": steps, "softmax": steps}))
    assert "times as fast as softmax on SDPA | 1.05 (1.00-1.10) | ≥ 1 met |" in text
    assert "`softmax`" not in text


def test_the_machine(decode: Benchmark) -> None:
    text = tables.machine_table(decode)
    assert "| processor | Some CPU, 2 cores, 4 hardware threads |" in text
    assert "reads from memory" not in text  # was not measured


def test_what_a_reader_must_know(decode: Benchmark) -> None:
    assert tables.caveats(decode) == []
    decode.data.update(note="Provisional.", others_cpu_share=0.25)
    assert tables.caveats(decode) == ["Provisional.", "Other processes took 25.0% of the processors meanwhile."]


def test_the_figures(core: Benchmark, scaling: Benchmark, decode: Benchmark, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from rela.report.benchmarks.figures import draw_core, draw_scaling, draw_steps
    from rela.report.figures.style import drawing, save

    with drawing():
        for name, figure in (
            ("core", draw_core(core)),
            ("scaling", draw_scaling(scaling)),
            ("steps", draw_steps(decode)),
        ):
            assert all(path.stat().st_size > 1000 for path in save(figure, tmp_path, name))
        lines = draw_core(core).axes[0].get_lines()
        assert [np.asarray(line.get_ydata()).tolist() for line in lines[:2]] == [
            [1.4, 1.2],
            [1.3, 1.15],
        ]  # speed, then target
