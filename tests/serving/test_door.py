"""Who may come in, and with what."""

import asyncio
from typing import Any

import pytest

from rela.serving.door import Door

TOKEN = "grün"


async def _says_method(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"method", scope["method"].encode())]})


def ask(method: str, path: str, *, door: Any, **headers: str | bytes) -> dict[str, Any]:
    """The start of an answer."""
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    pairs = [
        (name.replace("_", "-").encode(), value if isinstance(value, bytes) else value.encode())
        for name, value in headers.items()
    ]
    asyncio.run(door({"type": "http", "method": method, "path": path, "headers": pairs}, None, send))
    return sent[0]


def door(hosts: tuple[str, ...] = (), token: str | None = None) -> Door:
    return Door(_says_method, hosts=hosts, token=token, open_to_all=["/healthz"], takes_json=["/translate"])


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:8000", 200),
        ("LOCALHOST.", 200),
        ("127.0.0.1", 200),
        ("[::1]:80", 200),
        ("rela.example", 200),
        ("elsewhere.example", 421),
        ("localhost.elsewhere.example:8000", 421),
        ("127.0.0.1.elsewhere.example", 421),
        ("[::2]", 421),
    ],
)
def test_names_of_the_service(host: str, status: int):
    names = ("localhost", "127.0.0.1", "::1", "Rela.example")
    assert ask("GET", "/", door=door(names), host=host)["status"] == status
    assert ask("GET", "/", door=door(), host=host)["status"] == 200


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"Bearer gr\xfcn", 200),  # as browsers do
        ("bearer grün", 200),
        ("Bearer grun", 401),
        ("Basic grün", 401),
        ("Bearer", 401),
        ("", 401),
    ],
)
def test_tokens(sent: str | bytes, status: int):
    closed = door(token=TOKEN)
    found = ask("POST", "/translate", door=closed, authorization=sent, content_type="application/json")
    assert found["status"] == status
    assert ((b"www-authenticate", b"Bearer") in found["headers"]) == (status == 401)
    assert ask("GET", "/healthz", door=closed, authorization=sent)["status"] == 200
    assert ask("GET", "/nowhere", door=closed, authorization=sent)["status"] == status


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("application/json", 200),
        ("Application/JSON; charset=utf-8", 200),
        ("application/x-www-form-urlencoded", 415),
        ("text/plain", 415),
        ("", 415),
    ],
)
def test_types(kind: str, status: int):
    assert ask("POST", "/translate", door=door(), content_type=kind)["status"] == status
    assert ask("POST", "/healthz", door=door(), content_type=kind)["status"] == 200


def test_head_is_answered_as_get_is():
    assert ask("HEAD", "/healthz", door=door())["headers"] == [(b"method", b"GET")]
    assert ask("PUT", "/healthz", door=door())["headers"] == [(b"method", b"PUT")]
