"""Who may come in, and with what: all that is asked before a body is read."""

from __future__ import annotations

import contextlib
import hmac
from collections.abc import Collection, Mapping
from typing import Any, Final

from rela.serving.problems import RefusedError, shortened

_JSON: Final = "application/json"


class Door:
    """Middleware: the name by which the service is called, the token, and the type of what is sent.

    ``open_to_all`` are paths that need no token, ``takes_json`` those that get JSON. HEAD is answered as GET is; the
    body is left out on its way.
    """

    def __init__(
        self,
        app: Any,
        *,
        hosts: Collection[str],
        token: str | None,
        open_to_all: Collection[str],
        takes_json: Collection[str],
    ) -> None:
        self._app = app
        self._hosts = [_host_name(host) for host in hosts]
        self._tokens = None if token is None else _as_sent(token)
        self._open_to_all, self._takes_json = frozenset(open_to_all), frozenset(takes_json)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            self._check(scope["method"], scope["path"], dict(scope["headers"]))
        except RefusedError as refused:
            await refused.send(send)
            return
        await self._app({**scope, "method": "GET"} if scope["method"] == "HEAD" else scope, receive, send)

    def _check(self, method: str, path: str, headers: Mapping[bytes, bytes]) -> None:
        host = headers.get(b"host", b"").decode("latin-1")
        if self._hosts and host and _host_name(host) not in self._hosts:
            known = ", ".join(self._hosts)
            raise RefusedError(421, f"Host: expected one of {known}, got {shortened(host)}; see `rela serve --hosts`")
        if self._tokens is not None and path not in self._open_to_all:
            scheme, _, sent = headers.get(b"authorization", b"").partition(b" ")
            if scheme.lower() != b"bearer" or not any(hmac.compare_digest(sent, one) for one in self._tokens):
                raise RefusedError(401, "expected the service's token as `Authorization: Bearer TOKEN`")
        if method == "POST" and path in self._takes_json:
            kind = headers.get(b"content-type", b"").decode("latin-1")
            if kind.partition(";")[0].strip().lower() != _JSON:
                raise RefusedError(415, f"expected Content-Type: {_JSON}, got {shortened(kind) or 'none'}")


def _as_sent(token: str) -> list[bytes]:
    """Of letters beyond ASCII browsers send the bytes of Latin-1, others of UTF-8."""
    found = [token.encode()]
    with contextlib.suppress(UnicodeEncodeError):
        found.append(token.encode("latin-1"))
    return found


def _host_name(text: str) -> str:
    """Without a port, and an IPv6 address without its brackets."""
    name = text.strip().lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return (name if name.count(":") > 1 else name.partition(":")[0]).rstrip(".")
