"""`rela train`: a configuration to a trained model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rela.cli._options import MOST_THREADS, DeviceOption
from rela.cli._output import JsonOption, console_for, write_json
from rela.cli._usage import wrong_use

if TYPE_CHECKING:
    from rela.training.reporter import Reporter
    from rela.training.trainer import Trainer
    from rela.training.world import World


def train(
    config: Annotated[
        Path | None, typer.Argument(metavar="CONFIG", help="A YAML file; configs/ has some that explain every line.")
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option(  # torchrun takes --run for a short form of its own --run-path, wherever it stands
            "--run",
            "--run-dir",
            help="The run's folder; --run-dir behind torchrun. Default: runs/ and the name of CONFIG.",
            show_default=False,
        ),
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="A.B=C", help="Change a setting; repeat for more.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run from its last checkpoint.")] = False,
    device: DeviceOption = "cpu",
    threads: Annotated[
        int | None, typer.Option(min=1, max=MOST_THREADS, help="CPU threads of a process. Default: torch's.")
    ] = None,
    json_to: JsonOption = None,
) -> None:
    """Train a Transformer, or go on with one.

    The run's folder gets config.yaml, log.jsonl, status.json, checkpoints/ and at the end model/, the average of the
    last checkpoints. Ctrl-C saves a checkpoint first. Killed at any moment, `rela train --resume` goes on to the same
    weights. On more processes or machines: torchrun --nproc-per-node 2 -m rela train CONFIG.
    """
    if config is None and run is None:
        raise typer.BadParameter("expected CONFIG, or --resume and --run DIR")
    if config is None and not resume:
        raise typer.BadParameter("expected CONFIG for a new run, or --resume to go on with the one in --run")
    assert config is not None or run is not None
    folder = run if run is not None else Path("runs") / (config or Path()).stem
    import torch

    from rela.cli._progress import TrainingProgress
    from rela.training.config import OverrideError
    from rela.training.signals import InterruptedRunError
    from rela.training.world import World

    if threads is not None:
        torch.set_num_threads(threads)
    with wrong_use():
        world = World.join(device)
    console = console_for(json_to, goes_on=True)
    console.quiet = console.quiet or not world.is_first
    try:
        with TrainingProgress(console) as progress:
            trainer = _trainer(config, folder, settings or [], resume, world, progress)
            result = trainer.train()
            if world.is_first:
                _remember_quality(trainer)
    except OverrideError as error:
        raise typer.BadParameter(str(error)) from None
    except (InterruptedRunError, KeyboardInterrupt) as error:
        if world.is_first and folder.is_dir():
            option = "--run" if world.size == 1 else "--run-dir"
            typer.echo(f"stopped; go on with: rela train --resume {option} {folder}", err=True)
        if isinstance(error, InterruptedRunError):
            raise typer.Exit(128 + error.signal_number) from None  # as shells have it
        raise
    finally:
        world.leave()
    if world.is_first:
        if json_to is not None:
            write_json(result, json_to)
        _show(console, result)


def _remember_quality(trainer: "Trainer") -> None:
    """What a good pair is, for `rela score`."""
    from rela.filtering.remembering import PAIRS, remember_quality
    from rela.model.directory import MODEL_FOLDER

    remember_quality(trainer.run_folder / MODEL_FOLDER, trainer.validator.texts(PAIRS))


def _trainer(
    config: Path | None, folder: Path, settings: list[str], resume: bool, world: "World", reporter: "Reporter"
) -> "Trainer":
    from rela.training import runs
    from rela.training.config import load_config

    if resume and (config is None or runs.has_run(folder, world)):
        wanted = None if config is None else load_config(config, settings)
        return runs.resume(folder, world, reporter, wanted=wanted, overrides=settings if config is None else [])
    assert config is not None
    return runs.start(load_config(config, settings), folder, world, reporter)


def _show(console: Any, result: dict[str, Any]) -> None:
    best = result["best"]
    bleu = "" if best is None or best["bleu"] is None else f", BLEU {best['bleu']:.2f} (greedy)"
    found = "" if best is None else f"; best validation loss {best['loss']:.4f}{bleu} at update {best['step']:,}"
    console.print(f"done: {result['step']:,} updates, {result['tokens']:,} target tokens{found}")
    console.print(f"the model: {result['model']}; try: rela translate --model {result['model']}")
