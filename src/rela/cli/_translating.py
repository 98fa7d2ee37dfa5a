"""What `rela translate` does: read, translate window by window, write."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import typer

from rela._streams import standard_input
from rela._warn import warn
from rela.cli._output import write_json
from rela.cli._outputs import (
    WINDOW,
    check_direction,
    input_identity,
    input_name,
    line_numbers,
    longest_line,
    model_origin,
    open_output,
    output_progress,
)
from rela.cli._partial import OddLines, Origin, Recipe
from rela.cli._usage import wrong_use

if TYPE_CHECKING:
    from rich.console import Console

    from rela.decoding.packing import Precision
    from rela.decoding.translator import Translation, Translator
    from rela.text.problems import ReadReport
    from rela.text.readers import Line

_OPTIONS: Final = (
    "beam",
    "length_penalty",
    "min_length",
    "max_length",
    "nbest",
    "align",
    "window",
    "max_source",
    "precision",
)


@dataclass(frozen=True, kw_only=True)
class Job:
    """The options of one call."""

    model: Path
    source: str
    output: Path | None
    beam: int
    length_penalty: float
    min_length: int
    max_length: int | None
    nbest: int
    align: bool
    window: int | None
    max_source: int
    resume: bool
    threads: int | None
    device: str
    precision: Precision
    json_to: str | None


class Done(NamedTuple):
    """A line and its translation."""

    line: Line
    found: Translation


def run_job(job: Job, console: Console) -> None:
    """Translate, and say what was odd."""
    import torch

    from rela._device import checked_device
    from rela.decoding.translator import Translator
    from rela.text.problems import ReadReport
    from rela.text.readers import read_lines

    if job.threads is not None:
        torch.set_num_threads(job.threads)
    interactive = job.source == "-" and standard_input().isatty()
    window = job.window or (1 if interactive else WINDOW)
    job = replace(job, window=window)
    with wrong_use():
        device = checked_device(job.device)
    translator = Translator.load(job.model, device, job.precision)
    check_direction(job.source, translator.languages)
    report = ReadReport()
    lines = read_lines(job.source, report=report, max_chars=longest_line(job.max_source))
    entries: list[dict[str, Any]] = []
    output = open_output(job.output, lambda: _recipe(job, translator), resume=_resume(job), silent=job.json_to == "-")
    with output as out, output_progress(job.output, console, "translating") as advance:
        for line, found in _translations(translator, lines, job, window, out.num_windows, advance):
            if not found.finished:
                out.odd.unfinished.append(line.line)
            if found.truncated or line.problem == "too-long":
                out.odd.truncated.append(line.line)
            out.write(_format(found, line.line, job))
            if line.line % window == 0:
                out.end_window()
            if job.json_to is not None:
                entries.append({"line": line.line, "source": line.text, **asdict(found)})
        out.finish()
    _say(job, report, out.odd)
    if job.json_to is not None:
        write_json({"model": str(job.model), "translations": entries}, job.json_to)


def _say(job: Job, report: ReadReport, odd: OddLines) -> None:
    for line in report.lines(but=("too-long",))[1:]:  # lines of too many characters have too many pieces too
        warn(line)
    if odd.truncated:
        cut = line_numbers(odd.truncated)
        warn(f"sources of more than {job.max_source} pieces were cut there: {cut}; see --max-source")
    if odd.unfinished:
        cut = line_numbers(odd.unfinished)
        warn(f"translations that did not end within the greatest length were cut off there: {cut}")


def _translations(
    translator: Translator,
    lines: Iterable[Line],
    job: Job,
    window: int,
    num_skipped: int,
    advance: Callable[[int], None],
) -> Iterator[Done]:
    """Window by window; the windows that a cut-off output has already are left out."""
    iterator = iter(lines)
    number = 0
    while chunk := list(islice(iterator, window)):
        first = number
        number += len(chunk)
        if first // window < num_skipped:
            continue
        found = translator.translate(
            [line.text for line in chunk],
            beam=job.beam,
            length_penalty=job.length_penalty,
            min_length=job.min_length,
            max_length=job.max_length,
            nbest=job.nbest,
            max_source=job.max_source,
            align=job.align,
            warn_truncated=False,  # with the numbers of all lines, at the end
            progress=advance,
        )
        yield from map(Done, chunk, found)
    if number < num_skipped * window:  # of a stream, nothing else tells
        raise typer.BadParameter(
            f"--resume: expected the input of the cut-off output, at least {num_skipped * window:,} lines, got "
            f"{number:,}; give the same input, or leave --resume out"
        )


def _format(found: Translation, number: int, job: Job) -> str:
    """The lines of one sentence. Line breaks inside a text become blanks, and so do tabs if there are columns."""
    columns = job.align or job.nbest > 1

    def one(translation: Translation) -> str:
        text = translation.text.replace("\n", " ")
        text = text.replace("\t", " ") if columns else text
        if not job.align:
            return text
        return f"{text}\t{' '.join(f'{i}-{j}' for i, j in translation.alignment or ())}"

    if job.nbest == 1:
        return f"{one(found)}\n"
    return "".join(f"{number}\t{t.score:.6f}\t{one(t)}\n" for t in (found, *found.alternatives))


def _resume(job: Job) -> bool | None:
    """True if it was asked for; None, if it can be, unless the JSON would miss what was translated before."""
    return True if job.resume else (None if job.json_to is None else False)


def _recipe(job: Job, translator: Translator) -> Recipe:
    """What must be the same to go on."""
    aligned_by = {"alignment": asdict(translator.alignment)} if job.align else {}
    return Recipe(
        options={name: getattr(job, name) for name in _OPTIONS},
        input=Origin(input_name(job.source), input_identity(job.source)),
        model=model_origin(job.model, **aligned_by),
    )
