"""The page in a browser: what is drawn is what the model did."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.report.browser import Opened, Windows, make
from tests.report.helpers import change_examples, write_results

from rela.report.encoding import decode_weights, encode_weights
from rela.report.results import load_results


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

    @pytest.mark.parametrize("shift", ["normal", "shifted"])
    def test_a_piece_of_no_word_is_in_no_row_of_words(self, browser: Windows, tmp_path: Path, shift: str):
        """Lone blanks, and words without a piece, are none of the units that the measures between words have."""
        folder = write_results(tmp_path, ("rela-g",), layers=1, heads=1, sentences=1, words=5)

        def change(described: dict[str, Any], arrays: dict[str, Any]) -> None:
            sentence = described["sentences"][0]
            model = sentence["models"][0]
            model["target_pieces"][1], model["target_piece_words"][1] = " ", []  # all that the second word had
            arrays["0.cross.0"][0, 0, 1 + (shift == "shifted")] = 0

        change_examples(folder, change)
        weights, sentence = self.expected(folder, 0, "cross", 0, 0, 0)
        words = sentence["target_words"]
        with Opened(browser, make(folder), hash=f"s=0&a=0.1.0&kind=cross&level=word&shift={shift}") as page:
            pane, shown = page.matrix()
            left = [words[0], *words[2:]]
            assert pane["rows"] == (["BOS", *left] if shift == "shifted" else [*left, "EOS"])
            assert pane["facts"]["rows"] == len(words)
            assert pane["facts"]["nullRows"] == sum((row == 0).all() for row in shown)
            page.press("w")
            pieces, _ = page.matrix()
            assert "␣" in pieces["rows"]
            assert pieces["facts"]["rows"] == len(weights)

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
                    for (let y = row * size + 1; y < (row + 1) * size - 2; y += 1) {
                        const start = y * canvas.width + col * size;
                        for (const pixel of pixels.subarray(start + 1, start + size - 2)) seen.add(pixel);
                    }
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
