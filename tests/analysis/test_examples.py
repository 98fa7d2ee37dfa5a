"""Which sentences are kept as examples, the cases made of them, and the file of their weights."""

import json
import zipfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.analysis.batches import texts
from tests.analysis.studies import words_of, write_corpus, write_text
from tests.model.folders import text_model, tokenizers

from rela.alignment.errors import ErrorCounts
from rela.alignment.naive import merged_links
from rela.alignment.pairs import EncodedPair, Side
from rela.analysis import examples as examples_module
from rela.analysis.corpus import Item
from rela.analysis.examples import ExamplesFile
from rela.analysis.inspection import inspect
from rela.analysis.sample import MOST_PIECES, Example, Sample, examples_of, insert_words
from rela.text.worded import Wording


def items(count: int, size: int = 1) -> list[Item]:
    side = Side([], [3] * size, [])
    return [Item("", "", EncodedPair(line, side, side), None, None) for line in range(1, count + 1)]


def drawn(size: int, seed: int, found: Sequence[Item]) -> list[int]:
    sample = Sample(size, seed)
    sample.add(found)
    return [item.pair.line for item in sample.items()]


class TestSample:
    @given(count=st.integers(0, 60), size=st.integers(0, 20), seed=st.integers(0, 2**31), step=st.integers(1, 9))
    def test_as_many_as_asked_in_order_however_they_come(self, count: int, size: int, seed: int, step: int):
        found = drawn(size, seed, items(count))
        assert found == sorted(set(found))
        assert len(found) == min(count, size)
        sample = Sample(size, seed)
        for first in range(0, count, step):
            sample.add(items(count)[first : first + step])
        assert [item.pair.line for item in sample.items()] == found

    def test_another_seed_draws_others(self):
        assert drawn(10, 1, items(100)) != drawn(10, 2, items(100))

    def test_each_line_is_as_likely(self):
        counts = Counter(line for seed in range(2000) for line in drawn(5, seed, items(20)))
        assert len(counts) == 20
        expected, deviation = 500, np.sqrt(2000 * 0.25 * 0.75)
        assert max(abs(count - expected) for count in counts.values()) < 4.5 * deviation

    def test_long_ones_are_left_out(self):
        long = items(5, MOST_PIECES + 1)
        assert drawn(9, 1, [*long, *items(7)[5:]]) == [6, 7]


class TestCases:
    def test_good_inserted_and_mismatched(self, tmp_path: Path):
        corpus = write_corpus(tmp_path, 30)
        found = list(corpus.read(tokenizers()))
        examples = examples_of(found, corpus.wording)
        assert [example.role for example in examples] == ["pair"] * 30 + ["good", "inserted", "mismatched"]
        good, inserted, mismatched = examples[30:]
        origin = found[good.line - 1]
        assert (good.source, good.target, good.gold) == (origin.source, origin.target, origin.gold)
        assert inserted.source == mismatched.source == good.source
        assert (inserted.gold, inserted.target_tags, mismatched.gold) == (None, None, None)
        assert mismatched.target in {item.target for item in found} - {good.target}
        assert mismatched.target_tags is not None
        assert len(mismatched.target_tags) == len(words_of(mismatched.target))
        extra = Counter(words_of(inserted.target)) - Counter(words_of(good.target))
        assert extra == Counter(words_of(mismatched.target)[:3])

    @pytest.mark.parametrize(
        "pairs",
        [
            [],
            [("the dog runs", "der Hund")] * 9,  # too short
            [("the dog runs", "ein Hund läuft und läuft .")],  # no other
            [("the dog runs", "ein Hund läuft und läuft .")] * 3,  # all the same
        ],
    )
    def test_none_where_none_can_be_made(self, tmp_path: Path, pairs: list[tuple[str, str]]):
        corpus = write_text(tmp_path, pairs)
        found = list(corpus.read(tokenizers()))
        assert [example.role for example in examples_of(found, corpus.wording)] == ["pair"] * len(pairs)

    @pytest.mark.parametrize(
        ("text", "tokenised", "expected"),
        [
            ("Ein Hund läuft, oder nicht.", False, "Ein Hund läuft, A B oder nicht."),
            ("Ein Hund läuft , oder", True, "Ein Hund A B läuft , oder"),
            ("Hund", False, "Hund A B"),
            ("Hund", True, "A B Hund"),
            ("läuft,läuft", False, "läuft,läuft A B"),
        ],
    )
    def test_inserted_between_words(self, text: str, tokenised: bool, expected: str):
        assert insert_words(text, ["A", "B"], Wording(tokenised=tokenised)) == expected


def write(folder: Path, examples: Sequence[Example], best: dict[str, Any] | None) -> dict[str, Any]:
    model, sides = text_model()
    seen: list[int] = []
    with ExamplesFile(examples, Wording(), folder / "partial") as file:
        for name in ("one", "two"):
            file.add(name, model, sides, best, lambda place, example, inspection: seen.append(place))
        file.finish(folder / "attention.npz")
    assert not (folder / "partial").exists()
    assert seen == [*range(len(examples))] * 2
    with np.load(folder / "attention.npz", allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


BEST: dict[str, Any] = {"normal": {"layer": 2, "head": 1, "aer": 0.4}, "shifted": {"layer": 1, "head": 3, "aer": 0.2}}


class TestFile:
    def test_weights_and_words(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(examples_module, "_AT_A_TIME", 4)  # several groups, the last one smaller
        corpus = write_corpus(tmp_path, 11)
        found = list(corpus.read(tokenizers()))
        examples = examples_of(found, corpus.wording)
        arrays = write(tmp_path, examples, BEST)
        data = json.loads(str(arrays.pop("examples")))
        assert (data["format"], data["models"], len(data["sentences"])) == (
            "rela-examples-1",
            ["one", "two"],
            len(examples),
        )
        inspections = inspect(text_model(), [one.source for one in examples], [one.target for one in examples])
        assert len(arrays) == 2 * 3 * len(examples)
        for place, (example, inspection, sentence) in enumerate(
            zip(examples, inspections, data["sentences"], strict=True)
        ):
            for kind in ("encoder", "decoder", "cross"):
                for number in range(2):
                    array = arrays[f"{number}.{kind}.{place}"]
                    assert array.dtype == np.float32
                    np.testing.assert_allclose(array, inspection[kind], atol=1e-6)
            assert (sentence["line"], sentence["role"]) == (example.line, example.role)
            assert sentence["source_words"] == words_of(example.source)
            assert sentence["target_words"] == words_of(example.target)
            assert sentence["target_tags"] == example.target_tags
            for of_model in sentence["models"]:
                assert (
                    len(of_model["source_pieces"])
                    == inspection["cross"].shape[-1]
                    == len(of_model["source_piece_words"])
                )
                assert (
                    len(of_model["target_pieces"])
                    == inspection["cross"].shape[-2]
                    == len(of_model["target_piece_words"])
                )
                assert of_model["source_piece_words"][-1] == of_model["target_piece_words"][-1] == []
                assert of_model["null"]["cross"] == pytest.approx(inspection.null("cross").mean(), abs=1e-5)
                if example.gold is None:
                    assert (of_model["aer"], sentence["sure"], sentence["possible"]) == (None, None, None)
                else:
                    assert sentence["sure"] == [list(link) for link in sorted(example.gold.sure)]
                    links = merged_links(
                        inspection["cross"][0, 3].astype(np.float64),
                        inspection.source_word_pieces,
                        inspection.target_word_pieces,
                        shifted=True,
                    )
                    counts = ErrorCounts.of(links, example.gold)
                    expected = None if counts.found + counts.sure == 0 else pytest.approx(counts.aer, abs=1e-5)
                    assert of_model["aer"] == expected

    def test_links_are_source_word_then_target_word(self, tmp_path: Path):
        corpus = write_text(tmp_path, [("the dog runs under", "Hund läuft")])
        (tmp_path / "test.sure").write_text("3-1\n", encoding="utf-8")
        (tmp_path / "test.possible").write_text("\n", encoding="utf-8")
        arrays = write(tmp_path, examples_of(list(corpus.read(tokenizers())), corpus.wording), None)
        [sentence] = json.loads(str(arrays["examples"]))["sentences"]
        assert sentence["sure"] == sentence["possible"] == [[3, 1]]
        assert sentence["models"][0]["aer"] is None  # nobody knows the best head

    def test_the_same_weights_are_the_same_bytes(self, tmp_path: Path):
        examples = [Example(line, "pair", *pair, None, None) for line, pair in enumerate(texts(4), start=1)]
        for name in ("a", "b"):
            (tmp_path / name).mkdir()
            write(tmp_path / name, examples, None)
        assert (tmp_path / "a/attention.npz").read_bytes() == (tmp_path / "b/attention.npz").read_bytes()

    def test_no_examples(self, tmp_path: Path):
        arrays = write(tmp_path, [], None)
        assert json.loads(str(arrays["examples"]))["sentences"] == []
        assert zipfile.ZipFile(tmp_path / "attention.npz").namelist() == ["examples.npy"]

    def test_cut_off_there_is_no_file(self, tmp_path: Path):
        with pytest.raises(KeyboardInterrupt), ExamplesFile([], Wording(), tmp_path / "partial"):
            raise KeyboardInterrupt
        assert not (tmp_path / "attention.npz").exists()
