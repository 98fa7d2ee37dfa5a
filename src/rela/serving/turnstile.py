"""A count of requests at work, and a word for those that are too many: said before anything of them is read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Final

_HEAD_END: Final = b"\r\n\r\n"
_LENGTH: Final = re.compile(rb"\ncontent-length:([^\r\n]*)\r")
_MORE_TO_DO: Final = re.compile(rb"\n(?:origin|connection|expect|transfer-encoding)\b")
"""With these it is not enough to answer: they go the long way, and are refused at its end."""


class Turnstile:
    """Counts the requests that have come and are not answered, over all connections.

    What is asked thousands of times a second costs more to read than to compute: a service that reads everything to
    refuse most of it does nothing else. When ``most`` are inside, others get a 503 at once.

    Args:
        most: more than this cannot all have a place: each has at least one sentence, in the queue or in a batch.
        routes: the addresses that can be refused so; all others cost little.
        retry_after: seconds until there may be room.
        count: is told the address of what was refused.
    """

    def __init__(
        self, most: int, *, routes: tuple[str, ...], retry_after: Callable[[], int], count: Callable[[str], object]
    ) -> None:
        self._most, self._retry_after, self._count = most, retry_after, count
        self._routes = {f"POST {route} HTTP/1.1".encode(): route for route in routes}
        self._inside = 0

    def enter(self) -> None:
        """A request has come to its end."""
        self._inside += 1

    def leave(self) -> None:
        """It was answered, or given up."""
        self._inside -= 1

    def refusal(self, data: bytes) -> bytes | None:
        """The answer to these bytes, if they are one whole request that finds no room. Its connection can go on."""
        if self._inside < self._most or (route := self._routes.get(data.partition(b"\r\n")[0])) is None:
            return None
        if not _is_whole(*data.partition(_HEAD_END)):
            return None
        self._count(route)
        seconds = self._retry_after()
        detail = json.dumps({"detail": f"too many requests wait; try again in {seconds} s"})
        return (
            "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\n"
            f"content-length: {len(detail)}\r\nretry-after: {seconds}\r\n\r\n{detail}"
        ).encode()


def _is_whole(head: bytes, end: bytes, body: bytes) -> bool:
    """Nothing is missing, nothing follows, and there is one way to read it."""
    names = head.lower() + end
    length = _LENGTH.search(names)
    if length is None or names.count(b"content-length") > 1 or _MORE_TO_DO.search(names):
        return False
    return length[1].strip() == str(len(body)).encode()
