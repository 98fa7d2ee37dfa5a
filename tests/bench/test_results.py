"""What benchmarks write, and what they keep when they are cut off."""

import json
import platform
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rela.bench import machine
from rela.bench.others import watching
from rela.bench.results import Number, Points, check, document, measure
from rela.report.benchmarks.read import read_benchmark
from rela.report.results import load_results


def file(measures: dict[str, Any]) -> dict[str, Any]:
    return document("attention", machine.describe(), [{"name": "ours", "measures": measures}], core="ours")


def test_the_report_reads_it(tmp_path: Path) -> None:
    numbers = {"a": Number(value=1.5, low=1.4, high=1.6, rounds=3, target=1.2), "b": Number(value=0.5)}
    data = file({"core.forward": measure("core|v1", "case", numbers), "one": measure("one|v1", None, Number(value=2))})
    check(data)
    path = tmp_path / "bench.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    assert load_results(path).models[0].measures["core.forward"].value.tolist() == [1.5, 0.5]
    found = read_benchmark(path).numbers("ours", "core.forward")
    assert [(one.label, one.value, one.low, one.target, one.met) for one in found] == [
        ("a", 1.5, 1.4, 1.2, True),
        ("b", 0.5, None, None, None),
    ]
    assert [one.value for one in read_benchmark(path).numbers("ours", "one")] == [2]
    assert read_benchmark(path).numbers("ours", "another") == []


def test_lists_without_anything_are_left_out() -> None:
    assert set(measure("x", "case", {"a": Number(value=1.0)})) == {"signature", "axes", "labels", "value"}


@pytest.mark.parametrize(
    "change",
    [
        {"labels": {"case": ["a", "b"]}},
        {"low": [1.0, 2.0]},
        {"axes": ["case", "length"]},
        {"axes": [], "labels": {}},
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, Any]) -> None:
    found = measure("x|v1", "case", {"a": Number(value=1.0)})
    with pytest.raises(ValueError, match="expected"):
        check(file({"core.forward": found | change}))


def test_another_format_is_refused() -> None:
    with pytest.raises(ValueError, match="rela-results-1"):
        check({"format": "other"})


def test_the_machine_has_no_name() -> None:
    facts = machine.describe()
    assert {"processor", "cores", "flags", "torch", "threads", "kernel", "memory_gib"} <= facts.keys()
    assert platform.node() not in json.dumps(facts).split('"')


def test_limits_of_the_machine() -> None:
    assert machine.read_bandwidth(threads=1, seconds=0.02, size=2**24) > 1e8
    assert machine.matmul_peak(64, 64, 64, threads=1, seconds=0.02) > 1e8


def test_points_outlive_a_run_that_was_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    first = Points(path, resume=False)
    assert first.get("a", lambda: {"speed": 1}) == {"speed": 1}
    assert first.get("b", lambda: 2) == 2
    kept = tmp_path / "result.json.points"
    kept.write_text(kept.read_text(encoding="utf-8") + '{"key": "c", "po', encoding="utf-8")  # cut off while writing
    second = Points(path, resume=True)
    assert second.get("a", lambda: pytest.fail("measured again")) == {"speed": 1}
    assert "b" in second
    assert second.get("c", lambda: 3) == 3
    assert "a" not in Points(path, resume=False)  # without --resume, everything is measured anew
    assert not kept.exists()
    second.done()


def _spin(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="only Linux tells")
def test_work_of_others_is_seen_and_ours_is_not(tmp_path: Path) -> None:
    code = "import time\nend = time.process_time() + 0.6\nwhile time.process_time() < end: pass"
    with watching() as own:
        subprocess.run([sys.executable, "-c", code], check=True)  # who descends from us is one of us
        _spin(0.3)
    with watching() as with_other:
        # A shell that ends at once leaves its child to somebody else.
        command = f"{shlex.quote(sys.executable)} -c {shlex.quote(code)} & echo $!"
        other = int(subprocess.run(["sh", "-c", command], stdout=subprocess.PIPE, check=True).stdout)
        while Path(f"/proc/{other}").exists():
            time.sleep(0.02)
    # Whatever else this machine does at the time can only add to both.
    assert own.capacity > 0
    assert with_other.others > 0.5
    points = Points(tmp_path / "x.json", resume=False)
    points.get("a", lambda: _spin(0.1))
    share = points.others_share()
    assert share is not None
    assert 0 <= share <= 1
    assert Points(tmp_path / "x.json", resume=True).others_share() == pytest.approx(share)


def test_without_a_file_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    points = Points(None, resume=False)
    assert points.get("a", lambda: 1) == 1
    points.done()
    assert list(tmp_path.iterdir()) == []
