"""What the tests of the page share: a browser for each file of tests, and a page."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.report.browser import BROWSER, Windows, make
from tests.report.helpers import write_results


@pytest.fixture(scope="module")
def browser() -> Iterator[Windows]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
    if BROWSER is None:
        pytest.skip("needs Chromium: tools/get-browser installs it, or apt install chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield Windows(browser)
        browser.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of two models, with nine sentences."""
    return write_results(tmp_path_factory.mktemp("page"), layers=2, heads=3, sentences=6, words=10)


@pytest.fixture(scope="module")
def path(folder: Path) -> Path:
    """The page of these results."""
    return make(folder)
