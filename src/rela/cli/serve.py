"""`rela serve`: translations and scores over HTTP, and a page."""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path
from typing import Annotated, Final

import typer

from rela._warn import warn
from rela.cli._options import MOST_THREADS
from rela.cli._output import JsonOption, console_for, write_json
from rela.cli._usage import told_when_stopped, wrong_use

_TOKEN: Final = "RELA_TOKEN"  # in the environment
_LOCAL: Final = ("localhost", "127.0.0.1", "::1")


def serve(
    models: Annotated[
        list[str],
        typer.Argument(metavar="MODEL...", help="Model directories, or folders of runs; NAME=MODEL gives one a name."),
    ],
    host: Annotated[str, typer.Option(help="Where to listen. 0.0.0.0 is reached by other machines.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8000,
    workers: Annotated[int, typer.Option(min=1, max=256, help="Processes, each with all models.")] = 1,
    threads: Annotated[
        int | None, typer.Option(min=1, max=MOST_THREADS, help="CPU threads of a worker. Default: torch's.")
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(envvar=_TOKEN, help="Clients must send it as `Authorization: Bearer TOKEN`."),
    ] = None,
    cors: Annotated[
        list[str] | None, typer.Option(metavar="ORIGIN", help="Pages of this origin may call the service; repeat it.")
    ] = None,
    hosts: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Also answer who calls the service by this name, as a proxy may; repeat it."),
    ] = None,
    queue: Annotated[int, typer.Option(min=1, help="Sentences that may wait; more are answered by 503.")] = 512,
    batch: Annotated[
        int, typer.Option(min=1, help="Sentences of several requests that are translated together, at most.")
    ] = 64,
    timeout: Annotated[
        float, typer.Option(min=0.01, help="Seconds that a request may take, and its answer to be read.")
    ] = 30.0,
    sentences: Annotated[int, typer.Option(min=1, help="Of a request, at most. No request is split.")] = 64,
    characters: Annotated[int, typer.Option(min=1, help="Of a sentence, at most.")] = 4000,
    body: Annotated[int, typer.Option(min=1, help="Bytes of a request, at most.")] = 1 << 20,
    beam: Annotated[int, typer.Option(min=1, help="The widest search that may be asked for.")] = 12,
    work: Annotated[
        int, typer.Option(min=1, help="Pieces of a request's sources times its beam, at most; of a batch too.")
    ] = 1 << 15,
    looks: Annotated[int, typer.Option(min=1, help="Weights between pieces that a request may look at, at most.")] = 1
    << 21,
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
    if token == "" or (token is None and os.environ.get(_TOKEN) == ""):
        raise typer.BadParameter(f"--token: expected a token, got an empty one; leave it out, and unset {_TOKEN}")
    if not host.strip():
        raise typer.BadParameter("--host: expected an address or a name, got none; 0.0.0.0 listens to all")
    with told_when_stopped(lambda: "the same command starts it again"):
        named = named_models(models)
        if token is None and not _is_local(host):
            warn(
                f"--host {host} without --token: whoever reaches this machine may use the service; set {_TOKEN}, or "
                "listen to 127.0.0.1"
            )
        with wrong_use():
            settings = Settings(
                models=named,
                token=token,
                origins=tuple(cors or ()),
                hosts=known_hosts(host, hosts or []),
                queue=queue,
                batch=batch,
                sentences=sentences,
                characters=characters,
                body=body,
                work=work,
                looks=looks,
                timeout=timeout,
                beam=beam,
                threads=threads,
                precision=precision,
            )

        def answering(address: str) -> None:
            if json_to is not None:
                write_json({"address": address, "models": list(named), "process": os.getpid()}, json_to)
            console_for(json_to, goes_on=True).print(f"{address}: {', '.join(named)}; Ctrl-C ends it")

        run_service(settings, host=host, port=port, workers=workers, answering=answering)


def known_hosts(host: str, others: list[str]) -> tuple[str, ...]:
    """By which names the service may be called. Who listens to this machine alone does not answer to others: a page of
    elsewhere could let a name of its own lead here (DNS rebinding)."""
    if not (_is_local(host) or others):
        return ()
    return tuple(dict.fromkeys((*_LOCAL, host, *others)))


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name
        return host == "localhost"


def named_models(models: list[str]) -> dict[str, str]:
    """Folders by name: that which is given, or that of the folder. What is a path as it stands is one."""
    from rela.model.directory import find_model_folder

    found: dict[str, str] = {}
    for text in models:
        name, equals, path = text.partition("=")
        if not equals or Path(text).exists():
            name, path = Path(text).resolve().name, text
            if name == "model":  # in the folder of a run
                name = Path(text).resolve().parent.name
        if not (name and path):
            raise typer.BadParameter(f"expected MODEL or NAME=MODEL, got {text!r}")
        if name in found:
            raise typer.BadParameter(f"expected models with different names, got {name!r} twice; say NAME={path}")
        find_model_folder(Path(path))  # said before anything is started
        found[name] = str(Path(path).resolve())
    return found
