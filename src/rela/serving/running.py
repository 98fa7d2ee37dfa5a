"""A service that runs until it is told to stop."""

from __future__ import annotations

import errno
import importlib.util
import os
import socket
from collections.abc import Callable
from typing import Final

from rela.serving.settings import Settings

_PACKAGES: Final = ("fastapi", "uvicorn")


def run_service(settings: Settings, *, host: str, port: int, workers: int, answering: Callable[[str], object]) -> None:
    """Load the models, listen, and answer. What was accepted is finished before SIGINT or SIGTERM have their effect.

    ``answering`` is told the address when all of the service answers.
    """
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise ModuleNotFoundError(
            f'expected the package {missing[0]} to serve with, got none; pip install "rela-attention[serve]"'
        )
    from rela.serving.server import serve
    from rela.serving.workers import run_workers

    with bound_socket(host, port) as listener:
        address = f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"
        try:
            if workers > 1:
                run_workers(settings, listener, workers, lambda: answering(address))
            else:
                serve(settings, listener, lambda: answering(address))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise OSError(_why_not(error, host, port)) from None  # see `serve`


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket that has its address and does not listen yet: nobody is kept waiting while models are loaded."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio sends small answers at once; without it, it leaves them to wait for 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    if os.name == "posix":  # elsewhere it lets two services have one port
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except (OSError, UnicodeError) as error:  # the latter is of names that no host can have
        listener.close()
        raise OSError(_why_not(error, host, port)) from None
    return listener


def _why_not(error: OSError | UnicodeError, host: str, port: int) -> str:
    match error:
        case OSError(errno=errno.EADDRINUSE):
            return f"port {port} of {host}: expected a free one, got one in use; choose another by --port, or any by 0"
        case OSError(errno=errno.EACCES):
            return f"port {port} of {host}: expected one that you may use; choose one from 1024 on by --port"
        case _:
            reason = getattr(error, "strerror", None) or str(error)
            return f"host: expected a name or address of this machine, got {host!r} ({reason}); choose one by --host"
