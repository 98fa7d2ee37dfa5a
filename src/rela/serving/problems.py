"""What is said when a request cannot be answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from rela.serving.schemas import FieldProblem, Problem, Unfit

_MOST_ERRORS: Final = 10
_LONGEST_NAME: Final = 60  # characters of a field's name, which is the client's

RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    400: {"model": Problem, "description": "The request is no text, or cannot be read."},
    401: {"model": Problem, "description": "The token is missing or wrong."},
    404: {"model": Problem, "description": "There is no such model."},
    408: {"model": Problem, "description": "The request did not come to its end in time."},
    413: {"model": Problem, "description": "The request is too large, or asks for too much."},
    422: {"model": Unfit, "description": "The request does not fit."},
    503: {"model": Problem, "description": "Too many requests wait; Retry-After says when to try again."},
    504: {"model": Problem, "description": "Not done in time."},
}
"""For the description of the service."""


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


def _problem(error: dict[str, Any]) -> FieldProblem:
    loc: Sequence[str | int] = error["loc"]
    shown = [part if isinstance(part, int) else _printable(part)[:_LONGEST_NAME] for part in loc]
    message = error["msg"]
    if error["type"] == "json_invalid":
        message = f"{message}: {error['ctx']['error']}"
    return FieldProblem(loc=shown, msg=_printable(message), type=error["type"])


def _printable(text: str) -> str:
    """The same, with ``\\u....`` for what is no letter or sign, such as half a character."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
