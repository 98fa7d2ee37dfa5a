"""A limit on the bytes of a request, also of one that does not say how many it has."""

from __future__ import annotations

import json
from typing import Any, Final

_METHODS_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})


class BodyLimit:
    """Middleware: reads a body as far as it may go, and answers 413 for one that goes on."""

    def __init__(self, app: Any, limit: int) -> None:
        self._app, self._limit = app, limit

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] not in _METHODS_WITH_BODY:
            await self._app(scope, receive, send)
            return
        said = dict(scope["headers"]).get(b"content-length", b"0")
        if said.isdigit() and int(said) > self._limit:
            await self._refuse(send)
            return
        messages: list[Any] = []
        size, more = 0, True
        while more:
            message = await receive()
            messages.append(message)
            if message["type"] != "http.request":  # the client has gone
                break
            size += len(message.get("body", b""))
            more = message.get("more_body", False)
            if size > self._limit:
                await self._refuse(send)
                return

        async def replay() -> Any:
            return messages.pop(0) if messages else await receive()

        await self._app(scope, replay, send)

    async def _refuse(self, send: Any) -> None:
        detail = json.dumps({"detail": f"expected a request of at most {self._limit:,} bytes, got more"}).encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(detail)).encode()),
            (b"connection", b"close"),
        ]
        await send({"type": "http.response.start", "status": 413, "headers": headers})
        await send({"type": "http.response.body", "body": detail})
