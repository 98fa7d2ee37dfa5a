"""What `rela align` does: choose the weights if asked to, read, align window by window, write, evaluate."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from rela._version import __version__
from rela._warn import warn
from rela.alignment.errors import ErrorCounts
from rela.cli._foreign import know_models
from rela.cli._output import STDOUT, write_json
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
from rela.cli._partial import Origin, Recipe
from rela.cli._usage import wrong_use

if TYPE_CHECKING:
    from rich.console import Console

    from rela.alignment.aligner import Aligner, NumberedPair
    from rela.alignment.batched import Rule
    from rela.alignment.choosing import Best, Limits
    from rela.alignment.errors import Link
    from rela.alignment.gold import GoldReader
    from rela.alignment.symmetrise import Method
    from rela.text.problems import ReadReport


@dataclass(frozen=True, kw_only=True)
class Job:
    """The options of one call. Layers count from 1."""

    model: Path
    source: str
    target: str
    output: Path | None
    layer: int | None
    head: int | str | None
    shifted: bool | None
    rule: Rule | None
    best_on: str | None
    best_possible: str | None
    gold_sure: str | None
    gold_possible: str | None
    base: int
    flip: bool
    tokenised: bool
    replacements: dict[str, str]
    opposite: Path | None
    symmetrise: Method | None
    matrix: bool
    max_pieces: int
    resume: bool
    threads: int | None
    device: str
    json_to: str | None


def run_job(job: Job, console: Console) -> None:
    """Align, and say what was odd."""
    import torch

    from rela.text.problems import ReadReport

    if job.threads is not None:
        torch.set_num_threads(job.threads)
    forward, backward = _load(job)
    result: dict[str, Any] = {"schema": "rela-align/1", "model": str(job.model)}
    if job.best_on is not None:
        forward, backward, result["best_on"] = _choose(job, forward, backward)
    result["choice"] = asdict(forward.choice)
    gold = _gold(job, job.gold_sure, job.gold_possible) if job.gold_sure is not None else None
    report = ReadReport()
    counts = ErrorCounts()
    num_lines = num_links = 0
    output = open_output(
        job.output, lambda: _recipe(job, forward, backward), resume=_resume(job), silent=job.json_to == STDOUT
    )
    with output as out, output_progress(job.output, console, "aligning") as advance:
        lines = _read(job, report)
        for _ in islice(lines, out.num_windows * WINDOW):
            num_lines += 1
        while window := list(islice(lines, WINDOW)):
            for text, links, gold_counts in _aligned(job, forward, backward, window, gold, out.odd.truncated):
                out.write(text)
                num_links += len(links)
                counts = ErrorCounts.sum([counts, gold_counts])
            num_lines += len(window)
            if len(window) == WINDOW:
                out.end_window()
            advance(len(window))
        if gold is not None:
            gold.check_end(num_lines)
        out.finish()
    _say(job, forward, report, out.odd.truncated)
    result |= {"lines": num_lines} if job.matrix else {"lines": num_lines, "links": num_links}
    if gold is not None:
        result["evaluation"] = _evaluation(job, counts, gold, forward, backward)
        _tell(_shown(result["evaluation"]))
    if job.json_to is not None:
        write_json(result, job.json_to)


def _load(job: Job) -> tuple[Aligner, Aligner | None]:
    from rela._device import checked_device
    from rela.alignment.aligner import Aligner
    from rela.text.worded import Wording

    know_models([job.model, job.opposite])
    with wrong_use():
        device = str(checked_device(job.device))
    wording = Wording(tokenised=job.tokenised, replacements=job.replacements)
    forward = Aligner.load(job.model, device, wording=wording, max_pieces=job.max_pieces)
    check_direction(job.source, forward.languages)
    _check_choice(job, forward)
    if job.best_on is None:
        first = _limits(job).choices(forward.model)[0]
        wanted = {"layer": job.layer, "head": job.head, "shifted": job.shifted, "rule": job.rule}
        given = {name: getattr(first, name) for name, value in wanted.items() if value is not None}
        forward = replace(forward, choice=replace(forward.choice, **given))
    if job.opposite is None:
        return forward, None
    backward = Aligner.load(job.opposite, device, wording=wording, max_pieces=job.max_pieces)
    if backward.languages != forward.languages[::-1]:
        source, target = forward.languages
        raise typer.BadParameter(
            f"--opposite: expected a model from {target} to {source}, got one from {backward.languages.source} to "
            f"{backward.languages.target}"
        )
    most = min(forward.max_pieces, backward.max_pieces)  # what one cannot read has no links of the other either
    return replace(forward, max_pieces=most), replace(backward, max_pieces=most)


def _check_choice(job: Job, aligner: Aligner) -> None:
    layers, heads = aligner.model.config.decoder_layers, aligner.model.config.num_heads
    if job.layer is not None and job.layer > layers:
        raise typer.BadParameter(f"--layer: expected 1 to {layers}, got {job.layer}")
    if isinstance(job.head, int) and job.head >= heads:
        raise typer.BadParameter(f"--head: expected 0 to {heads - 1}, or mean, got {job.head}")


def _limits(job: Job) -> Limits:
    from rela.alignment.choosing import Limits

    layer = None if job.layer is None else job.layer - 1
    return Limits(layer=layer, head=job.head, shifted=job.shifted, rule=job.rule)


def _choose(job: Job, forward: Aligner, backward: Aligner | None) -> tuple[Aligner, Aligner | None, dict[str, Any]]:
    """The best weights of each model by gold links, remembered beside it; those of the opposite one without limits."""
    from rela.alignment.choosing import Limits
    from rela.text.problems import ReadReport

    assert job.best_on is not None
    gold = _gold(job, job.best_on, job.best_possible)
    best = forward.best_on(_read(job, ReadReport()), gold, _limits(job))
    forward = _remembered(forward, best, gold)
    found = {**_best_found(forward, best, gold), "gold": gold.to_json()}
    if backward is not None:
        turned = _gold(job, job.best_on, job.best_possible, turned=True)
        pairs = ((line, target, source) for line, source, target in _read(job, ReadReport()))
        other = backward.best_on(pairs, turned, Limits())
        backward = _remembered(backward, other, turned)
        found["opposite"] = _best_found(backward, other, turned)
    return forward, backward, found


def _best_found(aligner: Aligner, best: Best, gold: GoldReader) -> dict[str, Any]:
    signature = _signature(gold, aligner, _chosen_on(gold.sure))
    return {**_scores(best.counts), "choice": asdict(best.choice), "signature": signature}


def _chosen_on(path: str) -> str:
    return f"chosen-on:{Path(path).name}"


def _remembered(aligner: Aligner, best: Best, gold: GoldReader) -> Aligner:
    chosen = replace(aligner, choice=best.choice)
    chosen.remember()
    _tell(
        f"best on {gold.name}: {best.choice}, AER {best.counts.aer:.2%}; remembered in {aligner.folder}\n"
        f"{_signature(gold, chosen, _chosen_on(gold.sure))}"
    )
    return chosen


def _gold(job: Job, sure: str, possible: str | None, *, turned: bool = False) -> GoldReader:
    from rela.alignment.gold import read_gold

    return read_gold(sure, possible, base=job.base, flipped=job.flip != turned)


def _read(job: Job, report: ReadReport) -> Iterator[NumberedPair]:
    """Lines of both files, which must have equally many."""
    from rela.text.readers import read_lines

    most = longest_line(job.max_pieces)
    texts = [read_lines(path, report=report, max_chars=most) for path in (job.source, job.target)]
    for number, (source, target) in enumerate(zip_longest(*texts), start=1):
        if source is None or target is None:
            longer, shorter = (job.target, job.source) if source is None else (job.source, job.target)
            raise ValueError(
                f"{longer}: expected as many lines as in {shorter}, which has {number - 1:,}, got more; line n of one "
                "must belong to line n of the other"
            )
        yield number, source.text, target.text


def _aligned(
    job: Job,
    forward: Aligner,
    backward: Aligner | None,
    window: list[NumberedPair],
    gold: GoldReader | None,
    cut: list[int],
) -> Iterator[tuple[str, list[Link], ErrorCounts]]:
    """For each pair the line that is written, the links, and the counts of their errors, if there is gold."""
    from rela.alignment.aligner import align_both_ways
    from rela.alignment.gold import check_links

    if job.matrix:
        for (line, *_), found in zip(window, forward.weights(window, cut.append), strict=True):
            yield _matrix_line(line, *found), [], ErrorCounts()
        return
    if backward is None or job.symmetrise is None:
        alignments = forward.links(window, cut.append)
    else:
        alignments = align_both_ways(forward, backward, window, job.symmetrise, cut.append)
    for (line, *_), found in zip(window, alignments, strict=True):
        counts = ErrorCounts()
        if gold is not None:
            known = next(gold, None)
            if known is None:
                raise ValueError(f"{gold.sure}: expected links for each line of the text, got none for line {line}")
            check_links(known, len(found.source_words), len(found.target_words), f"{gold.sure}, line {line}")
            counts = ErrorCounts.of(found.links, known)
        yield " ".join(f"{i}-{j}" for i, j in found.links) + "\n", found.links, counts


def _matrix_line(line: int, source: list[str], target: list[str], weights: Any) -> str:
    rounded = weights.astype(float).round(6).tolist()
    data = {"line": line, "source": source, "target": target, "weights": rounded}
    return json.dumps(data, ensure_ascii=False) + "\n"


def _say(job: Job, forward: Aligner, report: ReadReport, cut: list[int]) -> None:
    for line in report.lines()[1:]:
        warn(line)
    if cut:
        why = "see --max-pieces" if forward.max_pieces == job.max_pieces else "the model has no positions for more"
        warn(
            f"of sides with more than {forward.max_pieces:,} pieces, the words behind them have no links: "
            f"{line_numbers(cut)}; {why}"
        )


def _evaluation(
    job: Job, counts: ErrorCounts, gold: GoldReader, forward: Aligner, backward: Aligner | None
) -> dict[str, Any]:
    more: list[str] = []
    if backward is not None:
        other = backward.signature().replace("|", ",")
        more += [f"symmetrise:{job.symmetrise}", f"opposite:{other}"]
    if job.best_on is not None:
        more.append(_chosen_on(job.best_on))
    signature = _signature(gold, forward, *more)
    return {**_scores(counts), **counts._asdict(), "gold": gold.to_json(), "signature": signature}


def _signature(gold: GoldReader, aligner: Aligner, *more: str) -> str:
    """All that decides what an error rate is."""
    parts = (
        "AER",
        gold.signature(),
        aligner.signature(),
        *more,
        "level:word",
        aligner.wording.signature(),
    )
    return "|".join((*parts, f"v{__version__}"))


def _scores(counts: ErrorCounts) -> dict[str, float | None]:
    """None where there is nothing to divide by: JSON has no form for NaN."""
    rates = {name: getattr(counts, name) for name in ("aer", "precision", "recall", "f1")}
    return {name: None if rate != rate else rate for name, rate in rates.items()}


def _shown(evaluation: dict[str, Any]) -> str:
    names = {"aer": "AER", "precision": "precision", "recall": "recall", "f1": "F1"}
    rates = (f"{shown} {evaluation[name]:.2%}" for name, shown in names.items() if evaluation[name] is not None)
    return f"{', '.join(rates)}\n{evaluation['signature']}"


def _tell(text: str) -> None:
    """For people; standard output has the links."""
    sys.stderr.write(f"{text}\n")


def _resume(job: Job) -> bool | None:
    """True if it was asked for; None, if it can be; never if counts would miss what was aligned before."""
    return True if job.resume else (None if job.json_to is None and job.gold_sure is None else False)


def _recipe(job: Job, forward: Aligner, backward: Aligner | None) -> Recipe:
    """What must be the same to go on."""
    options = {
        "window": WINDOW,
        "nbest": 1,
        "tokenised": job.tokenised,
        "replace": job.replacements,
        "matrix": job.matrix,
        "max_pieces": job.max_pieces,
        "symmetrise": job.symmetrise,
    }
    identities = [input_identity(path) for path in (job.source, job.target)]
    known = None if None in identities else {"source": identities[0], "target": identities[1]}
    texts = Origin(f"{input_name(job.source)} and {input_name(job.target)}", known)
    other = (
        {} if backward is None else {"opposite": model_origin(backward.folder, choice=asdict(backward.choice)).identity}
    )
    return Recipe(options=options, input=texts, model=model_origin(job.model, choice=asdict(forward.choice), **other))
