"""`rela bench serve`: the service under load."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rela._version import __version__
from rela.cli._benching import RoundsOption, finish, points_for, progress, stoppable
from rela.cli._options import MOST_THREADS
from rela.cli._output import JsonOption, check_not_input, console_for

if TYPE_CHECKING:
    from rela.bench.serving import Overload

_ASKED_GAIN = 3.0
_PER_CLIENT = 20  # requests of a round


@stoppable
def serve(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model directory, or the folder of a finished run.")],
    source: Annotated[Path, typer.Option("--src", metavar="FILE", help="Sentences to translate, one a line.")],
    clients: Annotated[int, typer.Option(min=1, help="That ask at once, where batching is measured.")] = 16,
    rounds: RoundsOption = 7,
    requests: Annotated[int, typer.Option(min=10, help="In all, under too much load.")] = 20_000,
    queue: Annotated[int, typer.Option(min=1, help="Sentences that may wait, as in `rela serve`.")] = 512,
    batch: Annotated[int, typer.Option(min=1, help="Sentences translated together, as in `rela serve`.")] = 64,
    threads: Annotated[int, typer.Option(min=1, max=MOST_THREADS, help="CPU threads of the service.")] = 1,
    json_to: JsonOption = None,
) -> None:
    """Put a load on `rela serve`, over this machine's own network.

    First: how many times more requests of many clients are answered if they are computed together than one by one. Then
    four times as many requests as the service can keep up with: each gets a translation, or a 503 that says when to
    come again; how long the former wait, and what the service's memory does.
    """
    check_not_input(json_to, "--json", {"--src": [source]})
    from rela.bench import machine
    from rela.bench.results import Number, document, measure
    from rela.bench.serving import OVERLOAD, Overload, measure_gain, measure_overload
    from rela.bench.texts import data_name
    from rela.bench.timing import Speed
    from rela.model.directory import find_model_folder, read_description

    texts = [line for line in source.read_text(encoding="utf-8").split("\n") if line.strip()]
    if not texts:
        raise ValueError(f"{source}: expected sentences, one a line, got none")
    attention = read_description(find_model_folder(model))["model"].attention.label
    console, points = console_for(json_to), points_for(json_to, resume=False)
    options, per_round = ("--threads", str(threads)), _PER_CLIENT * clients

    def one_by_one_and_together() -> dict[str, Any]:
        with progress(console, "one by one and together", rounds) as advance:
            found = measure_gain(
                model, texts, clients=clients, requests=per_round, rounds=rounds, options=options, on_round=advance
            )
        return asdict(found)

    def too_much() -> dict[str, Any]:
        with progress(console, "too much load", requests) as advance:
            found = measure_overload(
                model, texts, requests=requests, queue=queue, batch=batch, options=options, tell=lambda _: advance()
            )
        return asdict(found)

    gain, load = Speed(**points.get("gain", one_by_one_and_together)), Overload(**points.get("load", too_much))
    console.print(
        f"{clients} clients: {gain.median:.2f} times as many answers computed together as one by one (quartiles "
        f"{gain.low:.2f} to {gain.high:.2f}), {1 / gain.seconds:,.0f} a second"
    )
    console.print(
        f"{requests:,} requests at {load.rate:,.0f} a second, {OVERLOAD:g} times what it can do: {load.done:,} were "
        f"translated, {load.refused:,} were told to come again, {load.lost:,} were lost"
    )
    console.print(
        f"seconds until a translation: half of them at most {load.median:.2f}, 99% {load.p99:.2f}, all "
        f"{load.longest:.2f} (a full queue takes {load.bound:.2f}); until a refusal: 99% at most {load.refusal_p99:.3f}"
    )
    tenth, half, end = (part / 1e6 for part in load.memory)
    console.print(
        f"memory of the service: {tenth:,.0f} MB after a tenth, {half:,.0f} MB half-way, {end:,.0f} MB at the end"
    )
    signature = (
        f"serve|data:{data_name(source)}|attention:{attention}|clients:{clients}|requests:{requests}|queue:{queue}"
        f"|batch:{batch}|threads:{threads}|beam:4|v{__version__}"
    )
    console.print(signature, style="dim")
    numbers = {
        "gain": Number.of_speed(gain, target=_ASKED_GAIN),
        **{name: Number(value=float(f"{value:.5g}")) for name, value in _plain(load).items()},
    }
    measures = {f"serve.{name}": measure(signature, None, number) for name, number in numbers.items()}
    entry = {"name": attention, "measures": measures}
    finish(json_to, points, document("serve", machine.describe(), [entry], requests=requests))


def _plain(load: "Overload") -> dict[str, float]:
    tenth, half, end = (part / 1e6 for part in load.memory)
    found = {name: value for name, value in asdict(load).items() if name != "memory"}
    return {**found, "memory_tenth_mb": tenth, "memory_half_mb": half, "memory_end_mb": end}
