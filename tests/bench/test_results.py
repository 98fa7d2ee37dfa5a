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
from rela.bench.results import Number, Points, check, code_digest, count_points, document, measure, points_file
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
    with pytest.warns(UserWarning, match=r"a damaged one on line 4; .* keeping the rest \(2\)"):
        second = Points(path, resume=True)
    assert second.get("a", lambda: pytest.fail("measured again")) == {"speed": 1}
    assert "b" in second
    assert second.get("c", lambda: 3) == 3
    assert Points(path, resume=True).get("c", lambda: pytest.fail("the damaged line spoilt the next one")) == 3
    assert "a" not in Points(path, resume=False)  # without --resume, everything is measured anew
    assert not kept.exists()
    second.done()


@pytest.mark.parametrize("damage", ["[1]", "3", '{"key": ["a"]}', '{"key": "a", "point": 1}', "\x00"])
def test_damaged_points_are_told_of(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "result.json"
    for key in ("a", "b"):
        Points(path, resume=key == "b").get(key, lambda: 1)
    kept = points_file(path)
    lines = kept.read_text(encoding="utf-8").splitlines()
    kept.write_text("\n".join([lines[0], damage, lines[2]]) + "\n", encoding="utf-8")
    with pytest.warns(UserWarning, match=r"a damaged one on line 2; .* keeping the rest \(1\)"):
        found = Points(path, resume=True)
    assert ("a" in found, "b" in found) == (False, True)


@pytest.mark.parametrize(
    ("first", "word"),
    [('{"code": "another"}', "got 2 points by other code"), ("{", "its first line is damaged")],
)
def test_points_of_other_code_are_measured_again(tmp_path: Path, first: str, word: str) -> None:
    path = tmp_path / "result.json"
    points = Points(path, resume=False)
    for key in ("a", "b"):
        points.get(key, lambda: 1)
    kept = points_file(path)
    lines = kept.read_text(encoding="utf-8").splitlines()
    assert json.loads(lines[0]) == {"code": code_digest()}
    kept.write_text("\n".join([first, *lines[1:]]) + "\n", encoding="utf-8")
    with pytest.warns(UserWarning, match=word):
        found = Points(path, resume=True)
    assert found.get("a", lambda: 2) == 2
    assert kept.read_text(encoding="utf-8").splitlines()[0] == lines[0]
    assert count_points(path) == 1


def test_points_from_before_the_code_was_noted_are_measured_again(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    points_file(path).write_text('{"key": "a", "point": 1, "others": 0.0, "capacity": 0.0}\n', encoding="utf-8")
    with pytest.warns(UserWarning, match="got 1 point by other code"):
        assert "a" not in Points(path, resume=True)


def test_the_digest_is_that_of_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "rela"
    (package / "bench").mkdir(parents=True)
    monkeypatch.setattr("rela.bench.results.__file__", str(package / "bench" / "results.py"))
    found: list[str] = []
    for name, text in [("a.py", "x"), ("b.cpp", "x"), ("b.cpp", "y"), ("c.c", ""), ("notes.txt", "x")]:
        (package / name).write_text(text, encoding="utf-8")
        found.append(code_digest.__wrapped__())
    assert len(set(found)) == 4
    assert found[3] == found[4]  # notes are no code


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
