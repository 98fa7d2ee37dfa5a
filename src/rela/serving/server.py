"""The service in one process: models, app and connections put together."""

from __future__ import annotations

import functools
import logging
import math
import socket
from collections.abc import Callable
from typing import Any, Final

import uvicorn

from rela.serving.app import TAKES_JSON, create_app
from rela.serving.batching import Batcher
from rela.serving.connections import Connection, most_connections
from rela.serving.limits import Ending
from rela.serving.metrics import Metrics
from rela.serving.models import ServedModels
from rela.serving.settings import Settings
from rela.serving.turnstile import Turnstile

_EXTRA: Final = 5  # seconds beyond the time limit of a request, for answers that are on their way
_KEEP_ALIVE: Final = 75  # seconds that a connection may wait for its next request: longer than proxies keep theirs
_BATCHES: Final = 2  # that are computed, or are answered, while the queue is full
_IDLE: Final = 1024  # connections of which nothing waits in the queue


def serve(settings: Settings, listener: socket.socket, answering: Callable[[], object]) -> None:
    """Load the models, then answer until SIGINT or SIGTERM comes, which is raised once more when all is finished.

    ``answering`` is called when the service answers.
    """
    models = ServedModels(settings)
    batcher = Batcher(models.compute, queue_items=settings.queue, batch_items=settings.batch, batch_work=settings.work)
    metrics, ending = Metrics(), Ending()
    most = most_connections(_IDLE + settings.queue)
    backlog = max(1, most // 4)  # so many are accepted at once
    listener.listen(backlog)  # fails if somebody else was faster; uvicorn would not say so in one line
    metrics.describe("rela_connections_ended_total", "Connections that were ended by the service, and why.")
    turnstile = Turnstile(
        settings.queue + _BATCHES * settings.batch,
        routes=TAKES_JSON,
        retry_after=batcher.retry_after,
        origins=bool(settings.origins),
        count=lambda route: _count_refused(metrics, route),
    )
    connection: Any = functools.partial(
        Connection,
        seconds=settings.timeout,
        most=most,
        turnstile=turnstile,
        count=lambda why: metrics.count("rela_connections_ended_total", why=why),
    )
    config = uvicorn.Config(
        create_app(settings, models, batcher, metrics, ending),
        http=connection,
        ws="none",
        log_level="error",  # what clients do wrong is counted; in a log, each could fill the disk
        access_log=False,
        server_header=False,
        backlog=backlog,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=math.ceil(settings.timeout) + _EXTRA,
    )
    _Server(config, ending, answering).run(sockets=[listener])


def _count_refused(metrics: Metrics, route: str) -> None:
    metrics.count("rela_requests_total", route=route, method="POST", status="503")
    metrics.observe("rela_request_seconds", 0.0, route=route)


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, ending: Ending, answering: Callable[[], object]) -> None:
        super().__init__(config)
        self._ending, self._answering = ending, answering

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        try:
            self._answering()
        except OSError:  # it could not be told
            await self.shutdown(sockets)
            raise

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._ending.begin()
        await super().shutdown(sockets)
        if self.force_exit:  # a second signal does not wait: those who still do are left, and no log has to say so
            logging.disable(logging.CRITICAL)
            for connection in list(self.server_state.connections):
                connection.transport.abort()
