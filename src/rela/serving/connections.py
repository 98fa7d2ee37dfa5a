"""Connections with limits: how many there are, how long a request may take to come, and its answer to be read."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from rela.serving.turnstile import Turnstile

OWN_FILES: Final = 40
"""Files that a service has open beside its connections: libraries, models, the log."""


class Connection(H11Protocol):
    """A connection that nobody keeps busy for ever.

    A request has ``seconds`` from its first byte to its answer: a head that is late is refused here, what comes after
    it is told its ``state.deadline``. An answer has as long again to be read. ``count`` is told why a connection was
    ended. Where the ``turnstile`` says so, a request is refused before it is read.
    """

    def __init__(
        self,
        *arguments: Any,
        seconds: float,
        most: int,
        turnstile: Turnstile,
        count: Callable[[str], object],
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        self.app_state = {**self.app_state}
        self._seconds, self._most, self._turnstile, self._count = seconds, most, turnstile, count
        self._is_asking = False
        self._is_inside = False
        self._late: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self._most:
            self._refuse(503, "too many connections; try again in 1 s", "too many", "retry-after: 1\r\n")
            return
        self._late = self.loop.call_later(self._seconds, self._too_late)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if not self._is_asking:
            if not self.transport.get_write_buffer_size() and (refusal := self._turnstile.refusal(data)):
                self._answer_unread(refusal)
                return
            self._begin()
        super().data_received(data)
        self._go_inside(self._has_come())

    def on_response_complete(self) -> None:
        """The answer is written, which is not to say that it is sent. More requests may have come meanwhile."""
        _cancel(self._late, self._unread)
        self._unread = self.loop.call_later(self._seconds, self._drop_unread)
        self._is_asking = False
        if self.conn.trailing_data[0]:
            self._begin()
        self._go_inside(False)
        super().on_response_complete()
        self._go_inside(self._has_come())

    def connection_lost(self, exc: Exception | None) -> None:
        _cancel(self._late, self._unread)
        super().connection_lost(exc)
        self._go_inside(False)

    def _has_come(self) -> bool:
        """A request as a whole, which is not answered."""
        return self._is_asking and self.conn.their_state in (h11.DONE, h11.MUST_CLOSE)

    def _go_inside(self, inside: bool) -> None:
        if inside != self._is_inside:
            self._is_inside = inside
            (self._turnstile.enter if inside else self._turnstile.leave)()

    def _answer_unread(self, answer: bytes) -> None:
        """The connection waits for its next request afterwards, as after any answer."""
        _cancel(self._late)
        self._unset_keepalive_if_required()
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)
        self.transport.write(answer)

    def _begin(self) -> None:
        """The first byte of a request."""
        _cancel(self._late)
        self._is_asking = True
        self.app_state["deadline"] = time.monotonic() + self._seconds
        self._late = self.loop.call_later(self._seconds, self._too_late)

    def _too_late(self) -> None:
        if self.conn.their_state is not h11.IDLE:  # there is an app at work, which knows what time it is
            self._late = self.loop.call_later(self._seconds, self._abort)
        elif received := len(self.conn.trailing_data[0]):
            detail = f"expected a request within {self._seconds:g} s, got {received:,} bytes of its head and no end"
            self._refuse(408, detail, "late head")
        else:
            self.transport.close()

    def _drop_unread(self) -> None:
        if self.transport.get_write_buffer_size():
            self._abort()

    def _abort(self) -> None:
        self._count("too slow")
        self.transport.abort()

    def _refuse(self, status: int, detail: str, why: str, headers: str = "") -> None:
        self._count(why)
        body = json.dumps({"detail": detail})
        self.transport.write(
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n{headers}\r\n{body}".encode()
        )
        self.transport.close()


def _cancel(*timers: asyncio.TimerHandle | None) -> None:
    for timer in timers:
        if timer is not None:
            timer.cancel()


def most_connections(wanted: int) -> int:
    """As many as are wanted, if the system lets us have so many files open.

    For each there is room for another one: those that are accepted at once, only to be told that there are too many.
    """
    try:
        import resource
    except ImportError:  # this system has no such limit
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = OWN_FILES + 2 * wanted
    if 0 <= soft < files:  # a negative one is no limit
        soft = files if hard < 0 else min(files, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        return max(1, (soft - OWN_FILES) // 2)
    return wanted
