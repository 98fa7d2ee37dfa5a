"""`rela serve`: translations and scores over HTTP, and a page."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from rela.cli._options import MOST_THREADS
from rela.cli._output import JsonOption, console_for, write_json


def serve(
    models: Annotated[
        list[str],
        typer.Argument(metavar="MODEL...", help="Model directories, or folders of runs; NAME=MODEL gives one a name."),
    ],
    host: Annotated[str, typer.Option(help="Where to listen. Other machines reach 0.0.0.0 only.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8000,
    workers: Annotated[int, typer.Option(min=1, max=256, help="Processes, each with all models.")] = 1,
    threads: Annotated[
        int | None, typer.Option(min=1, max=MOST_THREADS, help="CPU threads of a worker. Default: torch's.")
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(envvar="RELA_TOKEN", help="Clients must send it as `Authorization: Bearer TOKEN`."),
    ] = None,
    cors: Annotated[
        list[str] | None, typer.Option(metavar="ORIGIN", help="Pages of this origin may call the service; repeat it.")
    ] = None,
    queue: Annotated[int, typer.Option(min=1, help="Sentences that may wait; more are answered by 503.")] = 512,
    batch: Annotated[int, typer.Option(min=1, help="Sentences that are translated together, at most.")] = 64,
    timeout: Annotated[float, typer.Option(min=0.01, help="Seconds that a request may take.")] = 30.0,
    precision: Annotated[str, typer.Option(help="fp32, or int8: faster, and rounded.")] = "fp32",
    json_to: JsonOption = None,
) -> None:
    """Serve models over HTTP: POST /translate and /score, GET /models, /healthz and /metrics, /docs, and a page at /.

    Requests of several clients are computed together. What was accepted is finished before the service ends (Ctrl-C,
    SIGTERM). It listens to this machine alone unless --host says otherwise.
    """
    from rela.serving.running import run_service
    from rela.serving.settings import Settings

    if precision not in ("fp32", "int8"):
        raise typer.BadParameter(f"--precision: expected fp32 or int8, got {precision!r}")
    named = _named(models)

    def listening(address: str) -> None:
        if json_to is not None:
            write_json({"address": address, "models": list(named), "process": os.getpid()}, json_to)
        console_for(json_to, goes_on=True).print(f"{address}: {', '.join(named)}; Ctrl-C ends it")

    run_service(
        Settings(
            models=named,
            token=token,
            origins=tuple(cors or ()),
            queue=queue,
            batch=batch,
            timeout=timeout,
            threads=threads,
            precision=precision,
        ),
        host=host,
        port=port,
        workers=workers,
        listening=listening,
    )


def _named(models: list[str]) -> dict[str, str]:
    """Folders by name: that which is given, or that of the folder."""
    from rela.model.directory import find_model_folder

    found: dict[str, str] = {}
    for text in models:
        name, equals, path = text.partition("=")
        if not equals:
            name, path = Path(text).resolve().name, text
            if name == "model":  # in the folder of a run
                name = Path(text).resolve().parent.name
        if not name or name in found:
            raise typer.BadParameter(f"expected models with different names, got {name!r} twice; say NAME={path}")
        find_model_folder(Path(path))  # said before anything is started
        found[name] = str(Path(path).resolve())
    return found
