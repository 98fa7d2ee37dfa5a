"""The page at ``/``: one text, read once. Nothing in it comes from elsewhere."""

from __future__ import annotations

from importlib import resources
from typing import Final


def read_asset(name: str, room: str = "serving") -> str:
    """A file of a room's pages."""
    return resources.files(f"rela.{room}").joinpath("assets", name).read_text(encoding="utf-8")


# Colours and letters are those of the microscope.
STYLE: Final = read_asset("page.css", "report") + read_asset("page.css")
_SCRIPTS: Final = ("elements", "token", "asking", "translations", "microscope", "scores", "page")  # the last one begins
SCRIPT: Final = "\n".join(read_asset(f"{name}.js") for name in _SCRIPTS)
PAGE: Final = read_asset("page.html").replace("/*STYLE*/", STYLE).replace("/*SCRIPT*/", SCRIPT)

SECURITY_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
