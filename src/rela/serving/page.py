"""The page at ``/``: one text, read once. Nothing in it comes from elsewhere."""

from __future__ import annotations

from importlib import resources
from typing import Final


def _read(name: str, room: str = "serving") -> str:
    return resources.files(f"rela.{room}").joinpath("assets", name).read_text(encoding="utf-8")


_STYLE: Final = _read("page.css", "report") + _read("page.css")  # colours and letters are those of the microscope
PAGE: Final = _read("page.html").replace("/*STYLE*/", _STYLE).replace("/*SCRIPT*/", _read("page.js"))

SECURITY_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
