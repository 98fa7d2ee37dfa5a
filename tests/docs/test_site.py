"""The documentation as a site: it builds without a warning, takes nothing from the network, and can be searched."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright
from tests.report.browser import BROWSER

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "docs", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def test_nothing_comes_from_elsewhere(site: Path):
    pages = list(site.glob("**/*.html"))
    assert len(pages) > 20
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"""<(script|img|iframe|link)\b[^>]*\b(src|href)=["'](https?:)?//""", text), page
    for sheet in site.glob("**/*.css"):
        assert not re.search(r"(url\(|@import)\s*[\"']?(https?:)?//", sheet.read_text(encoding="utf-8")), sheet


def test_every_public_name_is_in_the_reference(site: Path):
    import rela

    text = (site / "reference" / "library.html").read_text(encoding="utf-8")
    missing = [name for name in rela.__all__ if f'id="rela.{name}"' not in text]
    assert missing == ["__version__", "attention", "functional"]
    text = (site / "reference" / "functional.html").read_text(encoding="utf-8")
    assert all(f'id="rela.functional.{name}"' in text for name in rela.functional.__all__)


def test_every_command_is_in_the_reference(site: Path):
    from rela.cli._commands import COMMANDS

    text = (site / "reference" / "commands.html").read_text(encoding="utf-8")
    assert all(f"Usage: rela {command.name} " in text for command in COMMANDS)


def test_formulas_are_mathml(site: Path):
    text = (site / "mathematics.html").read_text(encoding="utf-8")
    assert text.count("<math") > 40
    assert "$$" not in text


def test_search_without_a_network(site: Path):
    if BROWSER is None:
        pytest.skip("needs Chromium: tools/get-browser installs it, or apt install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        page = browser.new_context(offline=True).new_page()
        errors: list[str] = []
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.goto(f"{(site / 'search.html').as_uri()}?q=threshold")
        page.locator("ul.search li", has_text="sieve").first.wait_for()  # results come one after the other
        browser.close()
    assert errors == []
