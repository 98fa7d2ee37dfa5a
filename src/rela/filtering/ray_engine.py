"""Scoring a corpus of many files on Ray Data, for corpora that are too much for one machine.

A task reads a shard and cuts it into parts of so many windows. Workers, which hold the model, score a part, write it
under its name, read it back and count it. The bytes of a part depend on its rows, the model and the options alone, so
a part that is made twice, because a worker was lost, is the same part.
"""

from __future__ import annotations

import json
import logging
import os
import pickle
import re
import signal
import tempfile
import threading
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from itertools import count, islice
from pathlib import Path
from time import monotonic
from typing import Any, Final

from rela._files import digest
from rela._version import __version__
from rela.filtering.calibration import Calibration
from rela.filtering.scorer import MAX_PIECES, Scorer
from rela.filtering.scores import COLUMNS
from rela.filtering.shards import Counts, PartForm, ResultFolder, Shard, as_file, problems_in_part, render_part
from rela.filtering.writing import columns_of
from rela.model.directory import WEIGHTS_FILE, find_model_folder
from rela.text.readers import MAX_CHARS
from rela.text.rows import WINDOW, WINDOW_BYTES

PART_WINDOWS: Final = 16
"""Windows of a part: about a minute of a worker's time, which is what its loss costs."""

FORMAT: Final = "rela-parts-1"
COUNTS_FILE: Final = "_COUNTS.json"  # in a shard's folder, when all of its parts are there
SUCCESS_FILE: Final = "_SUCCESS.json"  # when all shards are
_PART: Final = re.compile(r"(.+)/part-(\d+)\.\w+")
_WORKERS_A_READER: Final = 16  # reading is hundreds of times as fast as scoring
_START_DEATHS: Final = 3  # workers that may die one after the other before one has loaded the model
_MENDABLE: Final = (ValueError, OSError, ModuleNotFoundError)  # told in one line

Progress = Callable[[str, float, float | None], None]
Table = Any  # of pyarrow, with one row: a message
Message = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class RayOptions:
    """How shards are scored.

    Attributes:
        output: a folder, as a path or an address that fsspec knows, which all machines reach.
        form: of the parts: tsv, jsonl or parquet; None: that of their shard.
        header: the first line of each TSV shard has names, and so has that of each of its parts.
        workers: processes, of one CPU each; None: as many as the cluster has CPUs.
        address: of a cluster (see `ray.init`); None: that in RAY_ADDRESS, else one that runs here, else a new one.
    """

    model: Path
    shards: Sequence[Shard]
    output: str
    calibration: Calibration
    form: PartForm | None = None
    header: bool = False
    spans: bool = False
    max_pieces: int = MAX_PIECES
    max_chars: int = MAX_CHARS
    window: int = WINDOW
    part_windows: int = PART_WINDOWS
    workers: int | None = None
    address: str | None = None

    def form_of(self, shard: Shard) -> PartForm:
        """The format of a shard's parts."""
        kind = shard.source.kind
        if kind == "files":
            raise ValueError(f"{shard.name}: expected both sides in one file, got two files; paste them into a TSV")
        if self.form == "tsv" and kind != "tsv":
            raise ValueError(f"{shard.name}: expected jsonl or parquet for parts of a {kind} shard, got tsv")
        return self.form or kind

    def has_header(self, shard: Shard) -> bool:
        """Whether the first line of a shard is none of its rows."""
        return self.header and shard.source.kind == "tsv"

    def part_name(self, shard: Shard, part: int) -> str:
        """In the output; parts count from 0."""
        return f"{shard.name}/part-{part:06d}.{self.form_of(shard)}"

    def recipe(self, weights: str) -> dict[str, Any]:
        """All that decides what is written. The number of workers is not among it."""
        return {
            "format": FORMAT,
            "version": __version__,
            "model": weights,
            "calibration": self.calibration.to_json(),
            "spans": self.spans,
            "header": self.header,
            "max_pieces": self.max_pieces,
            "max_chars": self.max_chars,
            "window": self.window,
            "window_bytes": WINDOW_BYTES,
            "part_windows": self.part_windows,
            "columns": list(COLUMNS),
            "shards": [
                {
                    "name": shard.name,
                    "bytes": shard.size,
                    "version": shard.version,
                    "kind": shard.source.kind,
                    "columns_read": list(shard.source.columns),
                    "keys": list(shard.source.keys),
                    "parts": self.form_of(shard),
                }
                for shard in self.shards
            ],
        }


@dataclass(frozen=True)
class RayResult:
    """What there is when all is done. ``new_rows`` were scored by this call; the others were there."""

    num_shards: int
    counts: Counts
    new_rows: int
    seconds: float

    @property
    def per_second(self) -> float:
        """Rows a second, of all workers together, from the call to its end."""
        return self.new_rows / self.seconds if self.seconds else 0.0


def score_with_ray(options: RayOptions, progress: Progress) -> RayResult:
    """Score all shards. Parts that a run before has left in the output are counted and not made again."""
    began = monotonic()
    ray = import_ray()
    weights = digest(find_model_folder(options.model) / WEIGHTS_FILE)
    if options.calibration.model != weights:
        raise ValueError("calibration: expected one of this model, got one of another; calibrate anew")
    folder = ResultFolder(options.output)
    with folder.held():
        found = folder.claim(options.recipe(weights))
        books = _open_books(folder, options, found)
        if SUCCESS_FILE in found and all(book.is_closed for book in books):  # else somebody has deleted some parts
            counts = Counts.from_json(json.loads(folder.read(SUCCESS_FILE)))
            return RayResult(len(options.shards), counts, 0, monotonic() - began)
        done, new_rows = sum(book.counts.rows for book in books), 0
        todo = {number: book.there for number, book in enumerate(books) if not book.is_closed}
        if todo:
            with _cluster(ray, options.address):
                for message in _messages(ray, options, todo):
                    book = books[message["shard"]]
                    rows, new = book.enter(message)
                    if book.is_closed:
                        folder.write(f"{book.shard.name}/{COUNTS_FILE}", as_file(book.counts.to_json(book.rows_in)))
                    done, new_rows = done + rows, new_rows + new
                    progress("scoring", done, None)
        counts = _finish(folder, options, books)
    return RayResult(len(books), counts, new_rows, monotonic() - began)


def import_ray() -> Any:
    """The package ray, if it is there."""
    try:
        import_module("ray.data")
        return import_module("ray")
    except ImportError as error:
        raise ModuleNotFoundError(
            "expected the package ray, with its part for data, to score on more than one machine, got none; install "
            "it with: pip install 'rela-attention[ray]'",
            name="ray",
        ) from error


# ---------------------------------------------------------------------- what is there, and what has been done


@dataclass
class _Book:
    """What is known about a shard: its parts that were there at first, and those that have been counted."""

    shard: Shard
    there: frozenset[int]
    counts: Counts = field(default_factory=Counts)
    entered: set[int] = field(default_factory=set[int])
    num_parts: int | None = None  # as its reader says when it is through
    rows_in: int = 0

    @property
    def is_closed(self) -> bool:
        """Whether all parts are counted."""
        return self.counts.parts == self.num_parts

    def enter(self, message: Message) -> tuple[int, int]:
        """Returns how many rows a message is about, and how many of them are new. One that comes twice counts once."""
        if message["kind"] == "end":
            self.num_parts, self.rows_in = message["part"], message["rows"]
        elif message["part"] not in self.entered:
            self.entered.add(message["part"])
            self.counts += Counts(1, message["rows"], Counter(json.loads(message["note"])))
            return message["rows"], 0 if message["part"] in self.there else message["rows"]
        return 0, 0


def _open_books(folder: ResultFolder, options: RayOptions, found: Set[str]) -> list[_Book]:
    there: defaultdict[str, set[int]] = defaultdict(set)
    for name in found:
        if part := _PART.fullmatch(name):
            there[part[1]].add(int(part[2]))
    books = [_Book(shard, frozenset(there[shard.name])) for shard in options.shards]
    counted = [book for book in books if f"{book.shard.name}/{COUNTS_FILE}" in found]
    files = folder.read_all([f"{book.shard.name}/{COUNTS_FILE}" for book in counted])
    for book, kept in zip(counted, map(json.loads, files), strict=True):
        if book.there == frozenset(range(kept["parts"])):  # else somebody has deleted some: the shard is read again
            book.counts, book.num_parts, book.rows_in = Counts.from_json(kept), kept["parts"], kept["rows_in"]
    return books


def _finish(folder: ResultFolder, options: RayOptions, books: Sequence[_Book]) -> Counts:
    """See that the folder has all parts and no others, and say so in a file."""
    counts, rows_in = sum((book.counts for book in books), Counts()), sum(book.rows_in for book in books)
    expected = {options.part_name(book.shard, part) for book in books for part in range(book.num_parts or 0)}
    parts = {name for name in folder.list() if _PART.fullmatch(name)}
    if not all(book.is_closed for book in books) or counts.rows != rows_in or parts != expected:
        raise RuntimeError(
            f"{folder.url}: expected {rows_in:,} rows in {len(expected):,} parts, got {counts.rows:,} rows in "
            f"{len(parts):,}; see that all machines reach the folder, and run the same command again"
        )
    facts = {"format": FORMAT, "shards": len(books), **counts.to_json(rows_in), "checked": True}
    folder.write(SUCCESS_FILE, as_file(facts))
    folder.clean()
    return counts


# ---------------------------------------------------------------------- on the cluster


@contextmanager
def _cluster(ray: Any, address: str | None) -> Generator[None]:
    """Ray, as it was started by whoever calls, or else started and ended here: without telemetry or dashboard."""
    if ray.is_initialized():
        yield
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # else each worker logs that its arguments are shared
    handler = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(address=address, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    except Exception as error:  # Ray has no class of its own for this
        where = "this machine" if address in (None, "local") else address
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ConnectionError(
            f"expected Ray to start or answer on {where}, got: {reason}; see that --address is right and that the "
            "machine is not too busy, and give the same command again"
        ) from error
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)  # Ray puts its own in its place
    try:
        yield
    finally:
        ray.shutdown()


def _messages(ray: Any, options: RayOptions, todo: Mapping[int, frozenset[int]]) -> Iterator[Message]:
    """What workers say about the parts of these shards, as they are done; ``todo`` has the parts that are there."""
    from ray.data import ActorPoolStrategy, DataContext, TaskPoolStrategy, from_items

    workers = options.workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
    context = DataContext.get_current().copy()
    context.target_max_block_size = 1  # byte: each message is a block, and goes on as soon as it is made
    context.enable_progress_bars = False
    context.max_consecutive_actor_init_deaths = _START_DEATHS
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    folder = find_model_folder(options.model)
    model = ray.put({path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()})
    one: dict[str, Any] = {"batch_size": 1, "batch_format": "pyarrow"}
    with DataContext.current(context), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The minimum number of concurrent actors", UserWarning)  # few parts are fine
        read = from_items([{"shard": number} for number in todo], override_num_blocks=len(todo)).map_batches(
            partial(read_parts, options, todo),
            compute=TaskPoolStrategy(size=1 + workers // _WORKERS_A_READER),
            num_cpus=0,  # else readers would wait until a worker leaves a CPU to them
            **one,
        )
        scored = read.map_batches(
            PartScorer,
            fn_constructor_args=(options, model),
            compute=ActorPoolStrategy(size=workers),  # Ray starts a lost worker anew, and gives it its part again
            num_cpus=1,
            **one,
        )
        for message in scored.iter_rows():
            if message["kind"] == "error":
                raise ValueError(message["note"])
            yield message


def _message(kind: str, shard: int, part: int, rows: int, note: str = "", data: bytes | None = None) -> Table:
    import pyarrow as pa

    fields = {"kind": kind, "shard": shard, "part": part, "rows": rows, "note": note}
    return pa.table({name: [value] for name, value in fields.items()} | {"data": pa.array([data], pa.large_binary())})


def read_parts(options: RayOptions, todo: Mapping[int, frozenset[int]], batch: Table) -> Iterator[Table]:
    """The parts of a shard, and how many there were. Of those that are there, only the number of rows."""
    (number,) = batch.column("shard").to_pylist()
    shard = options.shards[number]
    try:
        header = _header(options, shard)
        windows = shard.windows(header=options.header, max_chars=options.max_chars, size=options.window)
        total = 0
        for part in count():
            chosen = list(islice(windows, options.part_windows))
            shard.check()  # what has just been read is of the file that the recipe names
            if not chosen:
                yield _message("end", number, part, total)
                return
            rows = sum(map(len, chosen))
            data = None if part in todo[number] else pickle.dumps((header, chosen), pickle.HIGHEST_PROTOCOL)
            yield _message("part", number, part, rows, data=data)
            total += rows
    except _MENDABLE as error:
        yield _message("error", number, 0, 0, f"{shard.name}: {error}")


def _header(options: RayOptions, shard: Shard) -> bytes:
    if not options.has_header(shard):
        return b""
    return b"\t".join([*shard.header(), *(name.encode() for name in columns_of(spans=options.spans))]) + b"\n"


class PartScorer:
    """A worker: a process with one thread, which loads the model once and then makes parts."""

    def __init__(self, options: RayOptions, model: Any) -> None:
        import ray
        import torch

        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        torch.set_num_threads(1)  # sums have one order: all workers get the same bits
        with tempfile.TemporaryDirectory(prefix="rela-model-") as folder:
            files: Any = ray.get(model)
            for name, data in files.items():
                (Path(folder) / name).write_bytes(data)
            scorer = Scorer.load(folder)
        self._scorer = replace(scorer, calibration=options.calibration, max_pieces=options.max_pieces)
        self._options = options
        self._folder = ResultFolder(options.output)

    def __call__(self, batch: Table) -> Table:
        """The message of a reader about a part becomes one about what is in its file."""
        (message,) = batch.to_pylist()
        place = message["shard"], message["part"], message["rows"]
        if message["kind"] != "part":
            return _message(message["kind"], *place, message["note"])
        shard = self._options.shards[message["shard"]]
        try:
            return _message("part", *place, json.dumps(self._part(shard, message)))
        except _MENDABLE as error:
            return _message("error", *place, f"{shard.name}: {error}")

    def _part(self, shard: Shard, message: Message) -> Counter[str]:
        """Make a part, if it is not there, and count the problems in its file."""
        options = self._options
        name, form = options.part_name(shard, message["part"]), options.form_of(shard)
        if not self._folder.has(name):
            if message["data"] is None:
                raise ValueError(f"expected {name}, which was there, it is gone; run the same command again")
            header, windows = pickle.loads(message["data"])
            rows = ((window, self._scorer.score_window(window.pairs, spans=options.spans)) for window in windows)
            self._folder.write(name, render_part(rows, form, shard.source, header))
        data = self._folder.read(name)
        problems = problems_in_part(data, form, header=options.has_header(shard), spans=options.spans)
        if len(problems) != message["rows"]:
            raise ValueError(
                f"{name}: expected {message['rows']:,} rows, as many as its part of the shard has, got "
                f"{len(problems):,}; delete it, and run the same command again"
            )
        return Counter(problem for problem in problems if problem is not None)
