"""`rela bench train`: training speed beside JoeyNMT."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rela.cli._output import JsonOption, console_for, write_json

if TYPE_CHECKING:
    from rela.bench.train import Round


def train(
    store: Annotated[Path, typer.Option(help="A token store with a joint vocabulary, train and dev.")],
    joeynmt: Annotated[
        Path, typer.Option(metavar="PYTHON", help="The Python of an environment that has joeynmt 2.3.0.")
    ],
    size: Annotated[str, typer.Option(help="Size of the model: base, small or tiny.")] = "small",
    attention: Annotated[str, typer.Option(help="Our attention; the peer's is softmax.")] = "rela-g",
    tokens: Annotated[int, typer.Option(min=1, help="Places in a batch, which is an update.")] = 4096,
    updates: Annotated[int, typer.Option(min=20, help="Updates of each run; the first few do not count.")] = 30,
    rounds: Annotated[int, typer.Option(min=5, help="Pairs of runs.")] = 5,
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads of each run. Default: torch's.")] = None,
    json_to: JsonOption = None,
) -> None:
    """Train with rela and with JoeyNMT in turn, and compare target tokens a second.

    Same pieces, vocabulary, model size, batch size and threads; each run in a process of its own. The speed of a run
    is the median of its log's intervals, the result the median of the ratios within a pair.
    """
    import torch

    from rela.bench.train import TrainSetting, measure

    console = console_for(json_to)
    setting = TrainSetting(
        store=store,
        size=size,
        attention=attention,
        tokens=tokens,
        updates=updates,
        threads=threads or torch.get_num_threads(),
    )

    def show(found: "Round") -> None:
        console.print(f"rela {found.ours:,.0f}, JoeyNMT {found.peer:,.0f} target tokens/s: {found.ratio:.2f}x")

    result = measure(setting, joeynmt, rounds=rounds, on_round=show)
    if json_to is not None:
        write_json(result, json_to)
    console.print(
        f"median of {rounds} pairs: {result['ratio']:.2f}x ({result['ratio_low']:.2f} to {result['ratio_high']:.2f}); "
        f"{result['peak_share']:.0%} of the matrix-multiply peak"
    )
    console.print(result["signature"], style="dim")
