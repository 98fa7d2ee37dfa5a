"""The page of the service in a browser."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.report.browser import PHONE, WIDE, Windows
from tests.serving.served import make_models, served

TOKEN = "a secret"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    model = make_models(tmp_path_factory.mktemp("page"), "rela-g")["rela-g"]
    with served(f"a={model}", f"b={model}", "--threads", "1", RELA_TOKEN=TOKEN) as (found, _):
        yield found


@pytest.fixture(params=[WIDE, PHONE], ids=["wide", "phone"])
def page(request: pytest.FixtureRequest, browser: Windows, address: str) -> Iterator[Any]:
    """The page, after the token was given; leaving it fails if it complained, or asked anybody else for anything."""
    page = browser.page(viewport=request.param)
    problems: list[str] = []

    def note_request(asked: Any) -> None:
        if not asked.url.startswith((address, "data:")):
            problems.append(asked.url)

    def note_message(message: Any) -> None:
        if "the server responded with a status of" not in message.text:  # the page itself says those
            problems.append(message.text)

    def note_error(error: Any) -> None:
        problems.append(str(error))

    listeners = {
        "request": note_request,
        "console": note_message,
        "pageerror": note_error,
    }
    for event, listener in listeners.items():
        page.on(event, listener)
    page.goto(address)
    page.fill("#token", TOKEN)
    page.press("#token", "Enter")
    page.wait_for_selector("#model option", state="attached")
    yield page
    for event, listener in listeners.items():
        page.remove_listener(event, listener)
    assert problems == []


def test_translate_by_keyboard_and_look_inside(page: Any):
    page.fill("#text", "one two!\nfour!")
    page.select_option("#other", "b")
    page.press("#text", "Control+Enter")
    page.wait_for_selector(".result")
    assert page.locator(".result").count() == 2
    assert page.locator(".result").first.locator(".side").count() == 2
    assert page.locator(".words.source").first.inner_text() == "one two!"
    target = page.locator(".words.target .word").first
    target.focus()
    linked = page.locator(".word.linked").count()
    assert ("linked with" in target.get_attribute("aria-label")) == (linked > 0)
    button = page.locator(".look").first
    button.focus()
    page.keyboard.press("Enter")
    assert button.get_attribute("aria-expanded") == "true"
    assert page.locator(".head").count() == 2
    page.locator(".head").nth(1).press("Enter")
    page.wait_for_selector(".matrix")
    assert (
        page.locator(".matrix tbody tr").count() == page.locator(".side").first.locator(".words.target .word").count()
    )
    assert page.locator(".head[aria-pressed=true]").count() == 1


def test_score_a_pair(page: Any):
    page.fill("#score-source", "one two!")
    page.fill("#score-target", "eins zwei acht!")
    page.click("#score-button")
    page.wait_for_selector(".scores")
    assert page.locator("#score-result meter").get_attribute("aria-label") == "quality"
    assert page.locator("#score-result .words").inner_text() == "eins zwei acht!"
    assert page.locator(".scores tr").count() == 6


def test_what_goes_wrong_is_said(page: Any):
    page.fill("#text", "a" * 4001)
    page.click("#translate-button")
    page.wait_for_selector("#alert:not([hidden])")
    assert "expected at most 4,000 characters" in page.locator("#alert").inner_text()
    assert page.locator("#translate-button").is_enabled()


def test_it_is_as_wide_as_the_window(page: Any):
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_reference_is_read_and_tried(page: Any, address: str):
    page.goto(f"{address}/docs")
    assert page.locator("section.route h2").all_inner_texts() == [
        "POST /translate",
        "POST /score",
        "GET /models",
        "GET /healthz",
        "GET /metrics",
    ]
    assert page.locator("#schema-TranslateRequest").count() == 1
    page.click("[data-path='/models']")
    page.wait_for_selector("#get-models-answer:not([hidden])")
    assert page.inner_text("#get-models-answer").startswith("401")
    page.fill("#token", TOKEN)
    page.press("#token", "Tab")
    for name, start in (("post-translate", "200"), ("post-score", "200"), ("get-metrics", "200")):
        page.focus(f"[data-name='{name}']")
        page.keyboard.press("Enter")
        page.wait_for_selector(f"#{name}-answer:not([hidden])")
        assert page.inner_text(f"#{name}-answer").startswith(start), page.inner_text(f"#{name}-answer")
    assert '"translations"' in page.inner_text("#post-translate-answer")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    broken = page.evaluate(
        "[...document.querySelectorAll('a[href^=\"#\"]')].filter(a => !document.getElementById(a.hash.slice(1))).length"
    )
    assert broken == 0
