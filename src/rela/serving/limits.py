"""Limits on the body of a request: its bytes, also of one that does not say how many it has, and its time."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from typing import Any, Final

_METHODS_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
_TOGETHER: Final = 128
"""So many bodies of the greatest size may be in memory at once."""


class BodyLimit:
    """Middleware: reads a body as far as it may go, and for as long as it may take.

    Of all bodies together it holds ``128 * limit`` bytes and no more, until they are answered. ``state.deadline`` of a
    request is when ``seconds`` are over. If the client goes away before its answer is there, the work is cancelled.
    """

    def __init__(self, app: Any, *, limit: int, seconds: float) -> None:
        self._app, self._limit, self._seconds = app, limit, seconds
        self._held = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] not in _METHODS_WITH_BODY:
            await self._app(scope, receive, send)
            return
        scope.setdefault("state", {})["deadline"] = time.monotonic() + self._seconds
        parts: list[bytes] = []
        try:
            if await self._read(scope, receive, parts):
                await _while_awaited(self._app, scope, b"".join(parts), receive, send)
        except _RefusedError as refused:
            await refused.send(send)
        finally:
            self._held -= sum(map(len, parts))

    async def _read(self, scope: Any, receive: Any, parts: list[bytes]) -> bool:
        """Whether all of a body came; else its client has gone."""
        said = dict(scope["headers"]).get(b"content-length", b"0")
        if said.isdigit() and int(said) > self._limit:
            raise self._too_large()
        size, more = 0, True
        try:
            async with asyncio.timeout(self._seconds):
                while more:
                    message = await receive()
                    if message["type"] != "http.request":
                        return False
                    parts.append(message.get("body", b""))
                    more = message.get("more_body", False)
                    size += len(parts[-1])
                    self._held += len(parts[-1])
                    if size > self._limit:
                        raise self._too_large()
                    if self._held > _TOGETHER * self._limit:
                        raise _RefusedError(503, "too many requests are read; try again in 1 s", {"retry-after": "1"})
        except TimeoutError:
            raise _RefusedError(
                408, f"expected a request within {self._seconds:g} s, got {size:,} bytes and no end"
            ) from None
        return True

    def _too_large(self) -> _RefusedError:
        return _RefusedError(413, f"expected a request of at most {self._limit:,} bytes, got more")


class _RefusedError(Exception):
    """A body that is not read to its end, and why."""

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self._status, self._headers = status, headers or {}

    async def send(self, send: Any) -> None:
        detail = json.dumps({"detail": str(self)}).encode()
        headers = {
            "content-type": "application/json",
            "content-length": str(len(detail)),
            "connection": "close",
            **self._headers,
        }
        pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": self._status, "headers": pairs})
        await send({"type": "http.response.body", "body": detail})


async def _while_awaited(app: Any, scope: Any, body: bytes, receive: Any, send: Any) -> None:
    """Run an app on a body that was read, until it has answered or the client goes away."""
    bodies = [body]
    answered = False
    leaving = asyncio.ensure_future(_gone(receive))
    awaited = asyncio.timeout(None)  # ends at once when the client leaves

    async def replay() -> Any:
        if bodies:
            return {"type": "http.request", "body": bodies.pop(), "more_body": False}
        return await asyncio.shield(leaving)

    async def noted(message: Any) -> None:
        nonlocal answered
        answered = answered or (message["type"] == "http.response.body" and not message.get("more_body", False))
        await send(message)

    def stop(_: object) -> None:
        if not answered:
            awaited.reschedule(asyncio.get_running_loop().time())

    try:
        async with awaited:
            leaving.add_done_callback(stop)
            try:
                await app(scope, replay, noted)
            finally:
                leaving.remove_done_callback(stop)
    except TimeoutError:
        if not awaited.expired():
            raise
    finally:
        leaving.cancel()


async def _gone(receive: Any) -> Any:
    """What is said when the client has gone."""
    while (message := await receive())["type"] == "http.request":
        pass
    return message
