"""`rela reproduce`: the paper's tables, figures and claims on a corpus of your choice."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rela.cli._output import JsonOption, console_for, write_json
from rela.cli._usage import told_when_stopped, wrong_use

if TYPE_CHECKING:
    from rich.console import Console

    from rela.experiments.reproduce.launching import Launch
    from rela.experiments.reproduce.run import Plan
    from rela.experiments.reproduce.scales import Study


def reproduce(
    corpus: Annotated[str, typer.Option(help="A corpus by name, such as grammar or multi30k-en-de.")] = "grammar",
    scale: Annotated[
        str, typer.Option(help="tiny: minutes; laptop: hours on two cores; paper: Transformer base, on GPUs.")
    ] = "tiny",
    only: Annotated[
        str | None,
        typer.Option(metavar="PARTS", help="Some tables and figures, by commas: table1,figure6. Default: all."),
    ] = None,
    systems: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Some systems, by commas: softmax,rela-g. Default: all.")
    ] = None,
    seeds: Annotated[str | None, typer.Option(metavar="NUMBERS", help="Some seeds, by commas. Default: all.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Results. Default: reproduction/CORPUS-SCALE.", show_default=False),
    ] = None,
    work: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Trainings. Default: runs/reproduction/CORPUS-SCALE.", show_default=False),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, max=256, help="Trainings side by side. Default: whatever is faster.", show_default=False),
    ] = None,
    show: Annotated[
        bool, typer.Option("--show", help="Train nothing: make tables and figures of what is there already.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan and every setting with its source; do nothing.")
    ] = False,
    json_to: JsonOption = None,
) -> None:
    """Reproduce the paper: train every system, translate, analyse, time, and answer each of its claims.

    Writes DIR/README.md, tables/, figures/ and data/. Stopped at any moment, the same command goes on; what is done is
    never done again.
    """
    with wrong_use():
        study, wanted = _chosen(corpus, scale, only, systems, seeds)
    from rela.experiments.reproduce.places import default_places

    places = default_places(study, out, work)
    console = console_for(json_to)
    if dry_run:
        from rela.experiments.reproduce.dry_run import describe_study

        description = describe_study(study, wanted, places)
        if json_to is not None:
            write_json(description.to_json(), json_to)
        for line in description.lines():
            console.print(line, markup=False, highlight=False, soft_wrap=True)
        return
    if show:
        from rela.experiments.reproduce.run import show_what_is_there

        with wrong_use():
            _tell(console, places.out, show_what_is_there(study, wanted, places), json_to)
        return
    with wrong_use():
        launch = _gpus() if scale == "paper" else None
    from rela.cli._reproducing import JobsProgress
    from rela.experiments.reproduce.run import make_plan
    from rela.experiments.reproduce.run import reproduce as run

    command = shlex.join(
        ["rela", "reproduce", "--corpus", corpus, "--scale", scale]
        + [
            part
            for name, value in (("--only", only), ("--systems", systems), ("--seeds", seeds))
            if value
            for part in (name, value)
        ]
    )
    with told_when_stopped(lambda: "what is done is kept, and the same command goes on from there"):
        plan = make_plan(study, wanted, places, console.print, workers=workers, timed=launch is None)
        _show_plan(console, study, plan)
        with JobsProgress(console, [job.name for job in plan.todo]) as progress:
            shown = run(study, wanted, places, plan, progress, console.print, command=command, launch=launch)
    _tell(console, places.out, shown, json_to)


def _chosen(corpus: str, scale: str, only: str | None, systems: str | None, seeds: str | None) -> "tuple[Study, Any]":
    from rela.experiments.reproduce.plan import Wanted
    from rela.experiments.reproduce.scales import SCALES, find_study

    if scale not in SCALES:
        raise ValueError(f"--scale: expected one of {', '.join(SCALES)}, got {scale!r}")
    numbers: tuple[int, ...] | None = None
    if seeds is not None:
        if not all(part.strip().isdigit() for part in seeds.split(",")):
            raise ValueError(f"--seeds: expected numbers such as 1,2,3; got {seeds!r}")
        numbers = tuple(int(part) for part in seeds.split(","))
    return find_study(corpus, scale), Wanted(parts=_names(only), systems=_names(systems), seeds=numbers)


def _names(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(part.strip() for part in text.split(","))


def _gpus() -> "Launch":
    import torch

    from rela.experiments.reproduce.launching import Launch

    if not torch.cuda.is_available():
        raise ValueError(
            "--scale paper: expected GPUs, got none; `--dry-run` prints all that it would do, and the scale laptop "
            "runs on two cores"
        )
    return Launch(torch.cuda.device_count(), "cuda")


def _show_plan(console: "Console", study: "Study", plan: "Plan") -> None:
    tasks = {job.task.corpus: [] for job in plan.wanted}
    for job in plan.wanted:
        tasks[job.task.corpus].append(f"{job.system.name}-{job.seed}")
    console.print(f"{study.name}: {len(plan.wanted)} trainings are wanted, {len(plan.todo)} are still to be done")
    for corpus, names in tasks.items():
        console.print(f"  {corpus}: {', '.join(names)}", highlight=False)
    if plan.pace is not None:
        threads = f"{plan.pace.threads} thread{'s' if plan.pace.threads > 1 else ''}"
        how = (
            f"{plan.pace.workers} side by side, {threads} each"
            if plan.pace.workers > 1
            else f"one after the other with {threads}"
        )
        console.print(
            f"about {plan.seconds / 60:,.0f} minutes: {how}, {plan.pace.tokens_per_second:,.0f} target tokens a second"
        )


def _tell(console: "Console", out: Path, shown: Any, json_to: str | None) -> None:
    from rich.table import Table

    if json_to is not None:
        write_json(
            {
                "schema": "rela-reproduce/1",
                "out": str(out),
                "claims": shown.claims,
                "tables": [table.name for table in shown.tables],
                "figures": sorted({path.stem for path in shown.figures}),
                "left_out": shown.left_out,
            },
            json_to,
        )
    if shown.claims:
        table = Table(title="The paper's claims")
        table.add_column("", justify="right")
        table.add_column("claim")
        table.add_column("here", no_wrap=True)
        for claim in shown.claims:
            table.add_row(str(claim["number"]), claim["claim"], claim["answer"])
        console.print(table)
    for what, why in shown.left_out.items():
        console.print(f"left out: {what}: {why}", markup=False)
    console.print(f"{out / 'README.md'}: {len(shown.tables)} tables, {len({p.stem for p in shown.figures})} figures")
