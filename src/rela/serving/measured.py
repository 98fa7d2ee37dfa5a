"""Every request is counted, and its time taken."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any, Final

from rela.serving.metrics import Metrics

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_OTHER: Final = "other"
_GONE: Final = "499"  # there is no answer: the client went away, which nginx counts by this number too


class Measured:
    """Middleware: counts requests by route, method and status.

    What clients choose freely, unknown paths and methods, is ``other``: each label would be kept for ever.
    """

    def __init__(self, app: Any, *, metrics: Metrics, routes: Collection[str]) -> None:
        self._app, self._metrics, self._routes = app, metrics, routes

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.monotonic(), None

        async def noted(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = str(message["status"])
            await send(message)

        try:
            await self._app(scope, receive, noted)
            status = status or _GONE
        finally:
            route = scope["path"] if scope["path"] in self._routes else _OTHER
            method = scope["method"] if scope["method"] in _METHODS else _OTHER
            self._metrics.count("rela_requests_total", route=route, method=method, status=status or "500")
            self._metrics.observe("rela_request_seconds", time.monotonic() - began, route=route)
