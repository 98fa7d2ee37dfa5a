"""The page in a browser: names, numbers and labels that people read, however long or close together they are."""

import re
from pathlib import Path
from typing import Any

import pytest
from tests.report.browser import PHONE, Opened, Windows, make
from tests.report.helpers import edit_results, write_results

MIXED = "encoder:softmax,decoder:softmax,cross:rela-g"
TIMES = "\N{MULTIPLICATION SIGN}"
HALF = {"width": 1400, "height": 900}


@pytest.fixture(scope="module")
def page_of_many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nine models, some with long names, and links of both directions."""
    names = ("rela-g", MIXED, "x" * 60, *(f"model-{place},{MIXED}" for place in range(6)))
    folder = write_results(tmp_path_factory.mktemp("many"), names, layers=1, heads=2, sentences=1)

    def change(data: dict[str, Any]) -> None:
        methods = ["forward", "backward", "union"]
        for group in [*data["groups"], *data["models"]]:
            group["measures"]["symmetrised.aer"] = {
                "signature": "aer|method",
                "axes": ["method"],
                "labels": {"method": methods},
                "mean" if "models" in group else "value": [0.25, 0.5, 0.5],
            }

    return make(edit_results(folder, change))


class TestNames:
    @pytest.mark.parametrize("width", [320, 390, 800, 1400])
    def test_no_name_leaves_its_place(self, browser: Windows, page_of_many: Path, width: int):
        """Neither the page is wider than the window, nor a name wider than what it stands in, nor on another."""
        with Opened(browser, page_of_many, size={"width": width, "height": 900}) as page:
            assert page.page.evaluate("document.documentElement.scrollWidth") <= width
            page.page.evaluate("document.querySelector('#more-findings').click()")
            outside = """found => found.flatMap((name) => {
                const box = name.closest("li, th, td, h3, figure").getBoundingClientRect();
                const own = name.getBoundingClientRect();
                return own.left < box.left - 1 || own.right > box.right + 1 ? [name.closest("*").outerHTML] : [];
            })"""
            names = page.page.locator(".name:visible")
            assert names.count() > 5 * 9
            assert names.evaluate_all(outside) == []

    def test_names_are_read_as_they_are(self, browser: Windows, page_of_many: Path):
        with Opened(browser, page_of_many) as page:
            assert page.page.locator("#models tbody th").nth(1).text_content() == MIXED

    def test_the_rule_of_error_rates_is_told(self, browser: Windows, path: Path):
        with Opened(browser, path) as page:
            heading = page.page.locator("#models thead th", has_text="best AER")
            assert heading.all_inner_texts() == ["best AER, normal (merged)", "best AER, shifted (merged)"]
            assert "By the rule any" in (heading.first.get_attribute("title") or "")


class TestNumbers:
    def test_of_one_measure_have_the_same_decimals(self, browser: Windows, tmp_path: Path):
        folder = write_results(tmp_path, ("rela-g", "softmax", "sparsemax"), layers=1, heads=2, sentences=1)

        def change(data: dict[str, Any]) -> None:
            numbers = [(7.4998, 1.9, 0.5), (7.176209, 1.87, 0.665), (7.0, 2.0, 0.9)]
            for model, (loss, cost, auc) in zip(data["models"], numbers, strict=True):
                model["measures"]["loss"]["value"] = loss
                model["cost"]["ratio"] = cost
                model["measures"]["hallucinated.auc.mean"]["value"] = auc
                model["measures"]["cross.entropy"]["value"] = [[1.5, 0.25]]
                model["measures"]["cross.ablation"] = {
                    **model["measures"]["cross.entropy"],
                    "value": [[0.9640, -0.00001]],
                }

        edit_results(folder, change)
        with Opened(browser, make(folder), hash="s=0&a=0.1.0&kind=cross&colour=entropy") as page:
            names = [name.replace("\n", " ") for name in page.page.locator("#models thead th").all_inner_texts()]
            for name, expected in {
                "loss": ["7.500", "7.176", "7.000"],
                "cost": [f"{number}{TIMES}" for number in ("1.90", "1.87", "2.00")],
                "AUC, shuffled targets": ["0.500", "0.665", "0.900"],
            }.items():
                cells = page.page.locator(f"#models tbody tr > :nth-child({1 + names.index(name)})")
                assert cells.all_inner_texts() == expected, name
            assert [page.text(f'[data-head="0.cross.0.{head}"]') for head in (0, 1)] == ["1.50", "0.25"]
            rows = dict(re.findall(r"^(.+)\t(.+)$", page.text("#chosen table"), re.MULTILINE))
            assert (rows["entropy"], rows["loss added without it"]) == ("1.500", "0.9640")
            page.click('[data-head="0.cross.0.1"]')
            assert "-1.0e-5" in page.text("#chosen table")  # not zero
            page.page.locator("#colour").select_option(label="loss added without it")
            assert [page.text(f'[data-head="0.cross.0.{head}"]') for head in (0, 1)] == ["0.96", "0.00"]

    def test_what_is_shown_is_rounded_once(self, browser: Windows, tmp_path: Path):
        folder = write_results(tmp_path, ("rela-g",), layers=1, heads=2, sentences=1)

        def change(data: dict[str, Any]) -> None:
            data["models"][0]["measures"]["cross.aer.normal.merged"]["value"] = [[0.3095027, 0.5]]

        edit_results(folder, change)
        with Opened(browser, make(folder), hash="s=0&a=0.1.0&kind=cross") as page:
            assert "AER, normal\t31.0%" in page.text("#chosen table")


class TestCharts:
    @pytest.mark.parametrize("size", [HALF, PHONE])
    def test_labels_lie_on_nothing(self, browser: Windows, tmp_path: Path, size: dict[str, int]):
        folder = write_results(tmp_path, ("rela-g", "rela-i", "other"), layers=6, heads=1, sentences=1)

        def change(data: dict[str, Any]) -> None:
            for number, model in enumerate(data["models"]):
                rates = [0.01, 0.012, 0.013, 0.2, 0.21, 0.35]
                model["measures"]["hallucinated.null.real"]["value"] = [rate + number / 50 for rate in rates]
                model["measures"]["hallucinated.auc"]["value"] = [0.5, 0.51, 0.52, 0.66, 0.5, 0.505]

        edit_results(folder, change)
        with Opened(browser, make(folder), size=size) as page:
            chart = page.page.locator("#charts figure", has_text="AUC of the null rate")
            crossed = """(figure) => {
                const texts = [...figure.querySelectorAll("text")].map((e) => [e.textContent, e.getBBox()]);
                const marks = [...figure.querySelectorAll(".mark")].map((e) => ["mark", e.getBBox()]);
                // The box of a text is as high as its line: letters have less.
                const sides = ([name, b], top, bottom) =>
                    [name, b.x, b.y + top * b.height, b.x + b.width, b.y + bottom * b.height];
                const all = [...texts.map((text) => sides(text, 0.25, 0.8)), ...marks.map((mark) => sides(mark, 0, 1))];
                const found = [];
                for (const one of all) for (const other of all) {
                    if (one === other || (one[0] === "mark" && other[0] === "mark")) continue;
                    const apart = one[3] <= other[1] || other[3] <= one[1] || one[4] <= other[2] || other[4] <= one[2];
                    if (!apart) found.push([one, other]);
                }
                return found;
            }"""
            assert chart.evaluate(crossed) == []
            labels = chart.locator(".point text").all_text_contents()
            assert len(labels) >= 6  # those without room are left out
            assert "chance" in chart.locator("text").all_text_contents()

    def test_dashes_that_do_not_mean_the_model_are_explained(self, browser: Windows, path: Path):
        with Opened(browser, path) as page:
            notes = [
                note.replace("\n", " ") for note in page.page.locator("#charts figcaption .quiet").all_inner_texts()
            ]
            assert "true pairs, shuffled; models by colour and mark" in notes
            assert "normal, shifted; models by colour and mark" in notes
            assert page.page.locator("#charts .plain-line").count() == 4


class TestLinks:
    def test_words_fit_into_their_box(self, browser: Windows, tmp_path: Path):
        folder = write_results(tmp_path, layers=1, heads=2, sentences=1, words=11)
        with Opened(browser, make(folder), hash="s=0&a=0.1.0&b=1.1.0&view=links&level=word", size=HALF) as page:
            boxes = page.page.locator(".links")
            assert boxes.count() == 2
            assert boxes.evaluate_all("found => found.map((e) => e.scrollWidth - e.clientWidth)") == [0, 0]
            inner = page.page.locator(".links-inner")
            assert inner.evaluate_all("found => found.map((e) => e.className)") == ["links-inner across"] * 2
            sizes = page.page.locator(".keys .word").evaluate_all(
                "found => found.map((e) => getComputedStyle(e).fontSize)"
            )
            assert {float(size.removesuffix("px")) < 14 for size in sizes} == {True}

    def test_the_box_gets_smaller_again(self, browser: Windows, tmp_path: Path):
        """What was drawn for many pieces does not count as content when there are fewer words."""
        folder = write_results(tmp_path, ("rela-g",), layers=1, heads=1, sentences=1, words=60)
        with Opened(browser, make(folder), hash="s=0&a=0.1.0&view=links&level=word", size=HALF) as page:
            high = "e => e.scrollHeight"
            before = page.page.eval_on_selector(".links", high)
            page.press("w")
            assert page.page.eval_on_selector(".links", high) > before
            page.press("w")
            assert page.page.eval_on_selector(".links", high) == before
