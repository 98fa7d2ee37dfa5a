"""`rela bench noise`: how well scores tell noise from good pairs."""

from pathlib import Path
from typing import Annotated, Any

import typer

from rela._warn import warn
from rela.cli._options import ThreadsOption
from rela.cli._output import JsonOption, check_not_input, console_for, write_json

_SHOWN = (
    "quality",
    "null_rate",
    "null_rate_matching",
    "cross_entropy",
    "coverage",
    "attention_penalty",
    "length_ratio",
)


def noise(
    models: Annotated[list[Path], typer.Argument(metavar="MODEL...", help="Model directories, or folders of runs.")],
    source: Annotated[Path, typer.Option("--src", metavar="FILE", help="Good pairs to spoil: source sentences.")],
    target: Annotated[Path, typer.Option("--tgt", metavar="FILE", help="Their translations, as many lines.")],
    learn_source: Annotated[
        Path | None,
        typer.Option("--learn-src", metavar="FILE", help="Other pairs, to learn quality from: source sentences."),
    ] = None,
    learn_target: Annotated[
        Path | None, typer.Option("--learn-tgt", metavar="FILE", help="Their translations.")
    ] = None,
    foreign: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The sentences of --src in a third language, for the wrong language."),
    ] = None,
    count: Annotated[int, typer.Option(min=60, help="So many pairs of each file, the first.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Decides what is spoiled, and how.")] = 1,
    over_time: Annotated[
        str | None,
        typer.Option(
            metavar="NOISE", help="Of runs: this kind of noise by the null rate of every head, at every checkpoint."
        ),
    ] = None,
    threads: ThreadsOption = None,
    json_to: JsonOption = None,
) -> None:
    """Spoil good pairs in ten ways, and see whether scores find them.

    For each kind of noise and each score: the area under the curve (how often a spoiled pair has a worse score than a
    good one), and the precision among the worst 30% of a mixture with 30% noise. Quality is learned from all kinds of
    noise but the one that it is measured on. attention_penalty is coverage deviation and absentmindedness, after
    Rikters and Fishel (2017); the JSON has all scores.
    """
    learned = (learn_source, learn_target)
    if over_time is None and None in learned:
        raise typer.BadParameter("expected --learn-src and --learn-tgt, other pairs to learn quality from")
    if over_time is not None and learned != (None, None):
        raise typer.BadParameter("--over-time: expected no --learn-src and --learn-tgt; heads need no quality")
    for ours, other in ((source, learn_source), (target, learn_target)):
        if other is not None and ours.exists() and other.exists() and ours.samefile(other):
            raise typer.BadParameter(
                f"--learn-src and --learn-tgt: expected other pairs than those that are tested on, got {str(other)!r} "
                "for both"
            )
    files = {"src": source, "tgt": target, "learn-src": learn_source, "learn-tgt": learn_target, "foreign": foreign}
    check_not_input(json_to, "--json", {f"--{name}": [path] for name, path in files.items() if path is not None})
    import torch

    from rela.bench.noise import NoiseTask
    from rela.bench.texts import data_name, read_numbered_pairs, read_sentences, read_text_pairs
    from rela.filtering.noises import NOISES

    if over_time is not None and over_time not in NOISES:
        raise typer.BadParameter(f"--over-time: expected one of {', '.join(NOISES)}, got {over_time!r}")
    if threads is not None:
        torch.set_num_threads(threads)
    numbered = read_numbered_pairs(source, target, count)
    pairs = [(pair.source, pair.target) for pair in numbered]
    task = NoiseTask(
        name=data_name(source),
        pairs=pairs,
        calibration=_others(read_text_pairs(learn_source, learn_target, count), pairs)
        if learn_source and learn_target
        else [],
        foreign=None if foreign is None else read_sentences(foreign, numbered),
        seed=seed,
    )
    console = console_for(json_to)
    result = _table(models, task, console) if over_time is None else _curves(models, task, over_time, console)
    if json_to is not None:
        write_json(result, json_to)


def _others(pairs: "list[tuple[str, str]]", tested: "list[tuple[str, str]]") -> "list[tuple[str, str]]":
    """Quality is not tested on what it was learned from."""
    known = set(tested)
    found = [pair for pair in pairs if pair not in known]
    if len(found) < len(pairs):
        warn(f"--learn-src and --learn-tgt: {len(pairs) - len(found):,} pairs are left out, which are tested on")
    return found


def _table(models: list[Path], task: Any, console: Any) -> dict[str, Any]:
    from rich.box import SIMPLE
    from rich.table import Table

    from rela.bench.noise import NOISE_RATE, measure_noise, signature
    from rela.cli._progress import CountProgress
    from rela.filtering.scorer import Scorer

    entries: list[dict[str, Any]] = []
    for folder in models:
        model = Scorer.load(folder).model
        with CountProgress(console, "pairs") as progress:
            found = measure_noise(folder, task, lambda n: progress.advance("scoring", n))
        label = model.config.attention.label
        table = Table(
            title=f"{folder} ({label}): area under the curve, and precision at a noise rate of {NOISE_RATE:.0%}",
            box=SIMPLE,
            padding=(0, 1, 0, 0),  # all columns on a terminal of 80 signs
        )
        table.add_column("noise", no_wrap=True)
        for name in _SHOWN:
            table.add_column(name.replace("_", " "), justify="right")
        for kind, scores in found.items():
            table.add_row(kind, *(f"{scores[name].auc:.3f} {scores[name].precision:.2f}" for name in _SHOWN))
        console.print(table)
        entries.append(
            {
                "model": str(folder),
                "attention": label,
                "parameters": model.num_parameters(),
                "signature": signature(task, label),
                "noises": {
                    kind: {
                        "count": next(iter(scores.values())).num_noisy,
                        "auc": {name: round(value.auc, 4) for name, value in scores.items()},
                        "precision": {name: round(value.precision, 4) for name, value in scores.items()},
                    }
                    for kind, scores in found.items()
                },
            }
        )
        console.print(entries[-1]["signature"], style="dim")
    return {"schema": "rela-noise/1", "noise_rate": NOISE_RATE, "models": entries}


def _curves(models: list[Path], task: Any, kind: str, console: Any) -> dict[str, Any]:
    from rela.bench.noise import over_time, signature
    from rela.filtering.scorer import Scorer

    entries: list[dict[str, Any]] = []
    for run in models:
        moments: list[dict[str, Any]] = []
        for moment in over_time(run, task, kind):
            moments.append(moment._asdict())
            console.print(
                f"{run}, update {moment.step:,}: null rate {moment.null_rate:.3f} (layers "
                f"{', '.join(f'{area:.3f}' for area in moment.layers)}; {moment.clean:.0%} of rows of good pairs, "
                f"{moment.noisy:.0%} of noise), coverage {moment.coverage:.3f}, "
                f"cross-entropy {moment.cross_entropy:.3f}"
            )
        label = Scorer.load(run).model.config.attention.label
        entries.append({"run": str(run), "attention": label, "signature": signature(task, label), "moments": moments})
    return {"schema": "rela-noise-over-time/1", "noise": kind, "runs": entries}
