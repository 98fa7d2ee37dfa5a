"""The page as a file: what is in it, how large it is, and that no text can break it. test_browser.py opens it."""

import json
import re
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.report.helpers import change_examples, write_results

from rela.report.encoding import Block, decode_weights, encode_weights, unpack
from rela.report.page import SCRIPTS, PageSummary, write_page
from rela.report.results import load_results
from rela.report.sieve import SIEVE_SCRIPTS, STYLES

# What could end an element early, turn text around, or is no character at all.
AWKWARD = [
    "</script><script>alert(1)</script>",
    "<!--",
    '"quoted"&\'amp;',
    "{{script}}",
    "עברית",
    "العربية",
    "👩‍👩‍👧",
    "e\u0301\u0323",
    "\u2028",
    "a\u202eb",
    "<b>bold</b>",
    "\\u0041",
]


class Elements(HTMLParser):
    """All elements with their attributes, and the text in scripts by id."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: dict[str, str] = {}
        self.shapes: dict[str, str] = {}
        self.titles: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        self.found.append(("", {}))

    def handle_data(self, data: str) -> None:
        tag, attributes = self.found[-1] if self.found else ("", {})
        if tag == "script":
            name = attributes.get("id") or "code"
            self.scripts[name] = self.scripts.get(name, "") + data
            self.shapes[name] = attributes.get("data-shapes") or ""
        elif tag == "title":
            self.titles.append(data)


def make(folder: Path, *, max_bytes: int = 5_000_000, title: str | None = None) -> tuple[PageSummary, str, Elements]:
    path = folder / "report.html"
    summary = write_page(load_results(folder), path, max_bytes=max_bytes, title=title)
    text = path.read_text(encoding="utf-8")
    assert summary.num_bytes == path.stat().st_size <= max_bytes
    return summary, text, Elements(text)


def data_of(page: Elements) -> dict[str, Any]:
    return json.loads(page.scripts["data"])


def weights_of(page: Elements, name: str) -> dict[str, NDArray[np.float32]]:
    shapes = dict(part.split(":") for part in page.shapes[name].split())
    numbers = {kind: tuple(map(int, shape.split("x"))) for kind, shape in shapes.items()}
    return unpack(Block(numbers, page.scripts[name]))


def change_results(folder: Path, change: Any) -> None:
    path = folder / "results.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    change(data)
    path.write_text(json.dumps(data), encoding="utf-8")


class TestContent:
    def test_all_weights_are_there_and_right(self, tmp_path: Path):
        folder = write_results(tmp_path, layers=2, heads=3, sentences=4)
        summary, _, page = make(folder)
        assert summary.sentences == {"rela-g": 7, "softmax": 7}
        assert (summary.listed_sentences, summary.total_sentences) == (7, 7)
        examples = load_results(folder).examples
        assert examples is not None
        for model in range(2):
            for sentence in range(7):
                found = weights_of(page, f"w{model}-{sentence}")
                for kind, seen in found.items():
                    weights = examples.weights(model, kind, sentence)
                    assert weights is not None
                    np.testing.assert_array_equal(seen, decode_weights(*encode_weights(weights)))

    def test_all_numbers_are_there(self, tmp_path: Path):
        folder = write_results(tmp_path, seeds=2)
        data = data_of(make(folder)[2])
        results = load_results(folder)
        for entries, name in ((results.models, "models"), (results.groups, "groups")):
            for entry, found in zip(entries, data[name], strict=True):
                own = [key for key in entry.measures if name == "models" or "head" not in entry.measures[key].axes]
                assert list(found["measures"]) == own  # heads of several models have no mean
                for measure in own:
                    expected = entry.measures[measure]
                    assert np.allclose(found["measures"][measure]["value"], expected.value, rtol=1e-4)
                    assert found["measures"][measure]["signature"] == expected.signature
        spread = results.groups[0].measures["cross.null.layer"].spread
        assert spread is not None
        assert np.allclose(data["groups"][0]["measures"]["cross.null.layer"]["spread"], spread, rtol=1e-4)

    def test_numbers_are_rounded_once(self, tmp_path: Path):
        folder = write_results(tmp_path)

        def change(data: dict[str, Any]) -> None:
            data["models"][0]["measures"]["cross.null"]["value"][0][0] = 0.3095027  # 31.0%, of five digits 30.9%

        change_results(folder, change)
        found = data_of(make(folder)[2])["models"][0]["measures"]["cross.null"]["value"][0][0]
        assert found == 0.3095027

    def test_a_group_of_one_is_not_written_twice(self, tmp_path: Path):
        data = data_of(make(write_results(tmp_path, seeds=1))[2])
        assert [group["measures"] for group in data["groups"]] == [None, None]

    def test_pieces_once_for_models_that_share_them(self, tmp_path: Path):
        sentence = data_of(make(write_results(tmp_path))[2])["examples"]["sentences"][0]
        assert len(sentence["forms"]) == 1
        assert [model["form"] for model in sentence["models"]] == [0, 0]

    def test_nothing_comes_from_elsewhere(self, tmp_path: Path):
        _, text, page = make(write_results(tmp_path, sentences=1))
        for tag, attributes in page.found:
            for name in ("src", "href", "action", "srcset", "data"):
                assert (attributes.get(name) or "data:").startswith("data:"), (tag, attributes)
        assert not re.search(r"@import|url\(|\bfetch\(|XMLHttpRequest|WebSocket|\bimport\(", text)
        addresses = set(re.findall(r"https?://[\w./]+", text))
        assert addresses == {"http://www.w3.org/2000/svg"}  # a name, not a place
        assert "default-src 'none'" in text

    def test_without_examples(self, tmp_path: Path):
        folder = write_results(tmp_path)
        (folder / "attention.npz").unlink()
        summary, _, page = make(folder)
        assert summary.sentences == {}
        assert data_of(page)["examples"] is None

    def test_what_is_no_number(self, tmp_path: Path):
        folder = write_results(tmp_path)

        def change(data: dict[str, Any]) -> None:
            data["models"][0]["measures"]["cross.null"]["value"][0][0] = None
            data["models"][0]["cost"]["ratio"] = float("nan")

        change_results(folder, change)
        found = data_of(make(folder)[2])["models"][0]
        assert found["measures"]["cross.null"]["value"][0][0] is None
        assert found["cost"]["ratio"] is None


class TestText:
    def test_no_text_can_break_the_page(self, tmp_path: Path):
        _, text, page = make(write_results(tmp_path, words=len(AWKWARD), sentences=2, vocabulary=AWKWARD))
        assert sum(tag == "script" for tag, _ in page.found) == 2 + 2 * 5  # the data, the code, and the weights
        assert "alert(1)</script>" not in text
        sentence = data_of(page)["examples"]["sentences"][0]
        assert sentence["source_words"] == AWKWARD

    def test_half_a_character(self, tmp_path: Path):
        folder = write_results(tmp_path, sentences=1)

        def change(described: dict[str, Any], _: dict[str, Any]) -> None:
            described["sentences"][0]["source_words"][0] = "\ud83d"

        change_examples(folder, change)
        assert data_of(make(folder)[2])["examples"]["sentences"][0]["source_words"][0] == "\ud83d"

    def test_title(self, tmp_path: Path):
        folder = write_results(tmp_path)
        _, _, page = make(folder, title="A </title><b>")
        assert page.titles == ["A </title><b>"]
        assert data_of(page)["title"] == "A </title><b>"
        assert make(folder)[2].titles == ["Attention on test.en → test.de"]


class TestRoom:
    """Never more than is allowed, whatever the models are."""

    def test_a_dense_model_carries_fewer(self, tmp_path: Path):
        folder = write_results(tmp_path, sentences=40, words=14)
        summary, _, page = make(folder, max_bytes=900_000)
        assert summary.sentences["rela-g"] == 43
        assert 0 < summary.sentences["softmax"] < 43
        assert sum(name.startswith("w0-") for name in page.scripts) == 43
        assert summary.num_bytes > 850_000  # the room is used

    def test_equal_models_share_fairly(self, tmp_path: Path):
        folder = write_results(tmp_path, ("softmax", "softmax-2"), sentences=30, words=14)
        change_examples(folder, copy_weights)
        summary, _, _ = make(folder, max_bytes=700_000)
        carried = list(summary.sentences.values())
        assert 0 < min(carried) <= max(carried) < 33
        assert max(carried) - min(carried) <= 1

    @pytest.mark.parametrize("max_bytes", [250_000, 300_000, 400_000, 600_000, 1_500_000])
    def test_bounds(self, tmp_path: Path, max_bytes: int):
        folder = write_results(tmp_path, layers=3, heads=6, sentences=12, words=24)
        summary, _, _ = make(folder, max_bytes=max_bytes)  # checks the size
        assert summary.sentences["rela-g"] >= summary.sentences["softmax"]

    def test_not_one_sentence_fits(self, tmp_path: Path):
        folder = write_results(tmp_path, ("softmax",), layers=6, heads=8, sentences=1, words=60)
        summary, _, page = make(folder, max_bytes=300_000)
        assert summary.sentences == {"softmax": 0}
        assert summary.listed_sentences == 4
        assert set(page.scripts) == {"data", "code"}

    def test_a_sentence_that_does_not_fit_keeps_no_other_out(self, tmp_path: Path):
        folder = write_results(tmp_path, ("softmax",), sentences=6, words=8)

        def change(described: dict[str, Any], arrays: dict[str, Any]) -> None:
            arrays["0.encoder.0"] = np.random.default_rng(0).random((3, 4, 300, 300), np.float32)

        change_examples(folder, change)
        summary, _, page = make(folder, max_bytes=500_000)
        assert summary.sentences == {"softmax": 8}
        assert "w0-0" not in page.scripts

    def test_important_sentences_come_first(self, tmp_path: Path):
        folder = write_results(tmp_path, ("softmax",), sentences=30, words=20)

        def change(data: dict[str, Any]) -> None:
            data["models"][0]["findings"][0]["sentence"] = 17

        change_results(folder, change)
        summary, _, page = make(folder, max_bytes=450_000)
        assert 4 <= summary.sentences["softmax"] < 20
        assert {"w0-17", "w0-30", "w0-31", "w0-32", "w0-0"} <= set(page.scripts)

    def test_more_text_than_room(self, tmp_path: Path):
        folder = write_results(tmp_path, ("rela-g",), layers=1, heads=1, sentences=300, words=40)
        summary, _, page = make(folder, max_bytes=400_000)
        assert 0 < summary.listed_sentences < summary.total_sentences == 303
        examples = data_of(page)["examples"]
        assert (len(examples["sentences"]), examples["total"]) == (summary.listed_sentences, 303)
        numbers = [sentence["id"] for sentence in examples["sentences"]]
        assert numbers == sorted(numbers)
        assert summary.sentences["rela-g"] > 0

    def test_no_room_for_the_numbers(self, tmp_path: Path):
        with pytest.raises(ValueError, match="got max_bytes 10000; allow more"):
            write_page(load_results(write_results(tmp_path)), tmp_path / "report.html", max_bytes=10_000)
        assert not (tmp_path / "report.html").exists()

    def test_weights_that_are_no_numbers(self, tmp_path: Path):
        folder = write_results(tmp_path, sentences=3)

        def change(described: dict[str, Any], arrays: dict[str, Any]) -> None:
            arrays["0.cross.1"][0, 0, 0, 0] = np.nan

        change_examples(folder, change)
        summary, _, page = make(folder)
        assert summary.sentences == {"rela-g": 5, "softmax": 6}
        assert data_of(page)["examples"]["unusable"] == [1, 0]

    def test_a_model_without_weights(self, tmp_path: Path):
        folder = write_results(tmp_path, sentences=3)

        def change(described: dict[str, Any], arrays: dict[str, Any]) -> None:
            for name in [name for name in arrays if name.startswith("1.")]:
                del arrays[name]

        change_examples(folder, change)
        assert make(folder)[0].sentences == {"rela-g": 6, "softmax": 0}

    @pytest.mark.slow
    def test_200_sentences_in_5_megabytes(self, tmp_path: Path):
        folder = write_results(tmp_path, layers=2, heads=4, sentences=197, words=16)
        summary, _, _ = make(folder)
        assert summary.sentences["rela-g"] == 200
        assert summary.sentences["softmax"] > 60


def copy_weights(_: dict[str, Any], arrays: dict[str, Any]) -> None:
    """From the first model to the second."""
    arrays.update({f"1{name[1:]}": array for name, array in arrays.items() if name.startswith("0.")})


def test_every_script_is_used_and_none_ends_early():
    folder = resources.files("rela.report").joinpath("assets")
    names = {file.name for file in folder.iterdir()}
    assert names == {*SCRIPTS, *SIEVE_SCRIPTS, *STYLES, "page.html", "sieve.html"}
    for name in {*SCRIPTS, *SIEVE_SCRIPTS}:
        assert "</script" not in folder.joinpath(name).read_text(encoding="utf-8")
