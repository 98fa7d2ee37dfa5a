"""The page in a real browser: it loads in silence and alone, and its parts do what they say."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.report.helpers import write_results

from rela.report.encoding import decode_weights, encode_weights
from rela.report.page import write_page
from rela.report.results import load_results

sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs Chromium: apt install chromium, or tools/get-browser")

WIDE = {"width": 1440, "height": 1000}
PHONE = {"width": 390, "height": 844}


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


@pytest.fixture(scope="module")
def browser() -> Iterator[Windows]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield Windows(browser)
        browser.close()


class Opened:
    """A page that notes every complaint and every request. Leaving it fails if there was one."""

    def __init__(
        self, windows: Windows, path: Path, *, hash: str = "", size: dict[str, int] = WIDE, **options: Any
    ) -> None:
        self.problems: list[str] = []
        self.page = windows.page(viewport=size, **options)
        self.listeners: dict[str, Any] = {
            "console": lambda message: self.problems.append(f"{message.type}: {message.text}"),
            "pageerror": lambda error: self.problems.append(str(error)),
            "request": lambda request: self.note_request(request.url),
        }
        for event, listener in self.listeners.items():
            self.page.on(event, listener)
        self.page.mouse.move(0, 0)
        self.page.goto("about:blank")  # otherwise another place on the same page is no new page
        self.page.goto(f"{path.as_uri()}#{hash}")
        self.settle()

    def note_request(self, address: str) -> None:
        if not address.startswith(("file:", "data:", "blob:", "about:")):
            self.problems.append(f"request: {address}")

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

    def __enter__(self) -> "Opened":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for event, listener in self.listeners.items():
            self.page.remove_listener(event, listener)
        self.page.evaluate("localStorage.clear()")
        if kind is None:
            assert self.problems == []


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_results(tmp_path_factory.mktemp("page"), layers=2, heads=3, sentences=6, words=10)


@pytest.fixture(scope="module")
def path(folder: Path) -> Path:
    return write_page(load_results(folder), folder / "report.html").path


def make(folder: Path, **options: Any) -> Path:
    return write_page(load_results(folder), folder / "report.html", **options).path


class TestOverview:
    def test_header_charts_and_grids(self, browser: Windows, path: Path):
        with Opened(browser, path) as page:
            assert page.text("#title") == "test.en → test.de"
            assert "1,000 sentence pairs" in page.text("#facts")
            assert "9 of 9" in page.text("#models")
            assert page.page.locator("#charts figure").count() == 12
            assert page.page.locator(".head-cell").count() == 2 * 3 * 2 * 3
            assert page.text("#notices") == ""

    def test_chart_tooltip_has_number_and_signature(self, browser: Windows, path: Path, folder: Path):
        with Opened(browser, path) as page:
            page.page.locator("#charts figure").nth(3).locator("svg").hover(position={"x": 45, "y": 60})
            tip = page.text(".tooltip")
            value = load_results(folder).models[0].measures["encoder.null.layer"].value[0]
            assert f"{100 * value:.1f}%" in tip
            assert "encoder.null.layer|data:test" in tip

    def test_all_numbers(self, browser: Windows, path: Path):
        with Opened(browser, path) as page:
            page.click(".chart-title")
            assert page.page.locator("#explorer-measure").input_value() == "encoder.sparsity.layer"
            page.page.locator("#explorer-measure").select_option("cross.null.tag")
            assert "cross.null.tag|data:test" in page.text("#explorer-numbers")
            assert "PUNCT ,, layer 2" in page.text("#explorer-numbers")

    def test_a_finding_leads_to_its_place(self, browser: Windows, path: Path):
        with Opened(browser, path, hash="s=4&a=0.1.0&b=1.1.0&kind=encoder") as page:
            state = page.click(".finding")
            assert (state["kind"], state["sentence"]) == ("cross", 0)
            assert state["sides"][0] == {"model": 0, "layer": 1, "head": 1}
            assert page.page.locator("#panes").is_visible()

    def test_a_click_on_a_head_shows_it(self, browser: Windows, path: Path, folder: Path):
        with Opened(browser, path) as page:
            state = page.click('[data-head="1.encoder.1.2"]')
            assert state["kind"] == "encoder"
            assert state["active"] == 1  # the side that has the model
            assert state["sides"][1] == {"model": 1, "layer": 1, "head": 2}
            assert page.page.locator('[data-head="1.encoder.1.2"]').get_attribute("aria-pressed") == "true"
            weights = load_results(folder).examples.weights(1, "encoder", state["sentence"])  # pyright: ignore[reportOptionalMemberAccess] (it is there)
            assert weights is not None
            assert state["panes"][1]["facts"]["max"] > 0

    def test_colour_of_grids(self, browser: Windows, path: Path, folder: Path):
        with Opened(browser, path) as page:
            page.page.locator("#colour").select_option("sparsity")
            value = load_results(folder).models[0].measures["cross.sparsity"].value[0, 0]
            assert page.text('[data-head="0.cross.0.0"]') == str(round(100 * value))
            page.page.locator("#colour").select_option("aer.normal.merged")
            assert page.page.locator(".head-grid.empty").count() == 4  # encoder and decoder have none


class TestMatrix:
    """What is drawn is what the model did: against the arrays."""

    @staticmethod
    def expected(folder: Path, model: int, kind: str, sentence: int, layer: int, head: int) -> Any:
        examples = load_results(folder).examples
        assert examples is not None
        weights = examples.weights(model, kind, sentence)
        assert weights is not None
        return decode_weights(*encode_weights(weights))[layer, head], examples.sentences[sentence]

    @pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
    def test_pieces(self, browser: Windows, path: Path, folder: Path, kind: str):
        weights, sentence = self.expected(folder, 0, kind, 2, 1, 2)
        with Opened(browser, path, hash=f"s=2&a=0.2.2&kind={kind}&level=piece&shift=normal") as page:
            pane, shown = page.matrix()
        np.testing.assert_allclose(shown, weights, rtol=1e-5, atol=1e-7)
        assert pane["nullRows"] == (weights == 0).all(-1).astype(int).tolist()
        allowed = np.tri(*weights.shape, dtype=int) if kind == "decoder" else np.ones(weights.shape, int)
        assert pane["allowed"] == allowed.ravel().tolist()
        assert pane["rows"][-1] == "EOS"
        assert pane["cols"][0] == ("BOS" if kind == "decoder" else sentence["source_words"][0])

    @pytest.mark.parametrize("shift", ["normal", "shifted"])
    def test_words(self, browser: Windows, path: Path, folder: Path, shift: str):
        weights, sentence = self.expected(folder, 0, "cross", 2, 1, 2)
        model = sentence["models"][0]
        with Opened(browser, path, hash=f"s=2&a=0.2.2&kind=cross&level=word&shift={shift}") as page:
            pane, shown = page.matrix()
        extra_row = ["BOS"] if shift == "shifted" else []
        assert pane["rows"] == extra_row + sentence["target_words"] + ([] if extra_row else ["EOS"])
        assert pane["cols"] == [*sentence["source_words"], "EOS"]
        for number in range(len(sentence["target_words"])):
            queries = [
                place + (shift == "shifted")
                for place, words in enumerate(model["target_piece_words"])
                if number in words
            ]
            for other in range(len(sentence["source_words"])):
                keys = [place for place, words in enumerate(model["source_piece_words"]) if other in words]
                value = weights[np.ix_(queries, keys)].sum(1).mean()
                assert shown[number + len(extra_row), other] == pytest.approx(value, rel=1e-4, abs=1e-6)
        assert shown[:, -1] == pytest.approx(
            [weights[0, -1], *shown[1:, -1]] if extra_row else [*shown[:-1, -1], weights[-1, -1]]
        )

    def test_error_rate_of_a_head(self, browser: Windows, path: Path, folder: Path):
        with Opened(browser, path, hash="s=2&a=0.2.2&kind=cross&level=piece&shift=normal") as page:
            pieces = page.settle()["panes"][0]
            page.press("w")
            words, shown = page.matrix()
        assert pieces["facts"]["error"] == words["facts"]["error"]
        _, sentence = self.expected(folder, 0, "cross", 2, 1, 2)
        shown = shown[:-1, :-1]  # EOS is no word
        links = {(int(row.argmax()), place) for place, row in enumerate(shown) if row.max() > 0}
        sure, possible = ({tuple(link) for link in sentence[name]} for name in ("sure", "possible"))
        rate = 1 - (len(links & sure) + len(links & possible)) / (len(links) + len(sure))
        assert words["facts"]["error"] == pytest.approx(rate)

    def test_zero_null_small_and_forbidden_look_different(self, browser: Windows, tmp_path: Path):
        folder = write_results(tmp_path, ("rela-g",), layers=1, heads=1, sentences=1, words=4)
        path = folder / "attention.npz"
        with np.load(path) as archive:
            arrays = dict(archive)
        size = arrays["0.decoder.0"].shape[-1]
        weights = np.zeros((1, 1, size, size), np.float32)
        weights[0, 0, 2, :2] = (1, 1e-6)
        arrays["0.decoder.0"] = weights
        np.savez_compressed(path, **arrays)  # pyright: ignore[reportArgumentType] (of any shape and type)
        with Opened(browser, make(folder), hash="s=0&a=0.1.0&kind=decoder&level=piece&zoom=24") as page:
            look = """(canvas, places) => {
                const size = Math.round(24 * devicePixelRatio);
                const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
                const pixels = new Uint32Array(data.buffer);
                return places.map(([row, col]) => {
                    const seen = new Set();
                    for (let y = row * size + 1; y < (row + 1) * size - 2; y += 1)
                        for (let x = col * size + 1; x < (col + 1) * size - 2; x += 1) seen.add(pixels[y * canvas.width + x]);
                    return [...seen].sort().join(" ");
                });
            }"""
            places = {"large": [2, 0], "small": [2, 1], "zero": [2, 2], "null": [1, 0], "forbidden": [1, 2]}
            found = page.page.eval_on_selector(".cells", look, list(places.values()))
            looks: dict[str, str] = dict(zip(places, found, strict=True))
            assert len(set(looks.values())) == 5, looks
            assert len(looks["small"].split()) == 1  # one plain colour
            assert page.page.locator(".row-labels .label.null .null-mark").count() == size - 1

    def test_weights_below_zero(self, browser: Windows, tmp_path: Path):
        folder = write_results(tmp_path, ("leaky",), layers=1, heads=2, sentences=1, words=6)
        weights, _ = self.expected(folder, 0, "cross", 0, 0, 1)
        with Opened(browser, make(folder), hash="s=0&a=0.1.1&kind=cross&level=piece") as page:
            assert np.min(weights) < 0
            np.testing.assert_allclose(page.matrix()[1], weights, rtol=1e-5)
            assert "below 0" in page.text(".scale")
            page.press("v")


class TestViewer:
    def test_every_switch(self, browser: Windows, path: Path):
        with Opened(browser, path, hash="s=0&a=0.1.0&b=1.1.0&kind=cross") as page:
            for name, values in {
                "kind": ["encoder", "decoder", "cross"],
                "level": ["piece", "word"],
                "shift": ["shifted", "normal"],
                "view": ["links", "heatmap"],
                "scale": ["row", "head"],
                "gold": ["off", "on"],
            }.items():
                for value in values:
                    state = page.switch(name, value)
                    assert state[name] == value
                    pressed = page.page.locator(f'[data-switch="{name}"] [aria-pressed="true"]')
                    assert pressed.get_attribute("data-value") == value
            before = page.settle()["panes"][0]["cell"]
            assert page.click('[aria-label="smaller cells (−)"]')["panes"][0]["cell"] < before
            assert page.switch("zoom", "fit")["zoom"] == "fit"
            assert len(page.switch("compare", "false")["panes"]) == 1
            assert len(page.switch("compare", "true")["panes"]) == 2

    def test_a_hovered_word_shows_its_links(self, browser: Windows, path: Path):
        with Opened(browser, path, hash="s=0&a=0.2.1&b=1.2.1&kind=cross&level=word&shift=normal") as page:
            pane, values = page.matrix()
            row = int(np.flatnonzero((values > 0).any(1))[0])
            state = page.hover(f".row-labels .label:nth-child({row + 1})")
            assert state["hover"]["row"] == pane["rows"][row]
            linked = page.page.locator(".pane").first.locator(".col-labels .linked")
            assert linked.count() == (values[row] > 0).sum()
            # The other side, and the text above, show the same word.
            assert page.page.locator(".pane").nth(1).locator(".row-labels .current").inner_text() == pane["rows"][row]
            assert page.page.locator(".strip.source .linked").count() == (values[row, :-1] > 0).sum()
            col = int(np.flatnonzero((values > 0).any(0))[0])
            page.hover(f".col-labels .label:nth-child({col + 1})")
            linked = page.page.locator(".pane").first.locator(".row-labels .linked")
            assert linked.count() == (values[:, col] > 0).sum()

    def test_hover_in_the_links(self, browser: Windows, path: Path):
        with Opened(browser, path, hash="s=0&a=0.2.1&kind=cross&level=word&shift=normal&view=links") as page:
            pane, values = page.matrix()
            col = int(np.flatnonzero((values > 0).any(0))[0])
            page.hover(f".keys .word:nth-child({col + 1})")
            assert page.page.locator(".queries .linked").count() == (values[:, col] > 0).sum()
            assert page.page.locator(".queries .null").count() == sum(pane["nullRows"])

    def test_hover_in_the_text(self, browser: Windows, path: Path):
        with Opened(browser, path, hash="s=0&a=0.2.1&kind=cross&level=piece") as page:
            state = page.hover(".strip.source .strip-word >> nth=1")
            assert state["hover"]["col"] == "old"
            assert page.page.locator(".col-labels .current").inner_text() == "old"

    def test_a_cell_is_read_out_and_held(self, browser: Windows, path: Path):
        with Opened(browser, path, hash="s=0&a=0.2.1&kind=cross&level=word&shift=normal&zoom=24") as page:
            pane, values = page.matrix()
            row, col = (int(place) for place in np.unravel_index(values.argmax(), values.shape))
            spot = {"x": col * 24 + 12, "y": row * 24 + 12}
            page.page.locator(".overlay").hover(position=spot)
            assert pane["rows"][row] in page.text(".readout")
            assert float(page.text(".readout b")) == pytest.approx(values.max(), rel=0.01)
            page.page.locator(".overlay").click(position=spot)
            page.page.mouse.move(5, 5)
            state = page.settle()
            assert state["hover"]["pinned"]
            assert state["hover"]["col"] == pane["cols"][col]
            assert page.press("Escape")["hover"]["col"] is None

    def test_thumbnails_choose_heads(self, browser: Windows, path: Path):
        with Opened(browser, path, hash="s=0&a=0.1.0&kind=cross") as page:
            assert page.page.locator(".thumbnail").count() == 6
            assert page.click(".thumbnail >> nth=5")["sides"][0] == {"model": 0, "layer": 1, "head": 2}

    def test_search_and_sort(self, browser: Windows, path: Path, folder: Path):
        sentences = load_results(folder).examples.sentences  # pyright: ignore[reportOptionalMemberAccess] (they are there)
        with Opened(browser, path, hash="a=0.1.0&kind=cross") as page:
            page.page.locator("#search").fill("HOUSE mismatched")
            words = [{word.lower() for word in sentence["source_words"]} for sentence in sentences]
            expected = [
                place
                for place, found in enumerate(words)
                if "house" in found and sentences[place]["role"] == "mismatched"
            ]
            assert page.settle()["found"] == expected
            page.page.locator("#search").fill("nowhere")
            assert page.settle()["found"] == []
            assert page.text("#sentence-count") == "0 of 9 sentences"
            page.page.locator("#search").fill("")
            for sort, value in {
                "null": lambda sentence: sentence["models"][0]["null"]["cross"],
                "aer": lambda sentence: sentence["models"][0]["aer"],
                "length": lambda sentence: len(sentence["source_words"]) + len(sentence["target_words"]),
                "loss": lambda sentence: sentence["models"][0]["loss"],
            }.items():
                page.page.locator("#sort").select_option(sort)
                for _ in range(2):
                    state = page.settle()
                    numbers = [value(sentences[place]) for place in state["found"]]
                    assert numbers == sorted(numbers, reverse=state["order"] == "down"), sort
                    page.click("#order")

    def test_keyboard(self, browser: Windows, path: Path):
        with Opened(browser, path, hash="s=0&a=0.1.0&b=1.1.0&kind=cross&level=word&shift=normal") as page:
            assert page.press("j", "ArrowDown")["sentence"] == 2
            assert page.press("k")["sentence"] == 1
            assert page.press("l", "]")["sides"][0] == {"model": 0, "layer": 0, "head": 2}
            assert page.press("l")["sides"][0] == {"model": 0, "layer": 1, "head": 0}
            assert page.press("h", "[")["sides"][0]["head"] == 1
            assert page.press("2")["sides"][0]["layer"] == 1
            assert page.press("9")["sides"][0]["layer"] == 1  # there is none: the last
            assert page.press("n")["shift"] == "shifted"
            assert page.press("w")["level"] == "piece"
            assert page.press("v")["view"] == "links"
            assert page.press("v", "s")["scale"] == "row"
            assert page.press("g")["gold"] == "off"
            assert page.press("e")["kind"] == "encoder"
            assert page.press("n")["shift"] == "shifted"  # means nothing in the encoder
            assert page.press("c", "x")["active"] == 1
            assert page.press("b")["compare"] is False
            theme = page.settle()["theme"]
            assert page.press("t")["theme"] != theme
            page.press("?")
            assert page.page.locator("#help").is_visible()
            page.press("Escape")
            assert not page.page.locator("#help").is_visible()
            page.press("/")
            page.page.keyboard.type("new")  # letters, not commands
            state = page.settle()
            assert (state["search"], state["shift"]) == ("new", "shifted")
            page.press("Escape", "n")
            assert page.settle()["shift"] == "normal"

    def test_the_address_keeps_the_place(self, browser: Windows, path: Path):
        with Opened(browser, path) as page:
            page.press("d", "j", "l", "w")
            page.page.wait_for_function("location.hash.includes('kind=decoder')")
            page.page.wait_for_timeout(200)
            before, address = page.settle(), page.page.url
        with Opened(browser, path, hash=address.split("#")[1]) as page:
            after = page.settle()
        for name in ("sentence", "kind", "sides", "level", "shift", "compare"):
            assert after[name] == before[name], name

    @pytest.mark.parametrize("hash", ["s=999&a=9.9.9&b=x&kind=other", "%%%", "s=&a=", "a=0.0.0&zoom=-5&s=-1"])
    def test_a_wrong_address(self, browser: Windows, path: Path, hash: str):
        with Opened(browser, path, hash=hash) as page:
            assert page.settle()["panes"][0] is not None


class TestLooks:
    def test_dark_and_light(self, browser: Windows, path: Path):
        background = "() => getComputedStyle(document.body).backgroundColor"
        with Opened(browser, path, color_scheme="dark") as page:
            assert page.settle()["theme"] == "dark"
            dark = page.page.evaluate(background)
            assert page.click("#theme-button")["theme"] == "light"
            assert page.page.evaluate(background) != dark
        with Opened(browser, path, color_scheme="light") as page:
            assert page.settle()["theme"] == "light"

    @pytest.mark.parametrize("view", ["heatmap", "links"])
    def test_a_phone(self, browser: Windows, path: Path, view: str):
        options: dict[str, Any] = {"has_touch": True, "is_mobile": True, "device_scale_factor": 3}
        with Opened(browser, path, hash=f"s=0&a=0.1.0&b=1.1.0&view={view}", size=PHONE, **options) as page:
            overflow = "() => document.documentElement.scrollWidth - innerWidth"
            assert page.page.evaluate(overflow) <= 0
            page.page.locator(".row-labels .label, .queries .word").nth(1).tap()
            assert page.settle()["hover"]["pinned"]

    def test_labels_of_switches_are_there_for_all(self, browser: Windows, path: Path):
        with Opened(browser, path) as page:
            nameless = """() => [...document.querySelectorAll("button, select, input, [role=img]")].filter(
                (e) => !(e.textContent.trim() || e.getAttribute("aria-label") || e.labels?.length)).map((e) => e.outerHTML)"""
            assert page.page.evaluate(nameless) == []

    def test_a_sentence_of_100_words(self, browser: Windows, tmp_path: Path):
        folder = write_results(tmp_path, layers=1, heads=2, sentences=1, words=100)
        with Opened(browser, make(folder), hash="s=0&a=0.1.1&b=1.1.1&kind=cross&level=piece") as page:
            pane = page.settle()["panes"][0]
            assert len(pane["cols"]) > 100
            assert pane["cell"] >= 14  # readable; its box scrolls
            assert page.pixels() > 50
            assert page.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            scrolls = "e => e.scrollWidth > e.clientWidth && e.scrollHeight > e.clientHeight"
            assert page.page.eval_on_selector(".heat", scrolls)
            page.press("0")
            assert not page.page.eval_on_selector(".heat", "e => e.scrollWidth > e.clientWidth + 1")
            page.press("v", "w", "d")
            assert page.page.locator(".queries .word").count() >= 100


class TestLacking:
    """What is not there is said, or left out; nothing breaks."""

    def test_no_gold_and_one_layer(self, browser: Windows, tmp_path: Path):
        path = make(write_results(tmp_path, ("rela-g",), layers=1, heads=1, sentences=2, gold=False))
        with Opened(browser, path) as page:
            assert "no gold links" in page.text("#facts")
            assert page.page.locator('[data-switch="gold"]').count() == 0
            assert "alignment error rates" in page.text("#lacking")
            assert page.page.locator('#sort option[value="aer"]').count() == 0
            page.press("g", "l", "b", "v")

    def test_no_examples(self, browser: Windows, tmp_path: Path):
        folder = write_results(tmp_path)
        (folder / "attention.npz").unlink()
        with Opened(browser, make(folder)) as page:
            assert "no example sentences" in page.text("#notices")
            assert not page.page.locator("#sentences").is_visible()
            page.press("j", "l", "w", "t")
            page.click('[data-head="0.cross.0.1"]')

    def test_measures_that_are_absent_or_no_numbers(self, browser: Windows, tmp_path: Path):
        folder = write_results(tmp_path, sentences=2)
        data = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        data["models"][0]["measures"]["cross.null"]["value"] = [[None] * 4] * 3
        data["models"][0]["measures"]["cross.null.layer"]["value"] = [None] * 3
        data["models"][1]["measures"] = {}
        del data["models"][0]["cost"], data["models"][0]["best"], data["models"][0]["findings"]
        (folder / "results.json").write_text(json.dumps(data), encoding="utf-8")
        with Opened(browser, make(folder)) as page:
            assert page.text('[data-head="0.cross.0.0"]') == "–"
            assert len(page.settle()["panes"]) == 2

    def test_no_models(self, browser: Windows, tmp_path: Path):
        data = {"format": "rela-results-1", "data": {}, "models": [], "groups": []}
        (tmp_path / "results.json").write_text(json.dumps(data), encoding="utf-8")
        with Opened(browser, make(tmp_path)) as page:
            page.press("j", "t")

    def test_weights_that_had_no_room(self, browser: Windows, tmp_path: Path):
        folder = write_results(tmp_path, layers=2, heads=4, sentences=20, words=20)
        with Opened(browser, make(folder, max_bytes=700_000), hash="s=22&a=0.1.0&b=1.1.0") as page:
            notice = re.search(
                r"softmax: weights of (\d+) of 23 sentences \(dense weights need more room\)", page.text("#notices")
            )
            assert notice is not None
            missing = [place for place in range(23) if not page.page.locator(f"#w1-{place}").count()]
            assert len(missing) == 23 - int(notice[1])
            page.click(f'.sentence[data-id="{missing[0]}"]')
            assert "dense weights need more room" in page.text(".nothing")
            assert page.click(".nothing button")["panes"][1] is not None

    def test_awkward_text(self, browser: Windows, tmp_path: Path):
        words = ["</script>", "<b>x</b>", "עברית", "العربية", "👩‍👩‍👧", "e\u0301\u0323", '"q"', "&amp;"]
        folder = write_results(tmp_path, sentences=2, words=8, vocabulary=words)
        with Opened(browser, make(folder, title="<i>T</i>"), hash="s=0&a=0.1.0&kind=cross&level=word") as page:
            assert page.settle()["panes"][0]["cols"] == [*words, "EOS"]
            assert page.text("#title") == "<i>T</i>"
            assert page.page.locator("main b b, main i").count() == 0
            page.press("w", "v")
            page.page.locator("#search").fill("E")
            page.settle()

    def test_a_browser_that_cannot_unpack(self, browser: Windows, path: Path):
        with Opened(browser, path) as page:
            page.page.add_init_script("delete window.DecompressionStream")
            page.page.reload()
            page.settle()
            assert "cannot unpack" in page.text("#notices")
            assert "DecompressionStream" in page.text(".nothing")
