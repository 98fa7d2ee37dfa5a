"""A service that runs until it is told to stop."""

from __future__ import annotations

import importlib.util
import math
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType

from rela.serving.settings import VARIABLE, Settings

_PACKAGES = ("fastapi", "uvicorn")
_EXTRA = 5  # seconds beyond the time limit of a request, for answers that are on their way


def _finished(number: int, frame: FrameType | None) -> None:
    """uvicorn answers signals itself, and raises them once more when all that was accepted is finished."""


def run_service(settings: Settings, *, host: str, port: int, workers: int, listening: Callable[[str], object]) -> None:
    """Listen, answer, and end when SIGINT or SIGTERM comes: what was accepted is finished first, in its time.

    ``listening`` is told the address.
    """
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise ModuleNotFoundError(
            f'expected the package {missing[0]} to serve with, got none; pip install "rela-attention[serve]"'
        )
    import uvicorn

    os.environ[VARIABLE] = settings.to_json()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _finished)
    config = uvicorn.Config(
        "rela.serving.app:from_environment",
        factory=True,
        host=host,
        port=port,
        workers=workers,
        log_level="warning" if workers == 1 else "info",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=math.ceil(settings.timeout) + _EXTRA,
    )
    socket = config.bind_socket()
    listening(f"http://{f'[{host}]' if ':' in host else host}:{socket.getsockname()[1]}")
    server = uvicorn.Server(config)
    if workers > 1:
        from uvicorn.supervisors import Multiprocess

        Multiprocess(config, sockets=[socket]).run()
        return
    server.run(sockets=[socket])
    if not server.started:
        sys.exit(1)  # its log says why
