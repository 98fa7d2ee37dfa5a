"""What `rela translate` does: read, translate window by window, write."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import typer

from rela._files import digest, ending_of
from rela._streams import STANDARD_INPUT, standard_input
from rela._warn import warn
from rela.cli._output import write_json
from rela.cli._partial import OddLines, Origin, PartialFile, PlainFile, Recipe, StandardOutput
from rela.cli._usage import told_when_stopped, wrong_use

if TYPE_CHECKING:
    from rich.console import Console

    from rela.decoding.translator import Translation, Translator
    from rela.text.problems import ReadReport
    from rela.text.readers import Line

_WINDOW: Final = 2048
_OPTIONS: Final = ("beam", "length_penalty", "nbest", "align", "window", "max_source")
_SHOWN: Final = 5  # line numbers in a warning
_CHARS_PER_PIECE: Final = 64
"""Characters read for each piece that is kept. A piece has half as many bytes at most, so what goes is cut anyway."""


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
    from rela.text.readers import MAX_CHARS, read_lines

    if job.threads is not None:
        torch.set_num_threads(job.threads)
    interactive = job.source == "-" and standard_input().isatty()
    window = job.window or (1 if interactive else _WINDOW)
    job = replace(job, window=window)
    with wrong_use():
        device = checked_device(job.device)
    translator = Translator.load(job.model, device)
    _check_direction(job.source, translator)
    report = ReadReport()
    lines = read_lines(job.source, report=report, max_chars=max(MAX_CHARS, _CHARS_PER_PIECE * job.max_source))
    entries: list[dict[str, Any]] = []
    with _open_output(job, translator) as out, _progress(job, console) as advance:
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


def _check_direction(source: str, translator: Translator) -> None:
    """Say so if a file's name has the language that comes out, not the one that goes in."""
    languages = translator.languages
    if languages is not None and languages.source != languages.target and ending_of(source) == languages.target:
        warn(
            f"the model translates from {languages.source} to {languages.target}, and {source} looks like "
            f"{languages.target}; was another file or another model meant?"
        )


def _say(job: Job, report: ReadReport, odd: OddLines) -> None:
    for line in report.lines(but=("too-long",))[1:]:  # lines of too many characters have too many pieces too
        warn(line)
    if odd.truncated:
        warn(f"sources of more than {job.max_source} pieces were cut there: {_lines(odd.truncated)}; see --max-source")
    if odd.unfinished:
        warn(f"translations that did not end within the greatest length were cut off there: {_lines(odd.unfinished)}")


def _lines(numbers: list[int]) -> str:
    more = ", ..." if len(numbers) > _SHOWN else ""
    return f"{len(numbers):,} ({'lines' if len(numbers) > 1 else 'line'} {', '.join(map(str, numbers[:_SHOWN]))}{more})"


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


@contextlib.contextmanager
def _open_output(job: Job, translator: Translator) -> Generator[StandardOutput | PlainFile | PartialFile]:
    if job.output is None:
        yield StandardOutput(silent=job.json_to == "-")
    elif job.output.exists() and not job.output.is_file():  # a device or a pipe, which a rename would replace
        if job.resume:
            raise typer.BadParameter(
                f"--resume: expected --output to be a file, got the device or pipe {str(job.output)!r}"
            )
        with PlainFile(job.output) as out:
            yield out
    else:
        with (
            PartialFile(job.output, _recipe(job, translator), resume=_resume(job)) as out,
            told_when_stopped(out.how_to_go_on),
        ):
            yield out


def _resume(job: Job) -> bool | None:
    """True if it was asked for; None, if it can be, unless the JSON would miss what was translated before."""
    return True if job.resume else (None if job.json_to is None else False)


def _recipe(job: Job, translator: Translator) -> Recipe:
    """What must be the same to go on. Whole files are hashed: to read them takes a small part of what translating does.

    The weights' file carries a fingerprint of the other files of its model, without which it does not load.
    """
    from rela.model.directory import WEIGHTS_FILE, find_model_folder

    folder = find_model_folder(job.model).resolve()
    identity: dict[str, Any] = {"sha256": digest(folder / WEIGHTS_FILE)}
    if job.align:
        identity["alignment"] = asdict(translator.alignment)
    options = {name: getattr(job, name) for name in _OPTIONS}
    return Recipe(options=options, input=_input(job.source), model=Origin(str(folder), identity))


def _input(source: str) -> Origin:
    if source == "-":
        return Origin(STANDARD_INPUT, None)
    path = Path(source).resolve()
    if path.exists() and not path.is_file() and not path.is_dir():
        return Origin(str(path), None)  # a pipe, which can be read once only
    return Origin(str(path), {"bytes": Path(source).stat().st_size, "sha256": digest(Path(source))})


@contextlib.contextmanager
def _progress(job: Job, console: Console) -> Generator[Callable[[int], None]]:
    """Shows progress if the translations go to a file; else nothing may stand between them."""
    if job.output is None:
        yield lambda _: None
        return
    from rela.cli._progress import CountProgress

    with CountProgress(console, "sentences") as progress:
        yield lambda count: progress.advance("translating", count)
