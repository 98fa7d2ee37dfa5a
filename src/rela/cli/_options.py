"""Options that several commands have, each with its help in one place."""

from pathlib import Path
from typing import Annotated

import typer

ModelArgument = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A model directory, or the folder of a finished run.")
]
BaseOption = Annotated[int, typer.Option(min=0, max=1, help="The number of the first word in gold files.")]
FlipOption = Annotated[bool, typer.Option("--flip", help="Gold files say target-source.")]
TokenisedOption = Annotated[
    bool,
    typer.Option("--tokenised", help="Words are what stands between blanks; the model reads them joined as raw text."),
]
ReplaceOption = Annotated[
    list[str] | None,
    typer.Option("--replace", metavar="OLD=NEW", help="A word that the model shall read another way; repeatable."),
]
ResumeOption = Annotated[
    bool, typer.Option("--resume", help="Go on with an --output that was cut off; same input, same options.")
]
MOST_THREADS = 1024  # torch does not refuse what the system cannot give it: it crashes
ThreadsOption = Annotated[int | None, typer.Option(min=1, max=MOST_THREADS, help="CPU threads. Default: torch's.")]
DeviceOption = Annotated[str, typer.Option(help="cpu, cuda or cuda:1.")]
