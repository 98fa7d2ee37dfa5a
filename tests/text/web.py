"""A web server of the tests' own, with all the faults that servers have."""

import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Page:
    """A file of the server. Lists hold what happens at the first requests; later ones go well."""

    data: bytes
    etag: str | None = '"v1"'
    last_modified: str | None = None
    ranges: bool = True
    breaks: list[int] = field(default_factory=list[int])  # after so many bytes of the answer
    statuses: list[int] = field(default_factory=list[int])
    says_length: bool = True
    redirect: str | None = None
    delay: float = 0.0
    content_range: str | None = None  # in place of the right one


class Web:
    """The server: pages by path, and what it was asked."""

    def __init__(self) -> None:
        self.pages: dict[str, Page] = {}
        self.requests: list[tuple[str, dict[str, str]]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = False  # so that closing waits for all of them
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}{path}"

    def ranges(self) -> list[str | None]:
        return [headers.get("Range") for _, headers in self.requests]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        web = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                web.requests.append((self.path, dict(self.headers)))
                page = web.pages.get(self.path)
                if page is None:
                    self.send_error(404)
                elif page.redirect is not None:
                    self.send_response(302)
                    self.send_header("Location", page.redirect)
                    self.end_headers()
                elif page.statuses:
                    self.send_error(page.statuses.pop(0))
                else:
                    self._send(page)

            def _send(self, page: Page) -> None:
                time.sleep(page.delay)
                start = self._start(page)
                if start is not None and start >= len(page.data):
                    self.send_response(416)
                    self.send_header("Content-Range", f"bytes */{len(page.data)}")
                    self.end_headers()
                    return
                body = page.data[start or 0 :]
                self.send_response(200 if start is None else 206)
                if start is not None:
                    whole = f"bytes {start}-{len(page.data) - 1}/{len(page.data)}"
                    self.send_header("Content-Range", page.content_range or whole)
                if page.says_length:
                    self.send_header("Content-Length", str(len(body)))
                for name, value in (("ETag", page.etag), ("Last-Modified", page.last_modified)):
                    if value:
                        self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body[: page.breaks.pop(0)] if page.breaks else body)

            def _start(self, page: Page) -> int | None:
                asked = self.headers.get("Range")
                condition = self.headers.get("If-Range")
                if not asked or not page.ranges or (condition and condition not in (page.etag, page.last_modified)):
                    return None
                return int(asked.removeprefix("bytes=").removesuffix("-"))

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler
