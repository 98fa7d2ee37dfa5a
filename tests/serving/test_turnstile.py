"""Requests that are too many: which of them are refused before they are read, and in what words."""

import json

import pytest

from rela.serving.turnstile import Turnstile, closes_after

BODY = b'{"text": "a dog"}'
REQUEST = b"POST /translate HTTP/1.1\r\nhost: here\r\ncontent-length: 17\r\n\r\n" + BODY


def turnstile(most: int = 1, *, origins: bool = False) -> tuple[Turnstile, list[str]]:
    refused: list[str] = []
    routes = ("/translate", "/score")
    made = Turnstile(most, routes=routes, origins=origins, retry_after=lambda: 7, count=refused.append)
    return made, refused


def full(*, origins: bool = False) -> tuple[Turnstile, list[str]]:
    made, refused = turnstile(origins=origins)
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


def with_line(line: bytes) -> bytes:
    return REQUEST.replace(b"host: here", b"host: here\r\n" + line)


@pytest.mark.parametrize(
    "request_",
    [
        b"POST /score HTTP/1.1\r\nContent-Length:17\r\nhost: here\r\n\r\n" + BODY,
        b"POST /translate HTTP/1.1\r\nhost: here\r\nCONTENT-LENGTH: \t17 \r\n\r\n" + BODY,
        b"POST /translate HTTP/1.1\r\nhost: here\r\ncontent-length: 0\r\n\r\n",
        with_line(b"Connection: keep-alive"),
        with_line(b"Origin: http://here"),
    ],
)
def test_other_forms_of_a_request(request_: bytes):
    made, _ = full()
    answer = made.refusal(request_)
    assert answer is not None
    assert b"connection" not in answer
    assert not closes_after(request_)
    for end in range(1, len(request_)):
        assert made.refusal(request_[:end]) is None
        assert made.may_refuse(request_[:end])


def test_a_connection_that_is_to_be_closed():
    made, _ = full()
    request = with_line(b"Connection: Close")
    answer = made.refusal(request)
    assert answer is not None
    assert b"\r\nconnection: close\r\n" in answer
    assert closes_after(request)


@pytest.mark.parametrize(
    "data",
    [
        REQUEST + b"P",
        REQUEST + REQUEST,
        b"POST /translate HTTP/1.1\r\nhost: here\r\n\r\n" + BODY,
        REQUEST.replace(b"POST", b"GET"),
        b"GET",
        b"POST /models",
        REQUEST.replace(b"/translate", b"/models"),
        REQUEST.replace(b"/translate", b"/translate?a=b"),
        REQUEST.replace(b"HTTP/1.1", b"HTTP/1.0"),
        with_line(b"Connection: upgrade"),
        with_line(b"Connection: keep-alive, upgrade"),
        with_line(b"expect: 100-continue"),
        with_line(b"transfer-encoding: chunked"),
        with_line(b"content-length: 17"),
        with_line(b"content-length: 1"),
        with_line(b"content-length : 1"),
        REQUEST.replace(b"content-length: 17", b"content-length: +17"),
        REQUEST.replace(b"content-length: 17", b"content-length: 170000"),
        REQUEST.replace(b"content-length: 17", b"content-length: " + 9999 * b"9"),
        REQUEST.replace(b"content-length", b"xcontent-length"),
        b"POST /translate HTTP/1.1\r\n" + 70_000 * b"a",
    ],
)
def test_what_needs_more_than_a_word_is_read(data: bytes):
    made, refused = full()
    assert made.refusal(data) is None
    assert not made.may_refuse(data)
    assert refused == []


def test_pages_of_elsewhere_get_all_headers_of_their_answer():
    made, _ = full(origins=True)
    assert made.refusal(with_line(b"Origin: http://elsewhere")) is None
    assert not made.may_refuse(with_line(b"Origin: http://elsewhere")[:-1])
    assert made.refusal(REQUEST) is not None


def test_where_there_is_room_nothing_is_held():
    made, _ = turnstile()
    assert not made.may_refuse(REQUEST[:40])
    assert made.refusal(REQUEST) is None
