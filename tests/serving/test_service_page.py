"""The page of the service in a browser."""

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from tests.report.browser import Windows
from tests.serving.served import make_models, served

TOKEN = "ein Geheimnis: ключ"
LIMITS = {"--sentences": 3, "--looks": 10_000}
LONG_WORD = "supercalifragilistic" * 30
FITS = "document.documentElement.scrollWidth <= innerWidth"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    model = make_models(tmp_path_factory.mktemp("page"), "rela-g")["rela-g"]
    limits = [str(part) for limit in LIMITS.items() for part in limit]
    with served(f"a={model}", f"b={model}", "--threads", "1", *limits, RELA_TOKEN=TOKEN) as (found, _):
        yield found


@pytest.fixture(params=[{"width": 1280, "height": 900}, {"width": 375, "height": 740}], ids=["wide", "phone"])
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


def translate(page: Any, text: str, other: str = "") -> Any:
    """The results, when they are here."""
    page.fill("#text", text)
    page.select_option("#other", other)
    page.press("#text", "Control+Enter")
    page.wait_for_selector("#translate-form [role=status]:text('translation')")
    return page.locator(".result")


def complaint(page: Any, form: str) -> str:
    """What a form says is wrong, when it does."""
    alert = page.locator(f"#{form} [role=alert]")
    alert.wait_for(state="visible")
    return alert.inner_text()


def active(page: Any) -> str:
    """The id of what has the focus."""
    return page.evaluate("document.activeElement.id")


def answer_with(page: Any, path: str, change: Callable[[Any], None]) -> None:
    """Let the next answer of a path come changed."""

    def handle(route: Any) -> None:
        asked = route.request
        headers = {b"authorization": f"Bearer {TOKEN}".encode(), b"content-type": b"application/json"}
        data = httpx.request(asked.method, asked.url, content=asked.post_data_buffer, headers=headers).json()
        change(data)
        route.fulfill(json=data)

    page.route(f"**{path}", handle, times=1)


def refuse(page: Any, path: str) -> None:
    """Let the next request of a path fail."""

    def handle(route: Any) -> None:
        route.fulfill(status=500, json={"detail": "out of order"})

    page.route(f"**{path}", handle, times=1)


def test_translate_by_keyboard_and_look_inside(page: Any):
    results = translate(page, "one two!\nfour!", other="b")
    assert page.inner_text("#translate-form [role=status]") == "2 translations by each model"
    assert results.count() == 2
    assert results.first.locator(".side").count() == 2
    assert page.locator(".words.source").first.inner_text() == "one two!"
    target = page.locator(".words.translation .word").first
    target.focus()
    linked = page.locator(".word.linked").count()
    assert ("linked with" in target.get_attribute("aria-label")) == (linked > 0)
    button = page.locator(".look").first
    button.focus()
    page.keyboard.press("Enter")
    assert button.get_attribute("aria-expanded") == "true"
    assert page.locator(".heads caption").all_inner_texts() == [
        "cross-attention",
        "encoder self-attention",
        "decoder self-attention",
    ]
    assert "counted in pieces of words" in page.locator(".side").first.inner_text()
    assert page.locator(".matrix-box[role=region]").is_hidden()
    words = {
        kind: page.locator(".side").first.locator(f".words.{kind} .word").count() for kind in ("source", "translation")
    }
    shapes = [("translation", "source"), ("source", "source"), ("translation", "translation")]
    for kind, (rows, columns) in enumerate(shapes):
        head = page.locator(".heads").nth(kind).locator(".head").last
        assert ("%" in head.inner_text()) == (kind == 0)
        head.press("Enter")
        head.and_(page.locator("[aria-pressed=true]")).wait_for()
        assert page.locator(".head[aria-pressed=true]").count() == 1
        assert page.locator(".matrix tbody tr").count() == words[rows]
        assert page.locator(".matrix thead th").count() == words[columns]
        name = head.get_attribute("aria-label").split(",")[0]
        assert name in page.get_by_role("region", name="weights of").get_attribute("aria-label")
        assert page.locator(".side p[role=status]").inner_text().startswith(name)
    assert (
        page.evaluate("document.querySelectorAll('[aria-live]').length") == 0
    )  # only status lines and alerts are read out


def test_weights_are_those_of_the_translation_that_is_shown(page: Any):
    page.select_option("#beam", "2")
    translate(page, "one two!")
    page.select_option("#beam", "8")
    page.select_option("#model", "b")
    page.click(".look")
    head = page.locator(".head")
    with page.expect_request("**/translate") as asked:
        head.first.click()
    assert (asked.value.post_data_json["model"], asked.value.post_data_json["beam"]) == ("a", 2)
    page.wait_for_selector(".matrix")
    before = page.inner_text(".matrix")
    answer_with(page, "/translate", lambda found: found["translations"][0].update(text="another one"))
    head.nth(1).click()
    said = page.locator(".side [role=alert]")
    said.wait_for()
    assert "translates this text differently" in said.inner_text()
    assert page.inner_text(".matrix") == before
    refuse(page, "/translate")
    head.nth(1).click()
    page.wait_for_selector(".side [role=alert]:text('out of order')")
    assert head.first.get_attribute("aria-pressed") == "true"
    assert head.nth(1).get_attribute("aria-pressed") == "false"
    assert page.inner_text(".matrix") == before


def test_one_tab_stop_a_sentence(page: Any):
    translate(page, "one two four five!\nfour!\n\u0648\u0627\u062d\u062f \u0627\u062b\u0646\u0627\u0646")
    assert active(page) == "text"
    lines = page.locator(".words[role=listbox]")
    for place in range(lines.count()):
        words = lines.nth(place).locator("[role=option]")
        assert words.and_(page.locator("[tabindex='0']")).count() == min(1, words.count())
    first = lines.first.locator(".word")
    first.first.press("ArrowRight")
    assert first.nth(1).evaluate("word => word === document.activeElement")
    assert first.nth(1).get_attribute("aria-selected") == "true"
    page.keyboard.press("End")
    assert first.last.evaluate("word => word === document.activeElement")
    assert lines.first.locator("[tabindex='0']").inner_text() == "!"
    arabic = page.locator(".words.source").last  # is read from right to left
    assert arabic.evaluate("line => getComputedStyle(line).direction") == "rtl"
    assert page.evaluate("document.getElementById('text').dir") == "auto"
    arabic.locator(".word").first.press("ArrowLeft")
    assert arabic.locator(".word").nth(1).evaluate("word => word === document.activeElement")
    page.click("nav a[href='#score-title']")
    page.keyboard.press("Tab")
    assert active(page) == "score-source"


def test_score_a_pair(page: Any):
    page.select_option("#score-model", "b")
    page.fill("#score-source", "one two!")
    page.fill("#score-target", "eins zwei acht!")
    page.press("#score-button", "Enter")
    page.wait_for_selector(".scores")
    assert active(page) == "score-button"
    assert page.inner_text("#score-form [role=status]").startswith("quality 0.")
    assert "scored by b" in page.inner_text("#score-result")
    assert page.locator("#score-result meter").get_attribute("aria-label") == "quality"
    assert page.locator("#score-result .words").inner_text() == "eins zwei acht!"
    assert page.locator(".scores tr").count() == 6


def test_a_service_without_scores_says_so(page: Any, address: str):
    page.goto(address)
    answer_with(
        page, "/models", lambda found: found.update(models=[{**one, "scores": False} for one in found["models"]])
    )
    page.fill("#token", TOKEN)
    page.press("#token", "Enter")
    page.wait_for_selector("#no-scores:not([hidden])")
    assert page.locator("#score-form").is_hidden()


def test_what_goes_wrong_is_said_beside_what_was_asked(page: Any):
    translate(page, "one two!")
    for text, words in (("a\n\n" + "b" * 4001, "Line 3 of the text has 4,001 characters"), (" \n", "write a text")):
        page.fill("#text", text)
        page.press("#translate-button", "Enter")
        assert words in complaint(page, "translate-form")
        assert page.locator(".result").count() == 0
        assert active(page) == "text"
        assert page.inner_text("#translate-form [role=status]") == ""
    page.fill("#score-source", "one two!")
    page.fill("#score-target", "eins zwei!")
    page.click("#score-button")
    page.wait_for_selector(".scores")
    page.fill("#score-source", "  ")
    page.click("#score-button")
    assert complaint(page, "score-form") == "Please write a source first."
    assert active(page) == "score-source"
    assert page.inner_text("#score-result") == ""
    refuse(page, "/score")
    page.fill("#score-source", "one")
    page.click("#score-button")
    page.wait_for_selector("#score-form [role=alert]:text-is('out of order')")
    page.fill("#score-source", "y " * 1999)
    page.fill("#score-target", "eins")
    page.click("#score-button")
    assert "longer than the model can read" in complaint(page, "score-form")
    assert active(page) == "score-button"


def test_more_than_a_request_may_have(page: Any):
    sent: list[tuple[int, bool]] = []

    def note(request: Any) -> None:
        if request.url.endswith("/translate"):
            sent.append((len(request.post_data_json["text"]), "heads" in request.post_data_json))

    page.on("request", note)
    lines = ["one two!", "four!", "two two", "four " * 70, "five"]
    results = translate(page, "\n".join(lines))
    page.remove_listener("request", note)
    assert page.locator(".words.source").all_inner_texts() == [line.strip() for line in lines]
    assert all(count <= LIMITS["--sentences"] for count, _ in sent)
    assert (1, False) in sent
    for place in range(len(lines)):
        assert ("too long to count" in results.nth(place).inner_text()) == (place == 3)
    long = results.nth(3)
    long.locator(".look").click()
    assert "%" not in long.locator(".heads").first.inner_text()
    long.locator(".head").first.click()
    page.wait_for_selector(".side [role=alert]:not([hidden])")
    assert "cannot be shown: heads and attention: expected at most" in page.inner_text(
        ".side [role=alert]:not([hidden])"
    )


def test_a_token_is_asked_for(page: Any, address: str):
    page.goto(address)
    assert complaint(page, "token-form") == "This service wants a token; whoever runs it can tell you."
    assert active(page) == "token"
    assert page.locator("#translate-form [role=alert]").is_hidden()
    page.fill("#text", "one")
    page.click("#translate-button")
    page.wait_for_selector("#token:focus")
    page.fill("#token", "ключа нет")
    page.press("#token", "Enter")
    page.wait_for_selector("#token-form [role=alert]:text('does not know this token')")
    page.fill("#token", TOKEN)
    page.press("#token", "Enter")
    page.wait_for_selector("#token-form", state="hidden")
    assert active(page) == "text"
    translate(page, "one")


def test_it_is_as_wide_as_the_window(page: Any):
    assert page.evaluate(FITS)
    results = translate(page, f"one, two\n{LONG_WORD} two.\n{LONG_WORD[:80]}", other="b")
    page.fill("#score-source", LONG_WORD)
    page.fill("#score-target", LONG_WORD)
    page.click("#score-button")
    page.wait_for_selector(".scores")
    results.last.locator(".look").first.click()
    page.locator(".heads").nth(1).locator(".head").first.click()
    page.wait_for_selector(".matrix")
    assert page.evaluate(FITS)
    line = page.locator(".words.source").first.locator(".word")
    word, comma = line.first.bounding_box(), line.nth(1).bounding_box()
    assert comma["x"] == pytest.approx(word["x"] + word["width"], abs=0.1)


def test_row_labels_stay_and_nothing_is_cut(page: Any):
    translate(page, "one two four five " * 7, other="b")
    page.locator(".look").first.click()
    page.locator(".heads").nth(1).locator(".head").first.click()
    page.wait_for_selector(".matrix")
    label, box = page.locator(".matrix tbody th").first, page.locator(".matrix-box[role=region]").first
    before = label.bounding_box()["x"]
    assert box.evaluate("box => { box.scrollLeft = 100; return box.scrollLeft; }") == 100
    assert label.bounding_box()["x"] == pytest.approx(before, abs=1)
    assert page.locator(".matrix thead td").evaluate("cell => getComputedStyle(cell).borderTopWidth") == "0px"
    caption = page.locator(".side p[role=status]").first
    assert caption.evaluate("line => line.scrollWidth <= line.clientWidth")
    assert page.evaluate(FITS)


CONTRASTS = """theme => {
  document.documentElement.dataset.theme = theme;
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const light = (colour) => {
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const parts = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map((one) => one / 255);
    const [r, g, b] = parts.map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (one, other) => {
    const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const keys = Array.from({ length: 101 }, (_, share) => `${share}`);
  const table = matrix({ queries: ["word"], keys, weights: [keys.map((share) => share / 100)], null: [false] });
  document.querySelector("main").append(table);
  const page = getComputedStyle(document.body).backgroundColor;
  const cells = [...table.querySelectorAll("tbody td")].map((cell) => getComputedStyle(cell));
  const boxes = [...document.querySelectorAll("textarea, select")].map((box) => getComputedStyle(box));
  const found = [
    Math.min(...cells.map((cell) => contrast(cell.color, cell.backgroundColor))),
    Math.min(...boxes.map((box) => contrast(box.borderTopColor, page))),
  ];
  table.remove();
  return found;
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_contrast(page: Any, theme: str):
    numbers, borders = page.evaluate(CONTRASTS, theme)
    assert numbers >= 4.5
    assert borders >= 3


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
    assert page.evaluate(FITS)
    broken = page.evaluate(
        "[...document.querySelectorAll('a[href^=\"#\"]')].filter(a => !document.getElementById(a.hash.slice(1))).length"
    )
    assert broken == 0
