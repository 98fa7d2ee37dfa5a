"""`rela bench align`: what aligning costs beside a plain forward pass."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from rela._version import __version__
from rela.cli._benching import finish, points_for, stoppable
from rela.cli._options import ThreadsOption
from rela.cli._output import JsonOption, check_not_input, console_for


@stoppable
def align(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model directory, or the folder of a finished run.")],
    source: Annotated[Path, typer.Option("--src", metavar="FILE", help="Source sentences, one a line.")],
    target: Annotated[Path, typer.Option("--tgt", metavar="FILE", help="Their translations, as many lines.")],
    pairs: Annotated[int, typer.Option(min=1, help="So many of the first pairs.")] = 1000,
    rounds: Annotated[int, typer.Option(min=3, help="Times that both are timed, in turn.")] = 9,
    threads: ThreadsOption = None,
    json_to: JsonOption = None,
) -> None:
    """Time `rela align` beside a forced-decoding forward pass of the same pairs.

    Aligning counts from text to lines of links: splitting into words and pieces, and all that comes of the weights, by
    the layer and head that `rela align` would use. The forward pass has its batches ready, and works out the loss of
    every target piece, which aligning does not need.
    """
    check_not_input(json_to, "--json", {"--src": [source], "--tgt": [target]})
    import torch

    from rela.alignment.aligner import Aligner
    from rela.bench import machine
    from rela.bench.align import compare_aligning
    from rela.bench.results import Number, document, measure
    from rela.bench.texts import data_name, read_text_pairs
    from rela.bench.timing import Speed

    if threads is not None:
        torch.set_num_threads(threads)
    aligner = Aligner.load(model)
    texts = read_text_pairs(source, target, pairs)
    points = points_for(json_to, resume=False)
    found = points.get(
        "align",
        lambda: asdict(compare_aligning(aligner.model, aligner.tokenizers, texts, aligner.choice, rounds=rounds)),
    )
    speed = Speed(**found)
    ratio, low, high = 1 / speed.median, 1 / speed.high, 1 / speed.low
    signature = (
        f"align|data:{data_name(source)}|pairs:{len(texts)}|{aligner.signature()}|threads:{torch.get_num_threads()}"
        f"|rounds:{speed.rounds}|statistic:median|against:forced-forward|v{__version__}"
    )
    console = console_for(json_to)
    console.print(f"{ratio:.2f}x the time of a plain forward pass (quartiles {low:.2f} to {high:.2f})")
    console.print(signature, style="dim")
    number = Number(value=ratio, low=low, high=high, rounds=speed.rounds)
    name = aligner.model.config.attention.label
    entry = {"name": name, "measures": {"align.cost": measure(signature, None, number)}}
    finish(json_to, points, document("align", machine.describe(), [entry], pairs=len(texts)))
