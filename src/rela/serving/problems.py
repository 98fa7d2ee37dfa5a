"""What is said when a request cannot be answered."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from rela.serving.schemas import BRANCHES, FieldProblem, Problem, Unfit

_MOST_ERRORS: Final = 10
_LONGEST: Final = 60  # characters of what is the client's: a field's name, a number, a text

RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    400: {"model": Problem, "description": "The request is no text, or cannot be read."},
    401: {"model": Problem, "description": "The token is missing or wrong."},
    404: {"model": Problem, "description": "There is no such model."},
    408: {"model": Problem, "description": "The request did not come to its end in time."},
    413: {"model": Problem, "description": "The request is too large, or asks for too much."},
    415: {"model": Problem, "description": "The request does not say that it is JSON."},
    421: {"model": Problem, "description": "The service is not called by a name of its own."},
    422: {"model": Unfit, "description": "The request does not fit."},
    503: {
        "model": Problem,
        "description": "Too much waits already, or the service ends; Retry-After says when to ask.",
    },
    504: {"model": Problem, "description": "Not done in time."},
}
"""For the description of the service."""
AT_THE_DOOR: Final[dict[int | str, dict[str, Any]]] = {status: RESPONSES[status] for status in (401, 421)}
"""The same, of requests without a body."""

_EXPECTED: Final = {
    "string_type": "text",
    "string_too_short": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "literal_error": "{expected}",
    "greater_than_equal": "at least {ge:,g}",
    "less_than_equal": "at most {le:,g}",
    "too_short": "a list of at least {min_length}",
    "too_long": "a list of at most {max_length}",
}
"""By pydantic's names of errors, in words of ours."""


class RefusedError(Exception):
    """A request that goes no further, and why. ``close``: its connection does not either, since it is not read."""

    def __init__(self, status: int, detail: str, *, retry_after: int | None = None, close: bool = False) -> None:
        super().__init__(detail)
        self._status = status
        self._headers: dict[str, str] = {}
        if retry_after is not None:
            self._headers["retry-after"] = str(retry_after)
        if status == 401:
            self._headers["www-authenticate"] = "Bearer"
        if close:
            self._headers["connection"] = "close"

    async def send(self, send: Any) -> None:
        """The answer."""
        detail = json.dumps({"detail": str(self)}).encode()
        headers = {"content-type": "application/json", "content-length": str(len(detail)), **self._headers}
        pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": self._status, "headers": pairs})
        await send({"type": "http.response.body", "body": detail})


def add_problems(app: FastAPI) -> None:
    """Answer with problems of ours: FastAPI's own repeat what was sent, however large, and fail where JSON has no form
    for it."""
    app.add_exception_handler(400, _unreadable)
    app.add_exception_handler(RequestValidationError, _unfit)


async def _unreadable(_: Request, error: Exception) -> Response:
    """FastAPI raises a 400 for a body that Python cannot read as JSON, and nothing else does."""
    assert isinstance(error, HTTPException)
    match error.__cause__:
        case UnicodeDecodeError():
            detail = "expected JSON in UTF-8, got bytes that are no text"
        case RecursionError():
            detail = "expected JSON that can be read, got too many brackets inside each other"
        case _:  # of valid JSON, Python's json does not take numbers of thousands of digits
            detail = "expected JSON that can be read, got a number of too many digits"
    return JSONResponse({"detail": detail}, 400)


async def _unfit(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    found = error.errors()
    problems = [_problem(one) for one in found[:_MOST_ERRORS]]
    lines = [f"{'.'.join(map(str, one.loc[1:])) or 'request'}: {one.msg}" for one in problems]
    if len(found) > _MOST_ERRORS:
        lines.append(f"and {len(found) - _MOST_ERRORS:,} more")
    return JSONResponse(Unfit(detail="; ".join(lines), errors=problems).model_dump(), 422)


def _problem(error: Mapping[str, Any]) -> FieldProblem:
    loc: Sequence[str | int] = [part for part in error["loc"] if part not in BRANCHES]
    shown = [part if isinstance(part, int) else shortened(part) for part in loc]
    given, context = error["input"], error.get("ctx", {})
    match error["type"]:
        case "json_invalid":
            place, shown = int(shown[-1]) + 1, shown[:-1]
            message = f"expected JSON, got something else at character {place}: {context['error']}"
        case "missing":
            message = "expected a value, got none"
        case "extra_forbidden":
            message = "expected no field of this name, got one"
        case "value_error":
            message = str(context["error"])
        case name if name in _EXPECTED:
            message = f"expected {_EXPECTED[name].format(**context)}, got {_in_words(given)}"
        case _:
            message = error["msg"]
    return FieldProblem(loc=shown, msg=_printable(message), type=error["type"])


def _in_words(given: Any) -> str:
    """What was sent, or what it is, if it could be large."""
    match given:
        case list():
            return f"a list of {len(given):,}"
        case dict():
            return "an object"
        case _:
            return shortened(json.dumps(given, ensure_ascii=False))


def shortened(text: str) -> str:
    """What a client sent, as far as it is worth repeating."""
    return _printable(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")


def _printable(text: str) -> str:
    """The same, with ``\\u....`` for what is no letter or sign, such as half a character."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
