"""The page in a browser: how it looks on all kinds of screens, and with all kinds of results."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.report.browser import PHONE, Opened, Windows, make
from tests.report.helpers import write_results

from rela.report.palette import looks_of


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

    def test_long_names_on_a_phone(self, browser: Windows, tmp_path: Path):
        name = "rela-g with a name that is longer than a phone is wide"
        with Opened(browser, make(write_results(tmp_path, (name,), sentences=1)), size=PHONE) as page:
            tops = "found => found.map((e) => Math.round(e.getBoundingClientRect().top))"
            head = page.page.locator(".pane-controls").first.locator(".head-controls > *")
            assert head.count() == 4
            assert len(set(head.evaluate_all(tops))) == 1  # side by side, both steps among them
            assert page.page.evaluate("document.documentElement.scrollWidth <= innerWidth")

    def test_letters_of_charts_have_one_size(self, browser: Windows, tmp_path: Path):
        folder = write_results(tmp_path, ("rela-g",), sentences=1)
        data = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        for entry in data["models"]:
            entry["measures"] = {name: found for name, found in entry["measures"].items() if ".tag" not in name}
        (folder / "results.json").write_text(json.dumps(data), encoding="utf-8")
        with Opened(browser, make(folder)) as page:
            height = "e => e.getBoundingClientRect().height"
            usual = page.page.eval_on_selector("#charts .tick", height)
            assert page.page.eval_on_selector("#chosen .tick", height) <= 1.2 * usual

    def test_two_seeds_side_by_side_are_told_apart(self, browser: Windows, tmp_path: Path):
        path = make(write_results(tmp_path, ("rela-g",), sentences=1, seeds=2))
        fills = "found => new Set(found.map((e) => getComputedStyle(e).fill)).size"
        with Opened(browser, path, hash="s=0&a=0.1.0&b=1.1.0&kind=cross") as page:
            assert page.page.locator("#chosen .bar rect:not(.catch)").evaluate_all(fills) == 2
            page.press("b")
            assert page.page.locator("#chosen .bar rect:not(.catch)").evaluate_all(fills) == 1

    @pytest.mark.parametrize("theme", ["light", "dark"])
    def test_models_look_as_in_the_figures(self, browser: Windows, tmp_path: Path, theme: Any):
        names = ("softmax", "rela-g", "entmax15", "other")
        looks = looks_of(names)
        with Opened(browser, make(write_results(tmp_path, names, sentences=1)), color_scheme=theme) as page:
            strokes = page.page.locator("#legend .line").evaluate_all(
                "found => found.map((e) => [getComputedStyle(e).stroke, getComputedStyle(e).strokeDasharray])"
            )
            marks = page.page.locator("#legend .mark").evaluate_all("found => found.map((e) => e.tagName)")
        for (stroke, dashes), mark, look in zip(strokes, marks, looks.values(), strict=True):
            red, green, blue = map(int, re.findall(r"\d+", stroke))
            assert f"#{red:02x}{green:02x}{blue:02x}" == getattr(look, theme)
            assert (dashes == "none") == (not look.dashes)
            assert (mark == "circle") == (look.marker == "o")

    def test_labels_of_switches_are_there_for_all(self, browser: Windows, path: Path):
        with Opened(browser, path) as page:
            nameless = """() => [...document.querySelectorAll("button, select, input, [role=img]")].filter(
                (e) => !(e.textContent.trim() || e.getAttribute("aria-label") || e.labels?.length)
            ).map((e) => e.outerHTML)"""
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
            assert page.text("#notices") == (
                "There are no example sentences: attention.npz was not beside results.json."
            )
            assert not page.page.locator("#sentences").is_visible()
            page.press("j", "l", "w", "t")
            page.click('[data-head="0.cross.0.1"]')

    def test_no_examples_in_the_file(self, browser: Windows, tmp_path: Path):
        folder = write_results(tmp_path)
        empty = json.dumps({"format": "rela-examples-1", "models": ["rela-g", "softmax"], "sentences": []})
        np.savez(folder / "attention.npz", examples=np.array(empty))
        with Opened(browser, make(folder)) as page:
            notice = page.text("#notices")
            assert notice == (
                "There are no example sentences: attention.npz has none, as after rela analyze --examples 0, or where "
                "every pair has a side of over 128 pieces."
            )
            assert not page.page.locator("#sentences").is_visible()
            assert "sentences here" not in page.text("#models")

    def test_heads_of_several_models_have_no_mean(self, browser: Windows, tmp_path: Path):
        folder = write_results(tmp_path, sentences=1, seeds=2)
        with Opened(browser, make(folder)) as page:  # a file as older versions wrote it, which has such means
            assert page.text("#lacking") == "Not measured: ablation of heads."
            page.click("#explorer summary")
            page.page.locator("#explorer-measure").select_option("cross.null")
            names = page.page.locator("#explorer-numbers h3").all_inner_texts()
            assert names == ["rela-g seed 1", "rela-g seed 2", "softmax seed 1", "softmax seed 2"]
            page.page.locator("#explorer-measure").select_option("cross.null.layer")
            assert page.page.locator("#explorer-numbers h3").all_inner_texts()[:2] == ["rela-g", "softmax"]

    def test_measures_that_are_absent_or_no_numbers(self, browser: Windows, tmp_path: Path):
        folder = write_results(tmp_path, sentences=2)
        data = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        data["models"][0]["measures"]["cross.null"]["value"] = [[None] * 4] * 3
        data["models"][0]["measures"]["cross.null.layer"]["value"] = [None] * 3
        data["models"][1]["measures"] = {}
        del data["models"][0]["cost"], data["models"][0]["best"], data["models"][0]["findings"]
        (folder / "results.json").write_text(json.dumps(data), encoding="utf-8")
        with Opened(browser, make(folder)) as page:
            assert page.text('[data-head="0.cross.0.0"]') == "\N{EN DASH}"
            assert len(page.settle()["panes"]) == 2

    def test_heads_that_are_never_null(self, browser: Windows, tmp_path: Path):
        folder = write_results(tmp_path, layers=1, heads=2, sentences=1)
        data = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        zeros = [[[0.0, 0.0]]] * 9
        data["models"][1]["measures"]["cross.null.tag"]["value"] = zeros
        data["models"][1]["measures"]["hallucinated.null.real"]["value"] = [0.0]
        (folder / "results.json").write_text(json.dumps(data), encoding="utf-8")
        with Opened(browser, make(folder), hash="s=0&a=0.1.0&b=1.1.0&kind=cross") as page:
            assert "softmax layer 1 head 0: never null" in page.text("#chosen")
            assert page.page.locator("#chosen .track-bar").count() == 9
            page.click('[data-head="1.cross.0.1"]')
            page.press("b")
            page.page.locator(".pane-controls select").first.select_option("1")
            assert page.page.locator("#chosen .track-bar").count() == 0
            curves = page.page.locator("#charts figure", has_text="AUC of the null rate")
            assert "rela-g" in curves.locator("svg").get_attribute("aria-label")
            assert "softmax" not in curves.locator("svg").get_attribute("aria-label")

    def test_measures_of_other_commands(self, browser: Windows, tmp_path: Path):
        folder = write_results(tmp_path, sentences=1, seeds=3)
        data = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        for group in data["groups"]:
            group["measures"] |= {
                "symmetrised.aer": {
                    "signature": "aer|method",
                    "axes": ["method"],
                    "labels": {"method": ["forward", "union"]},
                    "mean": [0.25, 0.5],
                },
                "decode.speed": {
                    "signature": "speed",
                    "axes": ["length"],
                    "labels": {"length": ["1-10", "11-20"]},
                    "mean": [1.0, 0.9],
                    "spread": [0.1, None],
                },
            }
        (folder / "results.json").write_text(json.dumps(data), encoding="utf-8")
        with Opened(browser, make(folder)) as page:
            charts = page.text("#charts")
            assert "Both directions together" in charts
            assert "25.0%" in charts
            assert "Decoding speed" in charts
            assert page.page.locator("#charts .band").count() > 10
            assert "3 seeds" in page.text("#legend")

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
