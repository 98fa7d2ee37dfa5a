"""The page in a browser: it loads in silence and alone, and its parts do what they say."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.report.browser import Opened, Windows, make
from tests.report.helpers import write_results

from rela.report.results import load_results


def sort_value(sentence: dict[str, Any], sort: str) -> float:
    """What sentences are sorted by, for the first model."""
    if sort == "length":
        return len(sentence["source_words"]) + len(sentence["target_words"])
    model = sentence["models"][0]
    return model["null"]["cross"] if sort == "null" else model[sort]


class TestOverview:
    def test_header_charts_and_grids(self, browser: Windows, path: Path):
        with Opened(browser, path) as page:
            assert page.text("#title") == "test.en → test.de"
            assert "1,000 sentence pairs" in page.text("#facts")
            assert "9 of 9" in page.text("#models")
            assert page.page.locator("#charts figure").count() == 12
            assert page.page.locator(".head-cell").count() == 2 * 3 * 2 * 3
            assert page.text("#notices") == ""

    def test_names_of_files_not_their_folders(self, browser: Windows, tmp_path: Path):
        folder = write_results(tmp_path, sentences=1)
        data = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        data["data"] |= {"source": "/far/away/en/test", "target": "/far/away/de/test", "tags": "/far/away/test.tags"}
        data["data"]["gold"] |= {"sure": "/far/away/test.sure", "possible": "/far/away/test.possible"}
        (folder / "results.json").write_text(json.dumps(data), encoding="utf-8")
        with Opened(browser, make(folder)) as page:
            assert page.text("#title") == "en/test → de/test"
            assert page.page.title() == "Attention on en/test → de/test"
            assert page.page.locator("#title").get_attribute("title") == "/far/away/en/test → /far/away/de/test"
            assert "gold links: test.sure" in page.text("#facts")
            assert "tags: test.tags" in page.text("#facts")
            assert page.page.get_by_title("/far/away/test.sure, /far/away/test.possible").count() == 1
            assert page.page.get_by_title("/far/away/test.tags").count() == 1
            assert "away" not in page.text("header")

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
            state = page.click(".finding >> nth=2")
            assert (state["kind"], state["sentence"]) == ("cross", 0)
            assert state["sides"][0] == {"model": 0, "layer": 1, "head": 1}
            assert page.page.locator("#panes").is_visible()

    def test_a_finding_about_no_head_leads_to_its_kind(self, browser: Windows, path: Path):
        with Opened(browser, path, hash="s=4&a=0.2.2&b=1.1.0&kind=encoder") as page:
            state = page.click(".finding")
            assert (state["kind"], state["sentence"]) == ("cross", 4)
            assert state["sides"][0] == {"model": 0, "layer": 1, "head": 2}

    def test_the_first_findings_then_all(self, browser: Windows, tmp_path: Path):
        few = make(write_results(tmp_path / "few", layers=2, heads=3, sentences=1, findings=3))
        with Opened(browser, few) as page:
            assert page.page.locator(".finding:visible").count() == 8
            assert not page.page.locator("#more-findings").is_visible()
        many = make(write_results(tmp_path / "many", layers=2, heads=3, sentences=1, findings=6))
        with Opened(browser, many) as page:
            shown = page.page.locator(".finding:visible")
            assert shown.count() == 9
            more = page.page.locator("#more-findings")
            assert (more.inner_text(), more.get_attribute("aria-expanded")) == ("show all 14", "false")
            shown.last.focus()
            page.press("Tab")
            assert page.page.evaluate("document.activeElement.id") == "more-findings"
            page.press("Enter")
            assert shown.count() == 14
            assert page.page.evaluate("document.activeElement.innerText") == shown.nth(9).inner_text()
            assert (more.inner_text(), more.get_attribute("aria-expanded")) == ("show fewer", "true")
            page.click("#more-findings")
            assert shown.count() == 9

    def test_the_first_findings_are_of_all_sorts(self, browser: Windows, tmp_path: Path):
        folder = write_results(tmp_path, sentences=1, seeds=3)
        data = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        sorts = ("causality", "sink", "sink", "alignment", "distance", "specialist", "specialist")
        for model in data["models"][:3]:
            model["findings"] = [
                {"text": f"{sort} {place} of {model['name']}", "strength": 0.9 - place / 10, "sort": sort}
                for place, sort in enumerate(sorts)
            ]
        (folder / "results.json").write_text(json.dumps(data), encoding="utf-8")
        with Opened(browser, make(folder)) as page:
            own = "found => found.map((e) => e.querySelector('.who ~ bdi').innerText)"
            shown = page.page.locator(".finding:visible").evaluate_all(own)
            assert [text for text in shown if text.endswith("of rela-g seed 1")] == [
                f"{name} of rela-g seed 1"
                for name in ("causality 0", "sink 1", "alignment 3", "distance 4", "specialist 5")
            ]
            # Softmax has two sorts; then there is room for two that are second of their sort, the strongest.
            assert sum("of softmax" in text for text in shown) == 3
            assert sum("of rela-g seed 2" in text for text in shown) == 1
            page.click("#more-findings")
            assert page.page.locator(".finding:visible").count() == 3 * 7 + 3 * 2

    def test_axes_end_at_a_number(self, browser: Windows, tmp_path: Path):
        folder = write_results(tmp_path, sentences=1, seeds=2)
        data = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        measures = data["groups"][0]["measures"]
        measures["cross.sparsity.layer"] |= {
            "mean": [0.91, 0.95, 0.2],
            "spread": [0.2, 0.01, 0.3],
        }  # over 100%, below 0
        measures["hallucinated.null.real"] |= {"mean": [0.012, 0.031, 0.042], "spread": [0, 0, 0]}
        (folder / "results.json").write_text(json.dumps(data), encoding="utf-8")
        with Opened(browser, make(folder)) as page:
            figures = page.page.locator("#charts figure:has(svg)")
            for place in range(figures.count()):
                figure = figures.nth(place)
                ends = figure.locator(".grid").evaluate_all("found => found.map((e) => Number(e.getAttribute('y1')))")
                boxes = figure.locator(".band, .line").evaluate_all(
                    "found => found.map((e) => e.getBBox()).map(({ y, height }) => [y, y + height])"
                )
                assert min(ends) - 0.1 <= min(top for top, _ in boxes), figure.inner_text()
                assert max(ends) + 0.1 >= max(bottom for _, bottom in boxes), figure.inner_text()
                assert figure.locator('.tick[text-anchor="end"]').count() >= len(ends)
            sparsity = figures.nth(2).locator(".tick").all_text_contents()
            assert {"0%", "100%"} <= set(sparsity)
            auc = page.page.locator("#charts figure", has_text="AUC of the null rate")
            ticks = auc.locator(".tick").all_text_contents()
            assert {"0.5", "1.0", "chance", "0%"} <= set(ticks)

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
            assert page.click('[aria-label^="smaller cells"]')["panes"][0]["cell"] < before
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
            for sort in ("null", "aer", "length", "loss"):
                page.page.locator("#sort").select_option(sort)
                for _ in range(2):
                    state = page.settle()
                    numbers = [sort_value(sentences[place], sort) for place in state["found"]]
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
            page.press("d", "j", "x", "l", "w")
            before = page.settle()
            later = "() => new Promise((done) => setTimeout(() => done(location.hash), 400))"
            place = page.page.evaluate(later).removeprefix("#")
        assert before["active"] == 1
        with Opened(browser, path, hash=place) as page:
            after = page.settle()
        for name in ("sentence", "kind", "sides", "level", "shift", "compare", "active"):
            assert after[name] == before[name], name

    @pytest.mark.parametrize("hash", ["s=999&a=9.9.9&b=x&kind=other", "%%%", "s=&a=", "a=0.0.0&zoom=-5&s=-1"])
    def test_a_wrong_address(self, browser: Windows, path: Path, hash: str):
        with Opened(browser, path, hash=hash) as page:
            assert page.settle()["panes"][0] is not None
