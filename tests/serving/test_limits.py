"""Bodies are read so far and so long, and work ends when nobody waits for it: the middleware by itself."""

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from rela.serving import limits
from rela.serving.limits import BodyLimit, Ending

GONE = {"type": "http.disconnect"}


def part(body: bytes, more: bool = False) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


class App:
    """Says how many bytes came, when it is let."""

    def __init__(self) -> None:
        self.may_go = asyncio.Event()
        self.may_go.set()
        self.begun: list[bytes] = []
        self.cancelled = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.begun.append((await receive())["body"])
        try:
            await self.may_go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": str(len(self.begun[-1])).encode()})


def limited(app: Any, *, seconds: float, ending: Ending | None = None) -> BodyLimit:
    return BodyLimit(app, limit=8, seconds=seconds, ending=ending or Ending())


async def ask(limit: Any, *messages: dict[str, Any]) -> tuple[int | None, bytes]:
    """Status and body of an answer; after the messages nothing comes any more."""
    waiting, sent = list(messages), list[dict[str, Any]]()

    async def receive() -> dict[str, Any]:
        if not waiting:
            await asyncio.Event().wait()
        await asyncio.sleep(0)
        return waiting.pop(0)

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await limit({"type": "http", "method": "POST", "headers": []}, receive, send)
    return (sent[0]["status"], sent[1]["body"]) if sent else (None, b"")


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.001)


def test_parts_become_one_body():
    async def main() -> None:
        app = App()
        assert await ask(limited(app, seconds=10), part(b"1234", True), part(b"5678")) == (200, b"8")
        assert app.begun == [b"12345678"]

    asyncio.run(main())


def test_a_body_that_does_not_end_has_its_time():
    async def main() -> None:
        app = App()
        status, body = await ask(limited(app, seconds=0.05), part(b"1234", True))
        assert status == 408
        assert json.loads(body) == {"detail": "expected a request within 0.05 s, got 4 bytes and no end"}
        assert app.begun == []

    asyncio.run(main())


def test_all_bodies_together_have_a_limit(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(limits, "_TOGETHER", 3)

    async def main() -> None:
        limit = limited(App(), seconds=0.3)
        stalled = [asyncio.ensure_future(ask(limit, part(b"1234567", True))) for _ in range(3)]
        await asyncio.sleep(0.02)
        status, body = await ask(limit, part(b"1234"))
        assert status == 503
        assert b"too many requests" in body
        assert await ask(limit, part(b"123")) == (200, b"3")  # it fits
        assert [status for status, _ in await asyncio.gather(*stalled)] == [408] * 3
        assert await ask(limit, part(b"1234")) == (200, b"4")  # there is room again

    asyncio.run(main())


def test_clients_that_go_away():
    async def main() -> None:
        app = App()
        limit = limited(app, seconds=10)
        assert await ask(limit, part(b"12", True), GONE) == (None, b"")
        assert app.begun == []
        app.may_go.clear()
        assert await ask(limit, part(b"12"), GONE) == (None, b"")
        assert app.begun == [b"12"]
        assert app.cancelled == 1

    asyncio.run(main())


def test_the_end_of_the_service_is_no_client_that_goes_away():
    async def main() -> None:
        app = App()
        app.may_go.clear()
        asked = asyncio.ensure_future(ask(limited(app, seconds=10), part(b"12")))
        await until(lambda: bool(app.begun))
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert app.cancelled == 1

    asyncio.run(main())


def test_a_body_that_has_not_come_when_the_service_ends():
    async def main() -> None:
        app, ending = App(), Ending()
        limit = limited(app, seconds=60, ending=ending)
        app.may_go.clear()
        accepted, stalled = (
            asyncio.ensure_future(ask(limit, *parts)) for parts in ([part(b"12")], [part(b"1234", True)])
        )
        await until(lambda: bool(app.begun))
        ending.begin()
        async with asyncio.timeout(10):
            status, body = await stalled
            assert await ask(limit, part(b"1", True)) == (503, body)
        assert status == 503
        assert json.loads(body) == {"detail": "the service ends; try again in 1 s"}
        app.may_go.set()
        assert await accepted == (200, b"2")

    asyncio.run(main())


def test_the_time_of_a_body_began_with_its_head():
    async def main() -> None:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "POST", "headers": [], "state": {"deadline": time.monotonic() + 0.05}}
        async with asyncio.timeout(5):
            await limited(App(), seconds=60)(scope, asyncio.Event().wait, send)
        assert sent[0]["status"] == 408

    asyncio.run(main())


def test_errors_of_the_app_are_its_own():
    async def fails(scope: Any, receive: Any, send: Any) -> None:
        raise TimeoutError("of the app")

    async def main() -> None:
        with pytest.raises(TimeoutError, match="of the app"):
            await ask(limited(fails, seconds=10), part(b"12"))

    asyncio.run(main())
