"""Requests that are too many: which of them are refused before they are read, and in what words."""

import json

import pytest

from rela.serving.turnstile import Turnstile

BODY = b'{"text": "a dog"}'
REQUEST = b"POST /translate HTTP/1.1\r\nhost: here\r\ncontent-length: 17\r\n\r\n" + BODY


def turnstile(most: int = 1, seconds: int = 7) -> tuple[Turnstile, list[str]]:
    refused: list[str] = []
    made = Turnstile(most, routes=("/translate", "/score"), retry_after=lambda: seconds, count=refused.append)
    return made, refused


def full() -> tuple[Turnstile, list[str]]:
    made, refused = turnstile()
    made.enter()
    return made, refused


def test_the_refusal_says_when_to_come_again():
    made, refused = full()
    answer = made.refusal(REQUEST)
    assert answer is not None
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *headers = head.decode().split("\r\n")
    assert status == "HTTP/1.1 503 Service Unavailable"
    assert "retry-after: 7" in headers
    assert f"content-length: {len(body)}" in headers
    assert json.loads(body) == {"detail": "too many requests wait; try again in 7 s"}
    assert refused == ["/translate"]


def test_there_is_room_again_when_one_leaves():
    made, refused = turnstile(most=2)
    made.enter()
    assert made.refusal(REQUEST) is None
    made.enter()
    assert made.refusal(REQUEST) is not None
    made.leave()
    assert made.refusal(REQUEST) is None
    assert refused == ["/translate"]


@pytest.mark.parametrize(
    "head",
    [
        b"POST /score HTTP/1.1\r\nContent-Length:17\r\nhost: here",
        b"POST /translate HTTP/1.1\r\nhost: here\r\nCONTENT-LENGTH: \t17 ",
    ],
)
def test_heads_in_other_forms(head: bytes):
    made, _ = full()
    assert made.refusal(head + b"\r\n\r\n" + BODY) is not None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        REQUEST[:-1],
        REQUEST + b"P",
        REQUEST + REQUEST,
        REQUEST[: REQUEST.index(BODY)],
        b"POST /translate HTTP/1.1\r\nhost: here\r\n\r\n" + BODY,
        REQUEST.replace(b"POST", b"GET"),
        REQUEST.replace(b"/translate", b"/models"),
        REQUEST.replace(b"/translate", b"/translate?a=b"),
        REQUEST.replace(b"HTTP/1.1", b"HTTP/1.0"),
        REQUEST.replace(b"host: here", b"host: here\r\nOrigin: http://elsewhere"),
        REQUEST.replace(b"host: here", b"Connection: close"),
        REQUEST.replace(b"host: here", b"expect: 100-continue"),
        REQUEST.replace(b"host: here", b"transfer-encoding: chunked"),
        REQUEST.replace(b"host: here", b"content-length: 17"),
        REQUEST.replace(b"host: here", b"content-length: 1"),
        REQUEST.replace(b"host: here", b"content-length : 1"),
        REQUEST.replace(b"content-length: 17", b"content-length: +17"),
        REQUEST.replace(b"content-length", b"xcontent-length"),
    ],
)
def test_what_needs_more_than_a_word_is_read(data: bytes):
    made, refused = full()
    assert made.refusal(data) is None
    assert refused == []
