"""Limits on the body of a request: its bytes, also of one that does not say how many it has, and its time."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator
from typing import Any, Final

from rela.serving.problems import RefusedError

_METHODS_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
_TOGETHER: Final = 128
"""So many bodies of the greatest size may be in memory at once."""


class Ending:
    """The end of the service: from then on, nobody waits for what has not come."""

    def __init__(self) -> None:
        self.begun = False
        self._waiting: set[asyncio.Timeout] = set()

    def begin(self) -> None:
        """End what waits."""
        self.begun = True
        for waiting in self._waiting:
            if not waiting.expired():
                waiting.reschedule(asyncio.get_running_loop().time())

    @contextlib.asynccontextmanager
    async def timeout(self, seconds: float) -> AsyncGenerator[None]:
        """Wait for so long, or until the service ends: a TimeoutError."""
        async with asyncio.timeout(0 if self.begun else seconds) as waiting:
            self._waiting.add(waiting)
            try:
                yield
            finally:
                self._waiting.discard(waiting)


class LastAnswers:
    """Middleware: answers that are given while the service ends say that their connection ends with them."""

    def __init__(self, app: Any, *, ending: Ending) -> None:
        self._app, self._ending = app, ending

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def last(message: Any) -> None:
            if self._ending.begun and message["type"] == "http.response.start":
                headers = [pair for pair in message.get("headers", ()) if pair[0].lower() != b"connection"]
                message = {**message, "headers": [*headers, (b"connection", b"close")]}
            await send(message)

        await self._app(scope, receive, last if scope["type"] == "http" else send)


class BodyLimit:
    """Middleware: reads a body as far as it may go, and for as long as it may take.

    Of all bodies together it holds ``128 * limit`` bytes and no more, until they are answered. ``state.deadline`` of a
    request is when its ``seconds`` are over; connections set it at its first byte. If the client goes away before its
    answer is there, the work is cancelled. When the service ends, no body is waited for.
    """

    def __init__(self, app: Any, *, limit: int, seconds: float, ending: Ending) -> None:
        self._app, self._limit, self._seconds, self._ending = app, limit, seconds, ending
        self._held = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] not in _METHODS_WITH_BODY:
            await self._app(scope, receive, send)
            return
        scope.setdefault("state", {}).setdefault("deadline", time.monotonic() + self._seconds)
        parts: list[bytes] = []
        try:
            if await self._read(scope, receive, parts):
                await _while_awaited(self._app, scope, b"".join(parts), receive, send)
        except RefusedError as refused:
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
            async with self._ending.timeout(scope["state"]["deadline"] - time.monotonic()):
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
                        raise RefusedError(
                            503, "too many requests are read; try again in 1 s", retry_after=1, close=True
                        )
        except TimeoutError:
            if self._ending.begun:
                raise RefusedError(503, "the service ends; try again in 1 s", retry_after=1, close=True) from None
            detail = f"expected a request within {self._seconds:g} s, got {size:,} bytes and no end"
            raise RefusedError(408, detail, close=True) from None
        return True

    def _too_large(self) -> RefusedError:
        return RefusedError(413, f"expected a request of at most {self._limit:,} bytes, got more", close=True)


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
