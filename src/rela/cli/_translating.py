"""What `rela translate` does: read, translate window by window, write."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from rela._warn import warn
from rela.cli._output import write_json

if TYPE_CHECKING:
    from rich.console import Console

    from rela.decoding.translator import Translation

_WINDOW: Final = 2048


@dataclass(frozen=True, kw_only=True)
class Job:
    """The options of one call."""

    model: Path
    source: str
    output: Path | None
    beam: int
    length_penalty: float
    nbest: int
    align: bool
    window: int | None
    max_source: int
    resume: bool
    threads: int | None
    device: str
    json_to: str | None


def run_job(job: Job, console: Console) -> None:
    """Translate, and say what was odd."""
    import torch

    from rela.cli._progress import CountProgress
    from rela.decoding.translator import Translator
    from rela.text.problems import ReadReport
    from rela.text.readers import read_lines

    if job.threads is not None:
        torch.set_num_threads(job.threads)
    interactive = job.source == "-" and sys.stdin.isatty()
    job = replace(job, window=job.window or (1 if interactive else _WINDOW))
    translator = Translator.load(job.model, job.device)
    report = ReadReport()
    lines = (line.text for line in read_lines(job.source, report=report))
    entries: list[dict[str, Any]] = []
    unfinished = 0
    show_progress = job.output is not None and not interactive
    with _Output(job) as out, CountProgress(console, "sentences") as progress:
        for number, text, found in _translations(translator, lines, job, out.skip_windows()):
            unfinished += not found.finished
            out.write(number, _format(found, number, job))
            if job.json_to is not None:
                entries.append({"line": number, "source": text, **asdict(found)})
            if show_progress:
                progress.advance("translating", 1)
        out.finish()
    for problem, count in report.counts.items():
        warn(f"{problem}: {count} of {report.num_lines} lines: {report.lines()[1:]}")
    if unfinished:
        warn(f"{unfinished} translations did not end within the greatest length and were cut off")
    if job.json_to is not None:
        write_json({"model": str(job.model), "translations": entries}, job.json_to)


def _translations(
    translator: Any, lines: Iterable[str], job: Job, skipped: int
) -> Iterator[tuple[int, str, Translation]]:
    """Window by window; the windows that a cut-off output has already are left out."""
    assert job.window is not None
    iterator = iter(lines)
    number = 0
    while chunk := list(islice(iterator, job.window)):
        first = number
        number += len(chunk)
        if first // job.window < skipped:
            continue
        found = translator.translate(
            chunk,
            beam=job.beam,
            length_penalty=job.length_penalty,
            nbest=job.nbest,
            max_source=job.max_source,
            align=job.align,
        )
        for place, (text, translation) in enumerate(zip(chunk, found, strict=True)):
            yield first + place + 1, text, translation


def _format(found: Translation, number: int, job: Job) -> str:
    def one(translation: Translation) -> str:
        text = " ".join(translation.text.split("\n"))  # a line stays a line
        if not job.align:
            return text
        return f"{text}\t{' '.join(f'{i}-{j}' for i, j in translation.alignment or ())}"

    if job.nbest == 1:
        return f"{one(found)}\n"
    return "".join(f"{number}\t{t.score:.6f}\t{one(t)}\n" for t in (found, *found.alternatives))


class _Output:
    """Standard output, or a file that gets its name when it is complete."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._partial = None if job.output is None else job.output.with_name(f"{job.output.name}.partial")
        self._file: IO[str] | None = None
        self._pending: list[str] = []
        self._skipped = 0

    def __enter__(self) -> _Output:
        if self._partial is None:
            return self
        if self._job.resume and self._partial.exists():
            self._skipped = self._keep_whole_windows(self._partial)
        self._file = self._partial.open("a" if self._skipped else "w", encoding="utf-8", newline="\n")
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._flush()
            self._file.close()

    def skip_windows(self) -> int:
        """How many windows the file has from before."""
        return self._skipped

    def write(self, number: int, text: str) -> None:
        """One sentence; a file gets whole windows only."""
        assert self._job.window is not None
        if self._file is None:
            if self._job.json_to != "-":
                sys.stdout.write(text)
                if number % self._job.window == 0:
                    sys.stdout.flush()
            return
        self._pending.append(text)
        if number % self._job.window == 0:
            self._flush()

    def finish(self) -> None:
        """All is written."""
        if self._file is None or self._partial is None or self._job.output is None:
            sys.stdout.flush()
            return
        self._flush()
        os.fsync(self._file.fileno())
        self._partial.replace(self._job.output)

    def _flush(self) -> None:
        assert self._file is not None
        self._file.write("".join(self._pending))
        self._pending.clear()
        self._file.flush()

    def _keep_whole_windows(self, path: Path) -> int:
        """Cut a file after its last whole window; returns the number of windows."""
        assert self._job.window is not None
        per_window = self._job.window * self._job.nbest
        size = windows = 0
        with path.open("rb") as file:
            while len(block := list(islice(file, per_window))) == per_window and block[-1].endswith(b"\n"):
                windows += 1
                size += sum(map(len, block))
        os.truncate(path, size)
        return windows
