"""Scoring on Ray: the same bytes as in one process, whatever happens to its processes."""

import gzip
import json
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.filtering.sharding import HEADER, PROBLEMS, ROWS

from rela.filtering.pool import one_thread
from rela.filtering.ray_engine import COUNTS_FILE, SUCCESS_FILE, RayOptions, import_ray, read_parts, score_with_ray
from rela.filtering.scorer import Scorer
from rela.filtering.shards import (
    RECIPE_FILE,
    Counts,
    ResultFolder,
    Shard,
    as_file,
    find_files,
)
from rela.filtering.writing import as_jsonl, as_table, as_tsv, columns_of, new_table
from rela.text.readers import PairSource
from rela.text.rows import WINDOW, RowWindow, read_windows


def rows_of(options: RayOptions, shard: Shard) -> list[tuple[RowWindow, Any]]:
    """By the functions of one process, from files of this machine."""
    scorer = replace(Scorer.load(options.model), calibration=options.calibration)
    windows = list(read_windows(shard.source, header=shard.source.kind == "tsv"))
    with one_thread():
        return [(window, scorer.score_window(window.pairs, spans=True)) for window in windows]


def one_process(options: RayOptions, scratch: Path) -> dict[str, bytes]:
    """All parts by name."""
    header = b"\t".join([HEADER, *(name.encode() for name in columns_of(spans=True))]) + b"\n"
    found: dict[str, bytes] = {}
    for shard in options.shards:
        rows = rows_of(options, shard)
        for start in range(0, len(rows), 2):
            name, some = f"{shard.name}/part-{start // 2:06d}", rows[start : start + 2]
            if shard.source.kind == "tsv":
                found[f"{name}.tsv"] = header + b"".join(as_tsv(*row) for row in some)
            elif shard.source.kind == "jsonl":
                found[f"{name}.jsonl"] = b"".join(as_jsonl(*row, shard.source) for row in some)
            else:
                with new_table(scratch / "table", lambda: pytest.fail("no rows")) as write:
                    for row in some:
                        write(as_table(*row, shard.source))
                found[f"{name}.parquet"] = (scratch / "table").read_bytes()
    return found


def files_in(folder: str | Path) -> dict[str, bytes]:
    """All of an output, by name."""
    paths = [path for path in Path(folder).rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def quietly(*_: object) -> None: ...


def fail(*_: object) -> None:
    raise AssertionError


# ---------------------------------------------------------------------- on Ray


def processes_of_ray(title: bytes) -> set[int]:
    """Those of the cluster that this process has started, children of a child, that do such work."""
    parents: dict[int, int] = {}
    found: set[int] = set()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            if title in (path / "cmdline").read_bytes():
                found.add(int(path.name))
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
    return {process for process in found if parents.get(parents[process]) == os.getpid()}


@contextmanager
def killing_a_reader() -> Generator[list[int]]:
    """Kills the first one that is seen."""
    killed: list[int] = []
    ended = threading.Event()

    def watch() -> None:
        while not killed and not ended.wait(0.02):
            for process in processes_of_ray(b"read_parts"):
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
                    killed.append(process)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield killed
    finally:
        ended.set()
        thread.join()


@pytest.fixture(scope="module")
def _rays_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    """Where Ray keeps a token by which its processes know each other; compiled kernels stay where they are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache"))
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_BACKEND_LOG_LEVEL", "fatal")
        patch.delenv("RAY_ADDRESS", raising=False)
        yield


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")
@pytest.mark.usefixtures("_rays_home")
@pytest.mark.filterwarnings("ignore:`use_push_based_shuffle` is deprecated:DeprecationWarning")  # Ray's own defaults
@pytest.mark.filterwarnings("ignore:`use_polars` is deprecated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:`use_arrow_tensor_v2` is deprecated:DeprecationWarning")
class TestRay:
    def test_killed_processes_change_nothing(self, options: RayOptions, tmp_path: Path):
        import ray

        workers: set[int] = set()
        reached: list[float] = []

        def progress(what: str, done: float, total: float | None) -> None:
            assert (what, total) == ("scoring", None)
            alive = processes_of_ray(b"PartScorer")
            workers.update(alive)
            if not reached:
                os.kill(max(alive), signal.SIGKILL)
            reached.append(done)

        handler = signal.getsignal(signal.SIGTERM)
        with killing_a_reader() as killed:
            result = score_with_ray(options, progress)

        expected = one_process(options, tmp_path)
        found = files_in(options.output)
        counts = {f"{shard.name}/{COUNTS_FILE}" for shard in options.shards}
        assert len(killed) == 1
        assert len(workers) == 3, "expected another in the place of the one that was killed"
        assert {name: found[name] for name in expected} == expected
        assert found.keys() - expected.keys() == {*counts, RECIPE_FILE, SUCCESS_FILE}
        assert reached == sorted(reached)
        assert reached[-1] == result.counts.rows == result.new_rows == ROWS
        assert result.per_second > 0
        assert json.loads(found[SUCCESS_FILE]) == {
            "format": "rela-parts-1",
            "shards": 3,
            "parts": 8,
            "rows_in": ROWS,
            "rows_out": ROWS,
            "problems": PROBLEMS,
            "checked": True,
        }
        assert not ray.is_initialized()
        assert signal.getsignal(signal.SIGTERM) is handler

    def test_only_what_is_missing_is_made(self, options: RayOptions, tmp_path: Path):
        import ray

        options = replace(options, output=f"file://{tmp_path}/out")
        results, whole = ResultFolder(options.output), one_process(options, tmp_path)
        results.claim(options.recipe(options.calibration.model))
        for name in whole.keys() - {"a.tsv.gz/part-000001.tsv"}:
            results.write(name, whole[name])
        counts = Counts(2, 4 * WINDOW, Counter({"bad-record": 1}))
        results.write(f"c.parquet/{COUNTS_FILE}", as_file(counts.to_json(4 * WINDOW)))
        times = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*") if path.is_file()}
        reached: list[float] = []
        ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
        try:
            result = score_with_ray(options, lambda _, done, __: reached.append(done))
            assert ray.is_initialized(), "expected what others have started to stay"
            assert result.new_rows == 2 * WINDOW
            assert result.counts == Counts(8, ROWS, Counter(PROBLEMS))
            assert min(reached) >= 4 * WINDOW, "expected a shard with counts not to be read again"
            assert {name: data for name, data in files_in(tmp_path / "out").items() if name in whole} == whole
            assert {path: path.stat().st_mtime_ns for path in times} == times
            again = score_with_ray(options, fail)
            assert (again.counts, again.new_rows) == (result.counts, 0)
            (tmp_path / "out" / "a.tsv.gz" / "part-000001.tsv").unlink()  # though all was said to be there
            assert score_with_ray(options, quietly).new_rows == 2 * WINDOW
            assert files_in(tmp_path / "out").keys() >= whole.keys()

            (tmp_path / "cut.tsv.gz").write_bytes(gzip.compress(b"dog\tHund\n" * 100_000)[:-20])
            cut = Shard("cut.tsv.gz", 1, PairSource.tsv(tmp_path / "cut.tsv.gz"))
            with pytest.raises(ValueError, match=r"cut\.tsv\.gz: expected a whole \.gz file, got a damaged or cut one"):
                score_with_ray(replace(options, shards=[cut], output=str(tmp_path / "cut")), quietly)
        finally:
            ray.shutdown()


def test_without_ray(options: RayOptions, monkeypatch: pytest.MonkeyPatch):
    for name in ("ray", "ray.data"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ModuleNotFoundError, match=r"got none; .*: pip install 'rela-attention\[ray\]'"):
        score_with_ray(options, quietly)


def test_ray_that_does_not_start(options: RayOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    ray = import_ray()

    def fail(**_: object) -> None:
        raise Exception("The current node timed out during startup\nand more")  # as Ray does

    monkeypatch.setattr(ray, "init", fail)
    with pytest.raises(ConnectionError, match="expected Ray to start or answer on this machine, got: The current node"):
        score_with_ray(replace(options, output=str(tmp_path)), quietly)


class TestRefusals:
    """Before Ray is started."""

    def test_another_recipe(self, options: RayOptions, tmp_path: Path):
        recipe = options.recipe(options.calibration.model)
        ResultFolder(str(tmp_path)).claim(recipe)
        changed = replace(options, output=str(tmp_path), max_pieces=7, shards=options.shards[:1])
        with pytest.raises(ValueError, match=r"got those of one with other max_pieces and shards, .*; name another"):
            score_with_ray(changed, quietly)

    def test_a_folder_of_something_else(self, options: RayOptions, tmp_path: Path):
        (tmp_path / "thesis.tex").write_text("")
        with pytest.raises(ValueError, match=r"got one with other files, such as thesis\.tex; name another"):
            score_with_ray(replace(options, output=str(tmp_path)), quietly)

    def test_another_process(self, options: RayOptions, tmp_path: Path):
        with ResultFolder(str(tmp_path)).held(), pytest.raises(BlockingIOError, match="got another process at it"):
            score_with_ray(replace(options, output=str(tmp_path)), quietly)

    def test_a_calibration_of_another_model(self, options: RayOptions):
        other = replace(options.calibration, model="0")
        with pytest.raises(ValueError, match="expected one of this model"):
            score_with_ray(replace(options, calibration=other), quietly)

    def test_a_shard_that_changes_meanwhile(self, options: RayOptions, tmp_path: Path):
        path = tmp_path / "a.tsv"
        path.write_text("A dog\tEin Hund\n" * 40, encoding="utf-8")
        (file,) = find_files([str(path)], str(tmp_path / "out"))
        shard = Shard(file.name, file.size, PairSource.tsv(path), file.version)
        job = replace(options, shards=[shard], window=10, part_windows=1)
        parts = read_parts(job, {0: frozenset()}, pa.table({"shard": [0]}))
        assert next(parts).column("kind").to_pylist() == ["part"]
        path.write_text("A cat\tEine Katze\n" * 40, encoding="utf-8")
        (message,) = list(parts)
        assert message.column("kind").to_pylist() == ["error"]
        assert "expected a shard that stays as it is" in message.column("note").to_pylist()[0]

    def test_tsv_of_what_is_none(self, options: RayOptions):
        with pytest.raises(ValueError, match=r"c\.parquet: expected jsonl or parquet"):
            score_with_ray(replace(options, form="tsv"), quietly)

    def test_two_files(self, options: RayOptions):
        shard = Shard("a", 1, PairSource.files("a.en", "a.de"))
        with pytest.raises(ValueError, match="a: expected both sides in one file"):
            score_with_ray(replace(options, shards=[shard]), quietly)
