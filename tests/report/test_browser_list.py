"""The page in a browser: the list of sentences follows the one that is looked at."""

from pathlib import Path
from typing import Any

import pytest
from tests.report.browser import PHONE, WIDE, Opened, Windows, make
from tests.report.helpers import edit_results, write_results


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page whose list is many times as long as its box; its rows are higher than the estimate of those not drawn."""
    folder = write_results(
        tmp_path_factory.mktemp("list"), ("rela-g",), layers=1, heads=2, sentences=180, words=32, findings=1
    )

    def change(data: dict[str, Any]) -> None:
        data["models"][0]["findings"][1]["sentence"] = 150

    return make(edit_results(folder, change))


def place(page: Opened) -> tuple[int, float, float]:
    """Which row is marked once all is quiet; how far it is below the upper edge of the list, and above the lower."""
    later = """() => new Promise((done) => setTimeout(() => {
        const list = document.querySelector("#sentence-list").getBoundingClientRect();
        const row = document.querySelector('.sentence[aria-current="true"]');
        const box = row.getBoundingClientRect();
        done([Number(row.dataset.id), box.top - list.top, list.bottom - box.bottom]);
    }, 300))"""
    return tuple(page.page.evaluate(later))


@pytest.mark.parametrize("size", [WIDE, PHONE])
class TestTheListFollows:
    @staticmethod
    def check(page: Opened, sentence: int) -> None:
        page.page.wait_for_function(
            "wanted => document.querySelector('.sentence[aria-current=\"true\"]')?.dataset.id === wanted",
            arg=str(sentence),
        )
        number, above, below = place(page)
        assert number == sentence
        assert min(above, below) >= 0, (above, below)

    def test_keys(self, browser: Windows, path: Path, size: dict[str, int]):
        with Opened(browser, path, hash="s=0&a=0.1.0", size=size) as page:
            page.press(*"j" * 20)
            self.check(page, 20)
            assert page.page.evaluate("scrollY") == 0  # the list alone
            page.press(*"k" * 15)
            self.check(page, 5)

    def test_the_address(self, browser: Windows, path: Path, size: dict[str, int]):
        with Opened(browser, path, hash="s=165&a=0.1.0", size=size) as page:
            self.check(page, 165)
            page.page.evaluate("location.hash = '#s=40&a=0.1.0'")
            self.check(page, 40)
            assert page.page.evaluate("scrollY") == 0

    def test_rows_that_are_drawn_later(self, browser: Windows, path: Path, size: dict[str, int]):
        """Far down the page no row is drawn at first: heights are known once one scrolls there."""
        with Opened(browser, path, hash="s=100&a=0.1.0", size=size) as page:
            page.page.evaluate("document.querySelector('#sentences').style.marginTop = '9000px'")
            page.page.evaluate("location.hash = '#s=165&a=0.1.0'")
            self.check(page, 165)
            page.page.evaluate("document.querySelector('#sentences').scrollIntoView()")
            self.check(page, 165)

    def test_not_when_one_scrolls_it(self, browser: Windows, path: Path, size: dict[str, int]):
        with Opened(browser, path, hash="s=100&a=0.1.0", size=size) as page:
            page.page.locator("#sentence-list").hover()
            place(page)
            for _ in range(5):
                page.page.mouse.wheel(0, 600)
                page.page.wait_for_timeout(100)
            _, above, _ = place(page)
            assert above < -1000

    def test_findings_and_sorting(self, browser: Windows, path: Path, size: dict[str, int]):
        with Opened(browser, path, hash="s=0&a=0.1.0", size=size) as page:
            page.click(".finding >> nth=1")
            self.check(page, 150)
            for sort in ("loss", "null", "file"):
                page.page.locator("#sort").select_option(sort)
                self.check(page, 150)
                page.click("#order")
                self.check(page, 150)
