"""`rela average`: the last checkpoints of a run as one model."""

from pathlib import Path
from typing import Annotated

import typer

from rela.cli._output import JsonOption, console_for, write_json


def average(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")],
    last: Annotated[int, typer.Option(min=1, help="How many checkpoints.")] = 5,
    out: Annotated[
        Path | None, typer.Option(help="The model directory to write. Default: RUN/model.", show_default=False)
    ] = None,
    json_to: JsonOption = None,
) -> None:
    """Average the weights of a run's last checkpoints."""
    from rela._warn import warn
    from rela.model.directory import MODEL_FOLDER
    from rela.training.averaging import average_run

    destination = run / MODEL_FOLDER if out is None else out
    steps = average_run(run, last, destination)
    if len(steps) < last:
        warn(f"the run has {len(steps)} checkpoints, not {last}; these were averaged")
    if json_to is not None:
        write_json({"model": str(destination), "steps": steps}, json_to)
    console_for(json_to).print(f"{destination}: the average of updates {', '.join(f'{step:,}' for step in steps)}")
