"""Connections with limits: how many there are, how long a request may take to come, and its answer to be read."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from rela.serving.turnstile import Turnstile, closes_after

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
        self._held = b""  # of a request that will be refused, if there is still no room when all of it is there
        self._deadline = math.inf
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
        data, self._held = self._held + data, b""
        if self._is_between() and not self.transport.get_write_buffer_size():
            if refusal := self._turnstile.refusal(data):
                self._answer_unread(refusal, closes_after(data))
                return
            if self._turnstile.may_refuse(data):
                self._held = data
                if not self._is_asking:
                    self._begin()
                return
        if not self._is_asking and not self._is_answered_early():
            self._begin()
        self._read(data)

    def _read(self, data: bytes) -> None:
        was_early = self._is_answered_early()
        self.app_state["deadline"] = self._deadline if self._is_asking else time.monotonic() + self._seconds
        super().data_received(data)
        if was_early and not self._is_answered_early() and not self.transport.is_closing():
            if self.conn.trailing_data[0] or self.conn.their_state is not h11.IDLE:
                self._begin()
            else:
                self._rest()
        self._go_inside(self._has_come())

    def on_response_complete(self) -> None:
        """The answer is written, which is not to say that it is sent. More requests may have come meanwhile."""
        _cancel(self._late, self._unread)
        self._unread = self.loop.call_later(self._seconds, self._drop_unread)
        self._is_asking = False
        if self._is_answered_early():  # what is left of it is thrown away, but not for ever
            self._late = self.loop.call_later(self._seconds, self._too_late)
        elif self.conn.trailing_data[0]:
            self._begin()
        self._go_inside(False)
        super().on_response_complete()
        self._go_inside(self._has_come())

    def send_400_response(self, msg: str) -> None:
        """What came is not HTTP. There is nobody to be told if the answer was given already."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._refuse(400, f"expected HTTP/1.1, got something else: {msg}", "not HTTP")
        else:
            self._count("not HTTP")
            self.transport.abort()

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

    def _is_between(self) -> bool:
        """Two requests: nothing is read, and nothing at work."""
        return self.conn.their_state is h11.IDLE and self.conn.our_state is h11.IDLE and not self.conn.trailing_data[0]

    def _is_answered_early(self) -> bool:
        """A request that has not come to its end."""
        return self.conn.our_state is h11.DONE and self.conn.their_state is h11.SEND_BODY

    def _answer_unread(self, answer: bytes, close: bool) -> None:
        """The connection waits for its next request afterwards, as after any answer, or is closed."""
        self._is_asking = False
        self.transport.write(answer)
        if close:
            self.transport.close()
        else:
            self._rest()

    def _rest(self) -> None:
        _cancel(self._late)
        self._unset_keepalive_if_required()
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def _begin(self) -> None:
        """The first byte of a request."""
        _cancel(self._late)
        self._unset_keepalive_if_required()
        self._is_asking = True
        self._deadline = time.monotonic() + self._seconds
        self.app_state["deadline"] = self._deadline
        self._late = self.loop.call_later(self._seconds, self._too_late)

    def _too_late(self) -> None:
        if self.conn.their_state is not h11.IDLE:  # there is an app at work, which knows what time it is
            self._late = self.loop.call_later(self._seconds, self._abort)
        elif received := len(self.conn.trailing_data[0]) + len(self._held):
            detail = f"expected a request within {self._seconds:g} s, got {received:,} bytes and no end"
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
