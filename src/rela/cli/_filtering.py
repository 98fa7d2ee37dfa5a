"""What `rela filter` does: train a scorer if asked to, score, split, write the summary and the report."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from rela._device import checked_device
from rela._files import ending_of, write_text
from rela._lock import FolderLock
from rela.cli._output import check_not_input, write_json
from rela.cli._pairs_input import MAX_PIECES, is_stream, pair_source, two_keys
from rela.cli._scoring import check_reading, files_read, progress_console, row_progress, score_options, tell_speed
from rela.cli._usage import refuse_unused, told_when_stopped, wrong_use
from rela.cli.filter_corpus import ATTENTION, BUDGET, SEED

if TYPE_CHECKING:
    from rich.console import Console

    from rela.filtering.splitting import Rule, Split

_THRESHOLD: Final = 0.5
_RULE_OPTIONS: Final = ("--keep", "--threshold", "--top", "--by")
_SUMMARY: Final = "summary.json"
_REPORT: Final = "report.html"
_SEEDS: Final = 2**63
_LONGEST: Final = 525_600  # minutes: a year
_FORWARD: Final = 3.0  # scoring is about so many times as fast as training


@dataclass(frozen=True, kw_only=True)
class FilterJob:
    """The options of one call."""

    pairs: str | None
    src: str | None
    tgt: str | None
    model: Path | None
    train: bool
    out: Path | None
    keep: float | None
    threshold: float | None
    top: int | None
    by: str
    budget: float
    tokens: int | None
    attention: str
    languages: str | None
    seed: int
    threads: int | None
    form: str | None
    columns: str | None
    keys: str | None
    header: bool
    calibrate_on: str | None
    workers: int | None
    max_pieces: int
    device: str
    json_to: str | None
    spans: bool = False


def run_filter(context: typer.Context, job: FilterJob) -> None:
    """Filter, and say what was found."""
    from rela.filtering.corpus import score_corpus
    from rela.filtering.splitting import split_corpus
    from rela.filtering.summary import summarise
    from rela.report.sieve import write_sieve_page

    rule = _rule(job)
    _check(context, job)
    first = job.pairs or job.src
    assert first is not None
    out = job.out or Path(f"{first}.sieve")
    if out.exists() and not out.is_dir():
        raise typer.BadParameter(f"--out: expected a folder, got the file {str(out)!r}; name another")
    _check_outputs(job, out)
    console = progress_console()
    with going_on():
        out.mkdir(parents=True, exist_ok=True)
        if job.train:
            lock = FolderLock(
                out, f"{out}: another `rela filter --train` is at work here; wait for it, or stop it first"
            )
            job = replace(job, model=_train(job, out, console))
            lock.release()
        options = score_options(job)
        with row_progress(console) as progress:
            scored = score_corpus(options, out / "scores", progress)
            try:
                for name in (_SUMMARY, _REPORT):  # of another rule, they would not be those of the new files
                    (out / name).unlink(missing_ok=True)
                split = split_corpus(scored, rule, out)
                summary = summarise(scored, rule, split, _command(job))
            finally:
                scored.kept.close()
        write_text(out / _SUMMARY, json.dumps(summary, ensure_ascii=False, allow_nan=False) + "\n")
        page = write_sieve_page(summary, out / _REPORT)
    tell_speed(console, scored)
    _tell(console, rule, split, summary["input"]["share"], page)
    if job.json_to is not None:
        write_json({key: value for key, value in summary.items() if key not in ("examples", "quantiles")}, job.json_to)


@contextmanager
def going_on() -> Generator[None]:
    """Ctrl-C, in a training too, is answered by one line."""
    from rela.training.signals import InterruptedRunError

    try:
        with told_when_stopped(lambda: "the same command goes on from here", InterruptedRunError):
            yield
    except InterruptedRunError as error:
        raise typer.Exit(128 + error.signal_number) from None  # as shells have it


def _check_outputs(job: FilterJob, out: Path) -> None:
    """Nothing that is read may be written."""
    from rela.filtering.splitting import files_of
    from rela.model.directory import find_model_folder

    languages = _languages(job) if job.train else None
    source = pair_source(job.pairs, job.src, job.tgt, job.form, job.columns, job.keys, languages)
    check_reading(job, source)
    written = [*(path for paths in files_of(source, out).values() for path in paths), out / _SUMMARY, out / _REPORT]
    read = files_read(source.paths, job.calibrate_on, job.model)
    if job.model is not None and out.resolve() == find_model_folder(job.model).resolve():
        raise typer.BadParameter(f"--out: expected a folder for the results, got the model's own {str(out)!r}")
    for path in written:
        check_not_input(path, "--out", read)
        if Path(path).is_dir():
            raise typer.BadParameter(f"--out: expected to write {str(path)!r}, got a folder of that name; move it")
    if job.json_to is not None:
        check_not_input(job.json_to, "--json", {**read, "an output": written})


def _rule(job: FilterJob) -> Rule:
    from rela.filtering.splitting import Rule

    threshold = job.threshold
    if job.keep is None and job.top is None and threshold is None:
        if job.by != "quality":
            raise typer.BadParameter("--by: expected --keep, --threshold or --top as well")
        threshold = _THRESHOLD
    if threshold is not None and not math.isfinite(threshold):
        raise typer.BadParameter(f"--threshold: expected a number, got {threshold}")
    with wrong_use():
        return Rule(by=job.by, keep=job.keep, threshold=threshold, top=job.top)


def _check(context: typer.Context, job: FilterJob) -> None:
    if (job.model is None) != job.train:
        raise typer.BadParameter("expected --model MODEL, or --train to make one of the pairs, and not both")
    inputs = [path for path in (job.pairs, job.src, job.tgt) if path is not None]
    if not inputs or any(map(is_stream, inputs)):
        raise typer.BadParameter("expected a file, which is read more than once, got a pipe; write it to a file first")
    with wrong_use():
        checked_device(job.device)
    if job.train:
        from rela.attention.spec import resolve

        with wrong_use("--attention"):
            resolve(job.attention)
        if job.seed >= _SEEDS:
            raise typer.BadParameter(f"--seed: expected less than {_SEEDS:,}, got {job.seed}")
    if not job.train:
        refuse_unused(context, "--model", "budget", "tokens", "attention", "languages", "seed", "threads")
    elif job.tokens is not None:
        refuse_unused(context, "--tokens", "budget")
    elif not job.budget <= _LONGEST:
        raise typer.BadParameter(f"--budget: expected minutes, at most {_LONGEST:,}, got {job.budget:g}")


def _languages(job: FilterJob) -> tuple[str, str]:
    if job.languages is not None:
        names = job.languages.split(",")
        if len(names) != 2 or not all(names) or names[0] == names[1]:
            raise typer.BadParameter(f"--languages: expected two, such as en,de, got {job.languages!r}")
        return names[0], names[1]
    if job.src is not None and job.tgt is not None:
        named = ending_of(job.src), ending_of(job.tgt)
        if all(named) and named[0] != named[1]:
            return named
    if job.keys is not None:
        first, second = (key.rpartition(".")[2] for key in two_keys(job.keys))
        if first != second:
            return first, second
    return "source", "target"


def _train(job: FilterJob, out: Path, console: Console) -> Path:
    import torch

    from rela.cli._progress import TrainingProgress
    from rela.experiments.sieve import claim_training, plan_training, prepare_crawl, scorer_config, train_scorer
    from rela.filtering.corpus import source_recipe
    from rela.text.store import Store
    from rela.training.runs import CONFIG_FILE

    languages = _languages(job)
    source = pair_source(job.pairs, job.src, job.tgt, job.form, job.columns, job.keys, languages)
    claim_training(
        out,
        {
            **source_recipe(source, header=job.header),
            "languages": list(languages),
            "attention": job.attention,
            "seed": job.seed,
            "budget": {"minutes": job.budget} if job.tokens is None else {"tokens": job.tokens},
        },
    )
    store = prepare_crawl(source, languages, out, console.print, header=job.header)
    if job.threads is not None:
        torch.set_num_threads(job.threads)
    run = out / "training"
    tokens = job.tokens
    if not (run / CONFIG_FILE).exists():
        plan = plan_training(store, job.budget, job.attention, job.seed)
        tokens = tokens or plan.tokens
        pieces = sum(len(Store.open(store).split(split).target.tokens) for split in ("train", "dev"))
        minutes = tokens / plan.tokens_per_second / 60, pieces / plan.tokens_per_second / _FORWARD / 60
        console.print(
            f"plan: training on {tokens:,} target tokens, about {minutes[0]:.0f} min; then scoring, about "
            f"{max(1.0, minutes[1]):.0f} min"
        )
    config = scorer_config(store, tokens or 1, job.attention, job.seed)
    with TrainingProgress(console) as progress:
        return train_scorer(config, run, progress)


def _command(job: FilterJob) -> str:
    """The command without its rule, for the page to show with another."""
    parts = ["rela", "filter", *([job.pairs] if job.pairs is not None else [])]
    named: dict[str, Any] = {
        "--src": job.src,
        "--tgt": job.tgt,
        "--out": job.out,
        "--format": job.form,
        "--columns": job.columns,
        "--keys": job.keys,
        "--calibrate-on": job.calibrate_on,
        "--max-pieces": None if job.max_pieces == MAX_PIECES else job.max_pieces,
        "--device": None if job.device == "cpu" else job.device,
    }
    if job.train:
        parts.append("--train")
        named |= {
            "--budget": None if job.tokens is not None or job.budget == BUDGET else f"{job.budget:g}",
            "--tokens": job.tokens,
            "--languages": job.languages,
            "--attention": None if job.attention == ATTENTION else job.attention,
            "--seed": None if job.seed == SEED else job.seed,
            "--threads": job.threads,
        }
    else:
        named["--model"] = job.model
    for name, value in named.items():
        if value is not None:
            parts += [name, str(value)]
    return shlex.join([*parts, *(["--header"] if job.header else [])])


def _tell(console: Console, rule: Rule, split: Split, share: float | None, page: Path) -> None:
    from rela.filtering.writing import shown

    console.print(
        f"input {split.num_rows:,} = kept {split.num_kept:,} + rejected {split.num_rejected:,} + malformed "
        f"{split.num_malformed:,}"
    )
    limit = "" if split.limit is None else f"; the last one kept has {rule.by} {shown(split.limit)}"
    if share is not None:
        console.print(f"{share:.0%} of the scored pairs have a quality of 0.5 or more{limit}")
    for kind, paths in split.files.items():
        console.print(f"{kind}: {' '.join(paths)}")
    console.print(f"look at the scores, and choose another threshold: open {page} in a browser")
