"""A browser for the tests of the page."""

import shutil
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rela.report.page import write_page
from rela.report.results import load_results

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
WIDE = {"width": 1440, "height": 1000}
PHONE = {"width": 390, "height": 844}


def make(folder: Path, **options: Any) -> Path:
    """The page of a folder with results."""
    return write_page(load_results(folder), folder / "report.html", **options).path


class Windows:
    """Windows of a browser, by their options: one that is open is used again, which saves time."""

    def __init__(self, browser: Any) -> None:
        self.browser = browser
        self.pages: dict[str, Any] = {}

    def page(self, **options: Any) -> Any:
        name = repr(sorted(options.items()))
        if name not in self.pages:
            self.pages[name] = self.browser.new_context(reduced_motion="reduce", **options).new_page()
        return self.pages[name]


class Opened:
    """A page that notes every complaint and every request. Leaving it fails if there was one."""

    def __init__(
        self, windows: Windows, path: Path, *, hash: str = "", size: dict[str, int] = WIDE, **options: Any
    ) -> None:
        self.problems: list[str] = []
        self.page = windows.page(viewport=size, **options)
        self.listeners: dict[str, Any] = {
            "console": self.note_message,
            "pageerror": self.note_error,
            "request": self.note_request,
        }
        for event, listener in self.listeners.items():
            self.page.on(event, listener)
        self.page.mouse.move(0, 0)
        self.page.goto("about:blank")  # otherwise another place on the same page is no new page
        self.page.goto(f"{path.as_uri()}#{hash}")
        self.settle()

    def note_message(self, message: Any) -> None:
        self.problems.append(f"{message.type}: {message.text}")

    def note_error(self, error: Any) -> None:
        self.problems.append(str(error))

    def note_request(self, request: Any) -> None:
        if not request.url.startswith(("file:", "data:", "blob:", "about:")):
            self.problems.append(f"request: {request.url}")

    def settle(self) -> dict[str, Any]:
        """Waits until all is drawn; what the page shows."""
        return self.page.evaluate("async () => { await relaSettled(); return relaState; }")

    def matrix(self, place: int = 0) -> tuple[dict[str, Any], NDArray[np.float64]]:
        """What a pane shows, and its weights ``[row, column]``."""
        pane = {**self.settle()["panes"][place], **self.page.evaluate("place => relaMatrix(place)", place)}
        return pane, np.array(pane["values"]).reshape(len(pane["rows"]), len(pane["cols"]))

    def press(self, *keys: str) -> dict[str, Any]:
        for key in keys:
            self.page.keyboard.press(key)
        return self.settle()

    def click(self, selector: str) -> dict[str, Any]:
        self.page.locator(selector).first.click()
        return self.settle()

    def hover(self, selector: str) -> dict[str, Any]:
        self.page.locator(selector).first.hover()
        return self.settle()

    def switch(self, name: str, value: str) -> dict[str, Any]:
        return self.click(f'[data-switch="{name}"] [data-value="{value}"]')

    def text(self, selector: str) -> str:
        return self.page.locator(selector).first.inner_text()

    def pixels(self, selector: str = ".cells") -> int:
        """How many colours there are in a canvas."""
        return self.page.eval_on_selector(
            selector,
            "c => new Set(new Uint32Array(c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer)).size",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for event, listener in self.listeners.items():
            self.page.remove_listener(event, listener)
        self.page.evaluate("localStorage.clear()")
        if kind is None:
            assert self.problems == []
