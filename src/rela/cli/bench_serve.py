"""`rela bench serve`: the service under load."""

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rela._version import __version__
from rela.cli._benching import RoundsOption, finish, points_for, progress, stoppable
from rela.cli._options import MOST_THREADS
from rela.cli._output import JsonOption, check_not_input, console_for

if TYPE_CHECKING:
    from rich.console import Console

    from rela.bench.serving import Overload
    from rela.bench.timing import Speed

_ASKED_GAIN = 3.0


@stoppable
def serve(
    models: Annotated[
        list[str],
        typer.Argument(metavar="MODEL...", help="Model directories, or folders of runs; NAME=MODEL gives one a name."),
    ],
    source: Annotated[Path, typer.Option("--src", metavar="FILE", help="Sentences to translate, one a line.")],
    clients: Annotated[int, typer.Option(min=1, help="That ask at once, where batching is measured.")] = 16,
    beams: Annotated[
        list[int] | None, typer.Option("--beam", min=1, help="Of the search; repeat it to measure batching with more.")
    ] = None,
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
    come again; how long the former wait, and what the service's memory does. Each model by itself; the first beam is
    that of the load.
    """
    check_not_input(json_to, "--json", {"--src": [source]})
    from rela.bench import machine
    from rela.bench.results import Number, document, measure
    from rela.bench.serving import Overload, measure_gain, measure_overload
    from rela.bench.texts import data_name
    from rela.bench.timing import Speed
    from rela.cli.serve import named_models
    from rela.model.directory import find_model_folder, read_description

    texts = [line for line in source.read_text(encoding="utf-8").split("\n") if line.strip()]
    if not texts:
        raise ValueError(f"{source}: expected sentences, one a line, got none")
    console, points = console_for(json_to), points_for(json_to, resume=False)
    options, widths = ("--threads", str(threads)), list(dict.fromkeys(beams or [4]))

    def measured(name: str, path: Path) -> dict[str, Any]:
        """All of one model."""

        def one_by_one_and_together(beam: int) -> dict[str, Any]:
            asked = {"clients": clients, "rounds": rounds, "beam": beam}
            with progress(console, f"{name}, beam {beam}: one by one and together", rounds) as advance:
                return asdict(measure_gain(path, texts, **asked, options=options, on_round=advance))

        def too_much() -> dict[str, Any]:
            asked = {"requests": requests, "queue": queue, "batch": batch, "beam": widths[0]}
            with progress(console, f"{name}: too much load", requests) as advance:
                return asdict(measure_overload(path, texts, **asked, options=options, tell=lambda _: advance()))

        gains = {
            beam: Speed(**points.get(f"{name} gain {beam}", partial(one_by_one_and_together, beam))) for beam in widths
        }
        load = Overload(**points.get(f"{name} load", too_much))
        attention = read_description(find_model_folder(path))["model"].attention.label
        signature = (
            f"serve|data:{data_name(source)}|model:{name}|attention:{attention}|clients:{clients}|requests:{requests}"
            f"|queue:{queue}|batch:{batch}|threads:{threads}|beam:{{}}|v{__version__}"
        )
        _say(console, name, clients, requests, gains, load)
        console.print(signature.format(widths[0]), style="dim")
        numbers = {str(beam): Number.of_speed(gain, target=_ASKED_GAIN) for beam, gain in gains.items()}
        measures = {"serve.gain": measure(signature.format("by-axis"), "beam", numbers)}
        for what, value in _plain(load).items():
            measures[f"serve.{what}"] = measure(signature.format(widths[0]), None, Number(value=float(f"{value:.5g}")))
        return {"name": name, "attention": attention, "measures": measures}

    entries = [measured(name, Path(path)) for name, path in named_models(models).items()]
    finish(json_to, points, document("serve", machine.describe(), entries, requests=requests, clients=clients))


def _say(
    console: "Console", name: str, clients: int, requests: int, gains: "dict[int, Speed]", load: "Overload"
) -> None:
    from rela.bench.serving import OVERLOAD

    for beam, gain in gains.items():
        console.print(
            f"{name}, beam {beam}, {clients} clients: {gain.median:.2f} times as many answers computed together as one "
            f"by one (quartiles {gain.low:.2f} to {gain.high:.2f}), {1 / gain.seconds:,.0f} a second"
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


def _plain(load: "Overload") -> dict[str, float]:
    tenth, half, end = (part / 1e6 for part in load.memory)
    found = {name: value for name, value in asdict(load).items() if name != "memory"}
    return {**found, "memory_tenth_mb": tenth, "memory_half_mb": half, "memory_end_mb": end}
