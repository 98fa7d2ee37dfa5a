"""Tags from files and from the tagger, and null rows by the word just produced."""

import gzip
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.analysis.batches import MARKS, encoded, texts
from tests.model.folders import tokenizers

from rela.alignment.pairs import PairBatch
from rela.analysis import tagsets
from rela.analysis.tags import START, HanTaTagger, NullByTag, categories, check_tags, read_tags

KINDS = ("decoder", "cross")


class TestFiles:
    def test_lines(self, tmp_path: Path):
        file = tmp_path / "test.tags.de"
        file.write_bytes("\ufeffDET NOUN\r\n\n VERB  PUNCT".encode())
        assert list(read_tags(file)) == [["DET", "NOUN"], [], ["VERB", "PUNCT"]]
        packed = tmp_path / "test.tags.gz"
        packed.write_bytes(gzip.compress(b"DET NOUN\n"))
        assert list(read_tags(packed)) == [["DET", "NOUN"]]

    def test_other_bytes(self, tmp_path: Path):
        file = tmp_path / "tags"
        file.write_bytes(b"DET\n\xff\n")
        with pytest.raises(ValueError, match="tags, line 2: expected tags in UTF-8"):
            list(read_tags(file))

    def test_another_number_than_words(self):
        check_tags(["DET", "NOUN"], ["der", "Hund"], "f", 1)
        with pytest.raises(
            ValueError, match=r"^f, line 7: expected 2 tags, one a word of the target: der Hund; got 1\."
        ):
            check_tags(["DET"], ["der", "Hund"], "f", 7)
        with pytest.raises(ValueError, match=r"^f, line 7: expected 99 tags, one a word of the target; got 1\."):
            check_tags(["DET"], ["der"] * 99, "f", 7)


def test_categories():
    assert categories(["Ja", ",", "Hund", "-----"], ["INTJ", "PUNCT", "NOUN", "PUNCT"]) == [
        ("INTJ",),
        ("PUNCT", "PUNCT ,"),
        ("NOUN",),
        ("PUNCT",),
    ]


class TestHanTa:
    @pytest.mark.parametrize(
        ("language", "sentence", "tags"),
        [
            (
                "de",
                "Der alte Hund , der Maria gestern nicht gesehen hat , schläft \u201c in drei Häusern .",
                "DET ADJ NOUN PUNCT PRON PROPN ADV PART VERB AUX PUNCT VERB PUNCT ADP NUM NOUN PUNCT",
            ),
            (
                "en",
                "The old dog , which had seen us , wants to sleep in London & runs \u2013 3 %",
                "DET ADJ NOUN PUNCT PRON AUX VERB PRON PUNCT VERB PART VERB ADP PROPN SYM VERB PUNCT NUM SYM",
            ),
            (
                "nl",
                "De oude hond heeft drie grote huizen in Amsterdam gezien , omdat hij niet slaapt .",
                "DET ADJ NOUN AUX NUM ADJ NOUN ADP PROPN VERB PUNCT SCONJ PRON ADV VERB PUNCT",
            ),
        ],
    )
    def test_sentences(self, language: str, sentence: str, tags: str):
        words = sentence.split()
        assert dict(zip(words, HanTaTagger(language)(words), strict=True)) == dict(
            zip(words, tags.split(), strict=True)
        )

    @pytest.mark.parametrize(("language", "universal"), [("de", tagsets.german), ("en", tagsets.english),
                                                         ("nl", tagsets.dutch)])  # fmt: skip
    def test_knows_every_tag_of_its_model(self, language: str, universal: object):
        tagger = HanTaTagger(language)._tagger  # pyright: ignore[reportPrivateUsage]
        names = [tagger.int2tag[-tag] for tag in tagger.int2tag if tag < 0]
        assert len(names) > 50
        assert [name for name in names if universal(name, "") is None] == []  # pyright: ignore[reportCallIssue, reportUnknownVariableType]

    def test_no_words(self):
        assert HanTaTagger("de")([]) == []

    def test_another_language(self):
        with pytest.raises(ValueError, match=r"expected one of de, en, nl, .* got 'fr'; .* --tags"):
            HanTaTagger("fr")

    def test_not_installed(self):
        code = (
            "import sys; sys.modules['HanTa'] = None\n"
            "from rela.analysis.tags import HanTaTagger\n"
            "try: HanTaTagger('de')\n"
            "except ModuleNotFoundError as error: print(error)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert 'pip install "rela-attention[tags]"' in done.stdout


class TestNullByTag:
    @given(seed=st.integers(0, 10_000), size=st.integers(1, 4))
    @settings(max_examples=30)
    def test_equals_loops(self, seed: int, size: int):
        generator = np.random.default_rng(seed)
        pairs = encoded(tokenizers(), texts(6, seed))
        tags = [
            ["PUNCT" if word in MARKS else str(generator.choice(["NOUN", "VERB", "X"])) for word in pair.target.words]
            for pair in pairs
        ]
        nulls = {
            (kind, line): generator.random((2, 3, len(pair.target.ids) + 1)) < 0.4  # [layer, head, row]
            for kind in KINDS
            for line, pair in enumerate(pairs)
        }
        counted = NullByTag()
        for start in range(0, len(pairs), size):
            lines = range(start, min(start + size, len(pairs)))
            batch = PairBatch([pairs[line] for line in lines])
            padded = {kind: torch.ones(2, len(lines), 3, batch.target_in.shape[1], dtype=torch.bool) for kind in KINDS}
            for (kind, line), null in nulls.items():
                if line in lines:
                    padded[kind][:, line - start, :, : null.shape[-1]] = torch.from_numpy(null)
            counted.add(batch, [tags[line] for line in lines], {kind: list(padded[kind]) for kind in KINDS})
        result = counted.result()
        assert result.rows == sum(len(pair.target.ids) + 1 for pair in pairs)
        expected: dict[str, list[tuple[int, int]]] = {START: [(line, 0) for line in range(len(pairs))]}
        for line, pair in enumerate(pairs):
            for word, tag, pieces in zip(pair.target.words, tags[line], pair.target.word_pieces, strict=True):
                for name in {tag, f"{tag} {word}" if tag == "PUNCT" else tag}:
                    expected.setdefault(name, []).append((line, pieces[-1] + 1))
        assert result.categories == sorted(expected)
        for kind in KINDS:
            for place, name in enumerate(result.categories):
                rows = [nulls[kind, line][:, :, row] for line, row in expected[name]]
                assert result.counts[place] == len(rows)
                np.testing.assert_allclose(result.rates(kind)[place], np.mean(rows, axis=0), rtol=1e-12)
            everything = np.concatenate([nulls[kind, line] for line in range(len(pairs))], axis=-1)
            np.testing.assert_allclose(result.all_nulls[kind] / result.rows, everything.mean(-1), rtol=1e-12)
        assert result.measures()["cross.null.tag"].shape == (len(expected), 2, 3)

    def test_no_pairs(self):
        with pytest.raises(ValueError, match="expected at least one pair"):
            NullByTag().result()
