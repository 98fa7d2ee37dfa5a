"""Connections that are slow, silent or too many: nobody keeps the service busy for ever."""

import asyncio
import contextlib
import json
import resource
import socket
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from rela.serving.connections import OWN_FILES, Connection, most_connections
from rela.serving.turnstile import Turnstile

SECONDS = 0.5
HEAD = b"POST /x HTTP/1.1\r\nhost: here\r\n"
REQUEST = HEAD + b"content-length: 0\r\n\r\n"
WITH_BODY = HEAD + b"content-length: 5\r\n\r\nabcde"
LARGE = 1 << 25
AT_WORK = 3  # requests, at most


class Served:
    """An app behind connections with limits."""

    def __init__(self, port: int, state: ServerState, ended: Counter[str]) -> None:
        self.port, self.state, self.ended = port, state, ended
        self._writers: list[asyncio.StreamWriter] = []

    async def open(self, data: bytes = b"") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self._writers.append(writer)
        writer.write(data)
        return reader, writer

    async def close(self) -> None:
        for writer in self._writers:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def until_empty(self) -> None:
        async with asyncio.timeout(10):
            while self.state.connections:
                await asyncio.sleep(0.005)


@contextlib.asynccontextmanager
async def serving(app: Any, most: int) -> AsyncGenerator[Served]:
    config, state, ended = uvicorn.Config(app, log_config=None, ws="none"), ServerState(), Counter[str]()
    turnstile = Turnstile(
        AT_WORK, routes=("/x",), retry_after=lambda: 1, count=lambda route: ended.update([f"refused {route}"])
    )

    def connection() -> Connection:
        return Connection(
            config=config,
            server_state=state,
            app_state={},
            seconds=SECONDS,
            most=most,
            turnstile=turnstile,
            count=lambda why: ended.update([why]),
        )

    server = await asyncio.get_running_loop().create_server(connection, "127.0.0.1", 0)
    async with server:
        served = Served(server.sockets[0].getsockname()[1], state, ended)
        yield served
        await served.close()
        await served.until_empty()


async def answer(send: Any, body: bytes) -> None:
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def time_left(scope: Any, receive: Any, send: Any) -> None:
    left = scope["state"]["deadline"] - time.monotonic()
    await asyncio.sleep(0.6 * SECONDS)
    await answer(send, f"{left:7.3f}".encode())


async def much(scope: Any, receive: Any, send: Any) -> None:
    await answer(send, b"a" * LARGE)


def run(test: Callable[[Served], Awaitable[None]], app: Any = time_left, most: int = 10) -> None:
    async def main() -> None:
        async with asyncio.timeout(20), serving(app, most) as served:
            await test(served)

    asyncio.run(main())


def test_half_a_head_has_its_time():
    async def test(served: Served) -> None:
        began = time.monotonic()
        reader, _ = await served.open(HEAD)
        found = await reader.read()
        assert SECONDS <= time.monotonic() - began < SECONDS + 2
        assert found.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
        assert found.endswith(b'{"detail": "expected a request within 0.5 s, got 30 bytes and no end"}')
        assert served.ended == {"late head": 1}

    run(test)


def test_who_says_nothing_is_told_nothing():
    async def test(served: Served) -> None:
        reader, _ = await served.open()
        assert await reader.read() == b""
        assert not served.ended

    run(test)


def test_too_many_are_refused_until_one_leaves():
    async def test(served: Served) -> None:
        _, first = await served.open(HEAD)
        await served.open(HEAD)
        reader, _ = await served.open(REQUEST)
        found = await reader.read()
        assert found.startswith(b"HTTP/1.1 503 ")
        assert b"\r\nretry-after: 1\r\n" in found
        first.close()
        await first.wait_closed()
        reader, _ = await served.open(REQUEST)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
        assert served.ended == {"too many": 1}

    run(test, most=2)


def test_an_answer_that_nobody_reads():
    async def test(served: Served) -> None:
        with socket.create_connection(("127.0.0.1", served.port)) as client:
            client.sendall(REQUEST)
            await asyncio.sleep(0.05)
            assert served.state.connections
            await served.until_empty()
        assert served.ended == {"too slow": 1}

    run(test, app=much)


def test_an_answer_that_is_read():
    async def test(served: Served) -> None:
        reader, writer = await served.open(REQUEST)
        head = await reader.readuntil(b"\r\n\r\n")
        assert f"content-length: {LARGE}".encode() in head
        assert len(await reader.readexactly(LARGE)) == LARGE
        writer.close()
        await served.until_empty()
        assert not served.ended

    run(test, app=much)


def test_a_body_that_nobody_reads_has_an_end():
    async def test(served: Served) -> None:
        reader, writer = await served.open(HEAD + b"transfer-encoding: chunked\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
        with contextlib.suppress(ConnectionError):
            while served.state.connections:
                writer.write(b"1\r\na\r\n")
                await writer.drain()
                await asyncio.sleep(0.01)
        assert served.ended == {"too slow": 1}

    run(test)


def test_each_request_of_a_connection_has_all_of_its_time():
    async def left(reader: asyncio.StreamReader) -> float:
        await reader.readuntil(b"\r\n\r\n")
        return float(await reader.readexactly(7))

    async def test(served: Served) -> None:
        reader, writer = await served.open()
        for _ in range(2):
            await asyncio.sleep(0.6 * SECONDS)
            writer.write(REQUEST + REQUEST)  # the second one comes before the first one is answered
            assert await left(reader) > 0.5 * SECONDS
            assert await left(reader) > 0.5 * SECONDS
        writer.write(REQUEST[:9])
        await asyncio.sleep(0.6 * SECONDS)
        writer.write(REQUEST[9:])
        assert await left(reader) < 0.5 * SECONDS
        assert not served.ended

    run(test)


def test_an_app_at_work_knows_its_time_itself():
    async def late(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(1.5 * SECONDS)
        await answer(send, b"at last")

    async def test(served: Served) -> None:
        reader, _ = await served.open(REQUEST)
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        assert await reader.readexactly(7) == b"at last"

    run(test, app=late)


async def statuses(*readers: asyncio.StreamReader) -> list[int]:
    """Of the next answer of each."""
    found: list[int] = []
    for reader in readers:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        await reader.readexactly(int(head.partition("content-length: ")[2].split()[0]))
        found.append(int(head.split()[1]))
    return found


def test_what_finds_no_room_is_refused_and_may_come_again():
    async def test(served: Served) -> None:
        inside = [await served.open(REQUEST) for _ in range(AT_WORK)]
        await asyncio.sleep(0.1 * SECONDS)
        reader, writer = await served.open(REQUEST)
        assert await statuses(reader) == [503]
        assert await statuses(*(reader for reader, _ in inside)) == [200] * AT_WORK
        await asyncio.sleep(1.2 * SECONDS)  # as after any answer, there is time for the next request
        writer.write(REQUEST)
        assert await statuses(reader) == [200]
        assert served.ended == {"refused /x": 1}

    run(test)


def test_who_goes_away_leaves_room():
    async def test(served: Served) -> None:
        for _ in range(4):
            for _ in range(AT_WORK):
                _, writer = await served.open(REQUEST)
                writer.close()
            await served.until_empty()
        reader, _ = await served.open(REQUEST)
        assert await statuses(reader) == [200]
        assert not served.ended

    run(test)


def test_requests_that_came_together_take_a_place_each_when_they_are_at_work():
    async def test(served: Served) -> None:
        reader, _ = await served.open(4 * REQUEST)
        for _ in range(AT_WORK - 1):
            await served.open(REQUEST)
        await asyncio.sleep(0.1 * SECONDS)
        refused, _ = await served.open(REQUEST)
        assert await statuses(refused, *4 * [reader]) == [503, 200, 200, 200, 200]
        other, _ = await served.open(REQUEST)
        assert await statuses(other) == [200]
        assert served.ended == {"refused /x": 1}

    run(test)


def test_a_request_in_pieces_is_refused_too():
    async def test(served: Served) -> None:
        inside = [await served.open(REQUEST) for _ in range(AT_WORK)]
        await asyncio.sleep(0.1 * SECONDS)
        reader, writer = await served.open()
        for letter in WITH_BODY:
            writer.write(bytes([letter]))
            await writer.drain()
            await asyncio.sleep(0)
        assert await statuses(reader) == [503]
        assert await statuses(*(reader for reader, _ in inside)) == [200] * AT_WORK
        writer.write(WITH_BODY[:30])
        await asyncio.sleep(0.05)
        writer.write(WITH_BODY[30:])
        assert await statuses(reader) == [200]
        assert served.ended == {"refused /x": 1}

    run(test)


def test_a_request_in_pieces_finds_room_meanwhile():
    async def test(served: Served) -> None:
        inside = [await served.open(REQUEST) for _ in range(AT_WORK)]
        await asyncio.sleep(0.1 * SECONDS)
        reader, writer = await served.open(WITH_BODY[:-1])
        assert await statuses(*(reader for reader, _ in inside)) == [200] * AT_WORK
        writer.write(WITH_BODY[-1:])
        assert await statuses(reader) == [200]
        assert not served.ended

    run(test)


def test_half_a_request_that_would_be_refused_has_its_time():
    async def test(served: Served) -> None:
        for _ in range(AT_WORK):
            await served.open(REQUEST)
        await asyncio.sleep(0.1 * SECONDS)
        reader, _ = await served.open(WITH_BODY[:-1])
        assert await statuses(reader) == [408]
        assert served.ended == {"late head": 1}

    run(test)


async def early(scope: Any, receive: Any, send: Any) -> None:
    """Answers what asks for /x before it is read."""
    if scope["path"] == "/x":
        await answer(send, b"no")
    else:
        await time_left(scope, receive, send)


def test_after_an_early_answer_the_next_request_has_all_of_its_time():
    async def test(served: Served) -> None:
        reader, writer = await served.open(WITH_BODY[:-3])
        assert await statuses(reader) == [200]
        writer.write(WITH_BODY[-3:])
        await asyncio.sleep(0.7 * SECONDS)
        writer.write(REQUEST.replace(b"/x", b"/y"))
        await reader.readuntil(b"\r\n\r\n")
        assert float(await reader.readexactly(7)) > 0.5 * SECONDS
        writer.write(WITH_BODY[:-3])
        assert await statuses(reader) == [200]
        await asyncio.sleep(0.7 * SECONDS)
        writer.write(WITH_BODY[-3:] + REQUEST.replace(b"/x", b"/y"))
        await reader.readuntil(b"\r\n\r\n")
        assert float(await reader.readexactly(7)) > 0.5 * SECONDS
        assert not served.ended

    run(test, app=early)


@pytest.mark.parametrize("data", [b"hello\r\n\r\n", HEAD + b"content-length: -1\r\n\r\n"])
def test_what_is_not_http(data: bytes):
    async def test(served: Served) -> None:
        reader, _ = await served.open(data)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n")
        assert "expected HTTP/1.1" in json.loads(await reader.read())["detail"]
        assert served.ended == {"not HTTP": 1}

    run(test)


def test_garbage_after_an_early_answer_ends_the_connection():
    async def test(served: Served) -> None:
        reader, writer = await served.open(HEAD + b"transfer-encoding: chunked\r\n\r\n")
        assert await statuses(reader) == [200]
        writer.write(b"no chunk\r\n")
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        await served.until_empty()
        assert served.ended == {"not HTTP": 1}

    run(test, app=early)


@pytest.mark.parametrize(
    ("limits", "raised", "most"),
    [
        ((100, 4096), 440, 200),  # more files are asked for
        ((100, 100), 100, 30),
        ((10, 10), 10, 1),
        ((100, -1), 440, 200),
        ((-1, -1), None, 200),
        ((440, 440), None, 200),
    ],
)
def test_connections_are_files(monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int], raised: int | None, most: int):
    assert OWN_FILES == 40
    told: list[int] = []

    def tell(_: int, both: tuple[int, int]) -> None:
        told.append(both[0])

    def know(_: int) -> tuple[int, int]:
        return limits

    monkeypatch.setattr(resource, "getrlimit", know)
    monkeypatch.setattr(resource, "setrlimit", tell)
    assert most_connections(200) == most
    assert told == ([] if raised is None else [raised])
