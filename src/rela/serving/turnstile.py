"""A count of requests at work, and a word for those that are too many: said before anything of them is read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Final

_MOST_HELD: Final = 1 << 16  # bytes of a request that may be refused; longer ones are read
_HEAD_END: Final = b"\r\n\r\n"
_LENGTH: Final = re.compile(rb"\ncontent-length:([^\r\n]*)\r")
_CONNECTION: Final = re.compile(rb"\nconnection:([^\r\n]*)\r")
_MORE_TO_DO: Final = re.compile(rb"\n(?:expect|transfer-encoding|upgrade)\b")
"""With these it is not enough to answer: they go the long way, and are refused at its end."""
_ORIGIN: Final = re.compile(rb"\norigin\b")


class Turnstile:
    """Counts the requests that have come and are not answered, over all connections.

    What is asked thousands of times a second costs more to read than to compute: a service that reads everything to
    refuse most of it does nothing else. When ``most`` are inside, others get a 503 at once.

    Args:
        most: more than this cannot all have a place: each has at least one sentence, in the queue or in a batch.
        routes: the addresses that can be refused so; all others cost little.
        origins: whether pages of elsewhere may ask: their answers need headers that are not known here.
        retry_after: seconds until there may be room.
        count: is told the address of what was refused.
    """

    def __init__(
        self,
        most: int,
        *,
        routes: tuple[str, ...],
        origins: bool = False,
        retry_after: Callable[[], int],
        count: Callable[[str], object],
    ) -> None:
        self._most, self._origins, self._retry_after, self._count = most, origins, retry_after, count
        self._routes = {f"POST {route} HTTP/1.1".encode(): route for route in routes}
        self._inside = 0

    def enter(self) -> None:
        """A request has come to its end."""
        self._inside += 1

    def leave(self) -> None:
        """It was answered, or given up."""
        self._inside -= 1

    def may_refuse(self, data: bytes) -> bool:
        """Whether a request that begins so is to be held until all of it is there."""
        return self._missing(data) > 0

    def refusal(self, data: bytes) -> bytes | None:
        """The answer to these bytes, if they are one whole request that finds no room."""
        if self._missing(data) != 0:
            return None
        line, _, rest = data.partition(b"\r\n")
        self._count(self._routes[line])
        seconds = self._retry_after()
        detail = json.dumps({"detail": f"too many requests wait; try again in {seconds} s"})
        closes = "connection: close\r\n" if closes_after(rest) else ""
        return (
            "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\n"
            f"content-length: {len(detail)}\r\nretry-after: {seconds}\r\n{closes}\r\n{detail}"
        ).encode()

    def _missing(self, data: bytes) -> int:
        """So many bytes, at least, are missing of a request that will be refused; -1 if it will not."""
        if self._inside < self._most or len(data) > _MOST_HELD:
            return -1
        line, end, _ = data.partition(b"\r\n")
        if not end:
            return 1 if any(known.startswith(line.rstrip(b"\r")) for known in self._routes) else -1
        if line not in self._routes:
            return -1
        head, end, body = data.partition(_HEAD_END)
        if not end:
            return 1
        lines = head.lower() + end
        length = _LENGTH.search(lines)
        if length is None or not (text := length[1].strip()).isdigit() or lines.count(b"content-length") > 1:
            return -1
        if _MORE_TO_DO.search(lines) or (self._origins and _ORIGIN.search(lines)):
            return -1
        if any(one[1].strip() not in (b"keep-alive", b"close") for one in _CONNECTION.finditer(lines)):
            return -1
        whole = int(text) if len(text) <= len(str(_MOST_HELD)) else _MOST_HELD + 1
        return whole - len(body) if len(body) <= whole <= _MOST_HELD else -1


def closes_after(request: bytes) -> bool:
    """Whether a request of one answer asks for its connection to be closed after it."""
    head = request.partition(_HEAD_END)[0].lower() + b"\r"
    return any(one[1].strip() == b"close" for one in _CONNECTION.finditer(b"\n" + head))
