"""A client that puts a load on a service over HTTP: many requests at once, each with its answer and its time."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import urlsplit

_PATIENCE: Final = 120.0  # seconds for an answer; a service that says nothing for so long has lost the request
_HEAD_END: Final = b"\r\n\r\n"


class Answer(NamedTuple):
    """What came of a request.

    ``status`` is 0 if no answer came: the connection broke, or nothing was said for two minutes. ``began`` and
    ``ended`` are times of :func:`time.monotonic`; ``retry_after`` is the header of that name.
    """

    status: int
    began: float
    ended: float
    retry_after: str | None = None

    @property
    def seconds(self) -> float:
        """From the request to its answer."""
        return self.ended - self.began


@dataclass(frozen=True)
class Load:
    """A service's address, and what is posted to it, over and over."""

    address: str
    path: str
    bodies: Sequence[bytes]

    @classmethod
    def of_texts(cls, address: str, texts: Sequence[str], beam: int = 4) -> Load:
        """Translations, one text a request."""
        return cls(address, "/translate", [json.dumps({"text": text, "beam": beam}).encode() for text in texts])

    def request(self, number: int) -> bytes:
        """The bytes of a request."""
        body = self.bodies[number % len(self.bodies)]
        host = urlsplit(self.address).netloc
        head = f"POST {self.path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def closed_loop(load: Load, *, clients: int, requests: int) -> list[Answer]:
    """So many clients, each of which asks again as soon as it has its answer."""
    return asyncio.run(_closed(load, clients, requests))


def open_loop(load: Load, *, rate: float, requests: int, tell: Callable[[int], object]) -> list[Answer]:
    """So many requests a second, whether there are answers or not. ``tell`` is told how many have theirs."""
    return asyncio.run(_open(load, rate, requests, tell))


class _Connection:
    """One that is kept for the next request."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, number: int) -> Answer:
        began = time.monotonic()
        try:
            status, retry_after = await asyncio.wait_for(self._exchange(number), _PATIENCE)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, ValueError):
            self.close()
            status, retry_after = 0, None
        return Answer(status, began, time.monotonic(), retry_after)

    async def _exchange(self, number: int) -> tuple[int, str | None]:
        if self._streams is None or self._streams[0].at_eof():  # at its end, the service has closed it meanwhile
            self.close()
            parts = urlsplit(self._load.address)
            self._streams = await asyncio.open_connection(parts.hostname, parts.port)
        reader, writer = self._streams
        writer.write(self._load.request(number))
        await writer.drain()
        first, *lines = (await reader.readuntil(_HEAD_END)).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        await reader.readexactly(int(headers.get("content-length", "0")))
        if headers.get("connection", "").lower() == "close":
            self.close()
        return int(first.split()[1]), headers.get("retry-after")

    def close(self) -> None:
        if self._streams is not None:
            with contextlib.suppress(RuntimeError):
                self._streams[1].close()
            self._streams = None


async def _closed(load: Load, clients: int, requests: int) -> list[Answer]:
    numbers = iter(range(requests))
    answers: list[Answer] = []

    async def client() -> None:
        connection = _Connection(load)
        while (number := next(numbers, None)) is not None:
            answers.append(await connection.ask(number))
        connection.close()

    await asyncio.gather(*(client() for _ in range(clients)))
    return answers


async def _open(load: Load, rate: float, requests: int, tell: Callable[[int], object]) -> list[Answer]:
    free: list[_Connection] = []
    answers: list[Answer] = []

    async def one(number: int) -> None:
        connection = free.pop() if free else _Connection(load)
        answers.append(await connection.ask(number))
        free.append(connection)
        tell(len(answers))

    began = time.monotonic()
    asked: list[Awaitable[None]] = []
    for number in range(requests):
        await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
        asked.append(asyncio.ensure_future(one(number)))
    await asyncio.gather(*asked)
    for connection in free:
        connection.close()
    return answers
