"""The page of the corpus filter: what is refused, and what it shows in a browser."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.report.browser import Opened, Windows
from tests.report.sieve_data import made_qualities, made_summary

from rela.report.sieve import write_sieve_page

HOSTILE = "</script><img src=x onerror=\"window.broken=1\"><!-- {{data}} & 'x' \u2028"
SMALL_PHONE = {"width": 360, "height": 740}
Change = Callable[[dict[str, Any]], Any]
REFUSED: list[tuple[Change, str]] = [
    (lambda s: s.update(schema="rela-filter/2"), "expected the schema rela-filter/1, got 'rela-filter/2'"),
    (lambda s: s.pop("schema"), "expected the schema rela-filter/1, got None"),
    (lambda s: s.pop("quantiles"), "expected all parts of rela-filter/1, got none of quantiles"),
    (lambda s: s["counts"].update(kept=1), "to be the 1,000 of the input, got 1,"),
    (lambda s: s["histograms"]["coverage"]["counts"].pop(), "coverage: expected one edge more than counts"),
    (lambda s: s["quantiles"].pop(), "expected 1001 quantiles of quality for 950 scored rows, got 1000"),
    (lambda s: s["histograms"].pop("quality"), "expected the 950 rows that were kept or rejected, got 0"),
]


def make(folder: Path, summary: dict[str, Any]) -> Path:
    return write_sieve_page(json.loads(json.dumps(summary)), folder / "sieve.html")


def set_field(page: Opened, selector: str, value: float) -> dict[str, Any]:
    page.page.locator(selector).fill(str(value))
    return page.settle()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of 10,000 rows, of which 9,950 were scored."""
    return make(tmp_path_factory.mktemp("sieve"), made_summary())


class TestFile:
    @pytest.mark.parametrize(("change", "complaint"), REFUSED)
    def test_what_is_refused(self, tmp_path: Path, change: Change, complaint: str):
        summary = made_summary(1000)
        change(summary)
        with pytest.raises(ValueError, match=re.escape(complaint)):
            write_sieve_page(summary, tmp_path / "sieve.html")
        assert list(tmp_path.iterdir()) == []

    def test_nothing_comes_from_elsewhere(self, path: Path):
        text = path.read_text(encoding="utf-8")
        assert set(re.findall(r"https?://[\w./]+", text)) == {
            "http://www.w3.org/2000/svg",  # a name, not a place
            "http://www.hotel.example/booking",  # an example's text
        }
        assert not re.search(r"@import|url\((?!#)|\bfetch\(|XMLHttpRequest|WebSocket|\bimport\(", text)
        assert "default-src 'none'" in text

    def test_no_number_is_changed(self, path: Path):
        found = re.search(r'id="data">(.*?)</script>', path.read_text(encoding="utf-8"))
        assert found is not None
        assert json.loads(found[1]) == {**made_summary(), "names": ["crawl.en-de.tsv.gz"]}


class TestThreshold:
    def test_head(self, browser: Windows, path: Path):
        counts = made_summary()["counts"]
        with Opened(browser, path) as page:
            assert page.text("h1") == "crawl.en-de.tsv.gz"
            facts = page.text("#facts")
            assert "10,000 rows" in facts
            assert "model runs/wide/model (rela-g)" in facts
            assert "quality from 0.5" in facts
            shown = [text.split()[0] for text in page.page.locator("#totals dd").all_inner_texts()]
            assert shown == [f"{counts[name]:,}" for name in ("input", "kept", "rejected", "malformed")]
            rows = [text.split("\t")[:2] for text in page.page.locator("#reasons tr").all_inner_texts()]
            assert rows[0] == ["low-score", f"{counts['rejected']:,}"]
            assert rows[1:] == [["bad-record", "30"], ["invalid-utf8", "15"], ["empty-target", "5"]]
            assert page.settle()["kept"] == counts["kept"]

    def test_kept_pairs_are_those_that_the_summary_tells(self, browser: Windows, path: Path):
        values = made_qualities(9950)
        with Opened(browser, path) as page:
            for threshold in (0, 0.02, 0.5, 0.74, 0.98):  # edges of bars
                found = set_field(page, "#threshold-number", threshold)
                assert found["kept"] == found["least"] == found["most"] == int((values >= threshold).sum())
                assert page.text("#kept").startswith(f"{found['kept']:,} pairs kept")
            for threshold in (0.0003, 0.011, 0.37, 0.531, 0.9871, 0.9999, 1):
                found = set_field(page, "#threshold-number", threshold)
                true = int((values >= threshold).sum())
                assert found["least"] <= true <= found["most"] <= found["least"] + 11
                assert found["least"] <= found["kept"] <= found["most"]
                assert found["command"].endswith(f"--out crawl.sieve --threshold {threshold}")
                assert page.text("#command") == found["command"]

    def test_share_to_keep(self, browser: Windows, path: Path):
        values = made_qualities(9950)
        with Opened(browser, path) as page:
            for share in (0, 0.1, 30, 75, 99.9, 100):
                found = set_field(page, "#share-number", share)
                true = int((values >= found["threshold"]).sum())
                assert abs(true - share / 100 * 9950) <= 11
                assert found["least"] <= true <= found["most"]
                assert page.page.locator("#threshold-number").input_value() == found["command"].split()[-1]

    @pytest.mark.parametrize("axis", ["log-odds", "linear"])
    def test_bars(self, browser: Windows, path: Path, axis: str):
        with Opened(browser, path) as page:
            page.switch("axis", axis)
            found = set_field(page, "#threshold-number", 0.9)
            assert sum(found["counts"]) == 9950
            assert max(found["counts"]) < (900 if axis == "log-odds" else 5000)
            page.switch("bars", "log")
            line = float(page.page.locator(".threshold-line").first.get_attribute("x1"))
            kept = page.page.locator("#kept-side rect")
            assert float(kept.get_attribute("x")) == line
            knob = "e => e.getClientRects()[0].left + 10 + (e.value - e.min) / (e.max - e.min) * (e.offsetWidth - 20)"
            box = page.page.locator("#quality-chart svg").bounding_box()
            assert abs(page.page.eval_on_selector("#threshold", knob) - box["x"] - line) < 3
            page.page.mouse.click(box["x"] + box["width"] - 12, box["y"] + 90)  # the chart is a slider too
            assert page.settle()["threshold"] == 1

    def test_keyboard(self, browser: Windows, path: Path):
        with Opened(browser, path) as page:
            page.page.locator("#threshold").focus()
            assert page.press("ArrowRight")["threshold"] == 0.512
            assert page.press("Home")["kept"] == 9950
            assert page.press("End")["kept"] == 0
            assert page.page.locator("#threshold").get_attribute("aria-valuetext") == "1, keeps 0.0%"
            page.page.locator('[data-value="linear"]').focus()
            assert page.press("Enter")["axis"] == "linear"
            page.page.locator("#threshold").focus()
            assert page.press("Home", "ArrowRight", "ArrowRight")["threshold"] == 0.02
            page.page.locator("#share").focus()
            assert page.press("Home", "ArrowRight")["share"] == 0.01
            page.page.locator("#reset").focus()
            assert page.press("Enter")["origin"] == "run"
            page.page.locator("#deciles [aria-selected=true]").focus()
            assert page.press("End", "ArrowLeft")["decile"] == 9
            assert page.page.locator("#decile-9").is_visible()
            assert not page.page.locator("#decile-10").is_visible()

    def test_command_without_a_clipboard(self, browser: Windows, path: Path):
        with Opened(browser, path) as page:
            page.page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
            found = page.click("#copy")
            assert page.page.evaluate("getSelection().toString()") == found["command"]
            assert "Ctrl+C" in page.text("#copied")

    @pytest.mark.parametrize(("name", "value", "shown"), [("keep", 0.8, "80.0%"), ("top", 7960, "7,960")])
    def test_other_rules(self, browser: Windows, tmp_path: Path, name: str, value: float, shown: str):
        limit = float(made_qualities(9950)[-7960])
        summary = made_summary(threshold=limit) | {"rule": {"by": "quality", name: value}}
        with Opened(browser, make(tmp_path, summary)) as page:
            assert f"kept: the best {shown} by quality, from" in page.text("#facts")
            found = page.settle()
            assert found["kept"] == 7960
            assert found["command"].endswith(f"--{name} {value}")
            assert page.press("Tab", "Tab", "Tab", "Tab", "Tab", "Tab")["kept"] == 7960  # through all controls

    def test_a_rule_by_another_score(self, browser: Windows, tmp_path: Path):
        summary: dict[str, Any] = made_summary() | {"rule": {"by": "null_rate", "threshold": 0.4}, "limit": 0.3999}
        with Opened(browser, make(tmp_path, summary)) as page:
            assert "kept: null_rate up to 0.4" in page.text("#facts")
            assert "This run chose by null_rate" in page.text("#threshold-part")
            assert page.page.locator("#score-chart .side-text").text_content() == "kept up to 0.400"
            assert abs(page.settle()["kept"] - summary["counts"]["kept"]) <= 11
            verdicts = page.page.locator(".verdict").all_inner_texts()
            assert set(filter(None, verdicts)) <= {"kept by quality", "rejected by quality"}
            page.page.locator("#score").select_option("coverage")
            assert "High is good." in page.text("#score-meaning")
            assert page.page.locator("#score-chart .threshold-line").count() == 0


class TestExamples:
    def test_the_line_between_kept_and_rejected(self, browser: Windows, path: Path):
        with Opened(browser, path) as page:
            set_field(page, "#threshold-number", 0.37)
            assert page.click("#to-threshold")["decile"] == 3
            assert page.page.locator(".cut").count() == 1
            items = page.page.locator("#decile-3 ol > li").all_inner_texts()
            place = next(number for number, text in enumerate(items) if text.startswith("threshold 0.37"))
            qualities = [float(re.findall(r"quality ([\d.]+)", text)[0]) for text in items if "quality" in text]
            assert qualities == sorted(qualities)
            assert len(qualities) == 8
            assert place == sum(quality < 0.37 for quality in qualities)
            assert all(text.startswith("rejected") for text in items[:place])
            assert all(text.startswith("kept") for text in items[place + 1 :])
            assert page.page.locator("#tab-3").get_attribute("aria-label") == "Decile 3: 40% kept"

    def test_marks_are_where_the_summary_says(self, browser: Windows, path: Path):
        examples = made_summary()["examples"]
        wanted = sorted(span["text"] for example in examples for span in example["suspicious"])
        with Opened(browser, path) as page:
            assert any("👍" in example["target"] and example["suspicious"] for example in examples)
            assert sorted(page.page.locator("#panels mark").all_text_contents()) == wanted
            arabic = page.page.locator(".side", has_text="البحر").first
            assert arabic.evaluate("e => getComputedStyle(e).direction") == "rtl"

    def test_text_that_is_no_text(self, browser: Windows, tmp_path: Path):
        summary = made_summary(1000)
        summary["input"]["files"] = [HOSTILE]
        summary["model"] = {"path": HOSTILE, "attention": HOSTILE}
        summary["command"] = f"rela filter {HOSTILE}"
        summary["files"]["kept"] = [HOSTILE]
        summary["calibration"]["noises"] = [HOSTILE]
        summary["reasons"][HOSTILE] = 1
        for part in ("scores", "histograms"):
            summary[part][HOSTILE] = summary[part]["coverage"]
        summary["scores"]["null_rate"]["meaning"] = HOSTILE
        for example in summary["examples"]:
            example |= {"source": HOSTILE, "target": "\ud83d " + HOSTILE, "suspicious": [{"characters": [2, 13]}]}
            example["scores"][HOSTILE] = 0.5
        with Opened(browser, make(tmp_path, summary)) as page:
            assert page.page.evaluate("window.broken") is None
            assert page.page.locator("img, #panels script").count() == 0
            assert page.page.locator(".side").first.text_content() == HOSTILE
            assert page.page.locator("#panels mark").first.text_content() == "</script><i"
            page.page.locator("#score").select_option(HOSTILE)
            page.settle()


class TestLooks:
    @pytest.mark.parametrize("rows", [0, 3])
    def test_nothing_was_scored(self, browser: Windows, tmp_path: Path, rows: int):
        with Opened(browser, make(tmp_path, made_summary(rows))) as page:
            assert page.text("#no-scores").startswith("No row could be scored" if rows else "The input has no rows.")
            for part in ("#threshold-layout", "#examples", "#scores"):
                assert not page.page.locator(part).is_visible()
            assert page.text(".total.malformed dd").startswith(str(rows))

    @pytest.mark.parametrize("rows", [51, 53])
    def test_few_rows_and_no_examples(self, browser: Windows, tmp_path: Path, rows: int):
        values = made_qualities(rows - 50)
        with Opened(browser, make(tmp_path, made_summary(rows) | {"examples": []})) as page:
            assert not page.page.locator("#examples").is_visible()
            for threshold in (0, *values.tolist(), 1):
                found = set_field(page, "#threshold-number", threshold)
                assert found["least"] <= (values >= threshold).sum() <= found["most"]
            set_field(page, "#share-number", 50)

    @pytest.mark.parametrize("theme", ["light", "dark"])
    def test_a_phone_and_contrast(self, browser: Windows, path: Path, theme: str):
        with Opened(browser, path, size=SMALL_PHONE, color_scheme=theme) as page:
            assert page.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
            low = page.page.evaluate(LOW_CONTRAST)
            assert low == []
            assert page.page.evaluate(NAMELESS) == []
            assert page.click("#theme-button")["theme"] != theme

    def test_paper(self, browser: Windows, path: Path):
        with Opened(browser, path, color_scheme="dark") as page:
            page.page.emulate_media(media="print")
            assert page.page.locator(".panel:visible").count() == 10
            assert not page.page.locator("#threshold").is_visible()
            assert page.page.evaluate("getComputedStyle(document.body).color") == "rgb(26, 30, 35)"
            page.page.emulate_media(media="screen")


NAMELESS = """() => [...document.querySelectorAll("button, select, input, [role=img]")].filter(
    (e) => !(e.textContent.trim() || e.getAttribute("aria-label") || e.labels?.length)
).map((e) => e.outerHTML)"""

# Texts whose colour is too near to what is behind them, as WCAG 2 counts it: under 4.5 to 1.
LOW_CONTRAST = """() => {
  const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => {
    const [r, g, b] = parts(colour).map((c) => (c / 255 <= 0.03928 ? c / 3294.6 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (e) => {
    const colour = getComputedStyle(e).backgroundColor;
    return parts(colour)[3] === 0 && e.parentElement ? behind(e.parentElement) : colour;
  };
  const found = [];
  for (const e of document.querySelectorAll("body *")) {
    const own = [...e.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!own || !e.checkVisibility() || ["SCRIPT", "NOSCRIPT", "OPTION"].includes(e.tagName)) continue;
    const style = getComputedStyle(e);
    const pair = [light(e instanceof SVGElement ? style.fill : style.color), light(behind(e))].sort((a, b) => b - a);
    if ((pair[0] + 0.05) / (pair[1] + 0.05) < 4.5) found.push([e.outerHTML.slice(0, 90), pair]);
  }
  return found;
}"""
