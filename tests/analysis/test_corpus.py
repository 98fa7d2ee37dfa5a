"""Pairs, gold links and tags stay in step, whatever lines are left out; files that do not fit are refused."""

import gzip
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.analysis.batches import texts
from tests.analysis.studies import links_of, tags_of, words_of, write_corpus, write_lines
from tests.model.folders import tokenizers

from rela.alignment.gold import read_gold
from rela.analysis.corpus import Corpus, GoldFiles, Item
from rela.text.worded import Wording

BAD: dict[str, tuple[bytes, bytes]] = {
    "empty-source": (b"", b"Hund"),
    "empty-target": (b"dog", b" \t "),
    "invalid-utf8": (b"dog \xff", b"Hund"),
    "nul-character": (b"dog", b"Hu\0nd"),
    "too-long": (b"dog " * 3000, b"Hund"),
    "too-many-pieces": (b"dog", b"Hund " * 80),
}


def write_bytes(path: Path, lines: list[bytes]) -> Path:
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def corpus_with(folder: Path, problems: list[str | None]) -> tuple[Corpus, list[tuple[int, str, str]]]:
    """Good pairs, and at other lines bad ones; also the good ones with their lines."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(1)
    good = iter(texts(len(problems), seed=3))
    lines: list[tuple[bytes, bytes]] = []
    kept: list[tuple[int, str, str]] = []
    tags: list[str] = []
    gold: list[str] = []
    for number, problem in enumerate(problems, start=1):
        if problem is None:
            source, target = next(good)
            kept.append((number, source, target))
            lines.append((source.encode(), target.encode()))
            tags.append(tags_of(target))
            gold.append(links_of(source, target, draw))
        else:
            lines.append(BAD[problem])
            tags.append("X " * 80 if problem == "too-many-pieces" else f"WRONG{number}")
            gold.append("0-0")
    return Corpus(
        source=write_bytes(folder / "test.en", [source for source, _ in lines]),
        target=write_bytes(folder / "test.de", [target for _, target in lines]),
        gold=GoldFiles(sure=write_lines(folder / "test.sure", gold)),
        tags=write_lines(folder / "test.tags.de", tags),
        max_pieces=60,
    ), kept


@given(problems=st.lists(st.sampled_from([None, None, *BAD]), min_size=1, max_size=12))
def test_gold_and_tags_stay_in_step(tmp_path_factory: pytest.TempPathFactory, problems: list[str | None]):
    corpus, kept = corpus_with(tmp_path_factory.mktemp("corpus"), problems)
    reading = corpus.read(tokenizers())
    items = list(reading)
    assert [(item.pair.line, item.source, item.target) for item in items] == kept
    assert corpus.gold is not None
    gold = list(read_gold(corpus.gold.sure))
    for item in items:
        assert item.tags == tags_of(item.target).split()
        assert item.gold == gold[item.pair.line - 1]
        assert item.pair.target.words == words_of(item.target)
    expected = {problem: problems.count(problem) for problem in problems if problem is not None}
    assert reading.skipped == expected
    assert reading.num_pairs == len(kept)
    assert len(reading.lines()) == len(expected)
    assert all(
        any(line.startswith(f"{problem}: {count} (") for line in reading.lines()) for problem, count in expected.items()
    )


def test_it_can_be_read_twice_at_once(tmp_path: Path):
    corpus = write_corpus(tmp_path, 6)
    first, second = corpus.read(tokenizers()), corpus.read(tokenizers())
    interleaved = [(one, other) for one, other in zip(first, second, strict=True)]
    assert all(one == other for one, other in interleaved)
    assert len(interleaved) == 6


def test_packed_files(tmp_path: Path):
    corpus = write_corpus(tmp_path, 5)
    plain = list(corpus.read(tokenizers()))
    packed: dict[str, Path] = {}
    for name, path in corpus.files.items():
        packed[name] = path.with_name(f"{path.name}.gz")
        packed[name].write_bytes(gzip.compress(path.read_bytes()))
    gold = GoldFiles(sure=packed["sure"], possible=packed["possible"])
    same = replace(corpus, source=packed["source"], target=packed["target"], tags=packed["tags"], gold=gold)
    same.check()
    assert list(same.read(tokenizers())) == plain
    assert same.name == corpus.name == "test"


def test_wording(tmp_path: Path):
    corpus = replace(write_corpus(tmp_path, 5), gold=None, tags=None)
    wording = Wording(tokenised=True, replacements={"Hund": "Katze"})
    items: list[Item] = list(replace(corpus, wording=wording).read(tokenizers()))
    assert [item.pair.target.words for item in items] == [item.target.split() for item in items]


class Upper:
    name = "upper-1"

    def __call__(self, words: Sequence[str], /) -> list[str]:
        return [word.upper() for word in words]


def test_a_tagger(tmp_path: Path):
    corpus = replace(write_corpus(tmp_path, 5), tags=Upper())
    assert corpus.tags_name == "upper-1"
    assert all(item.tags == [word.upper() for word in item.pair.target.words] for item in corpus.read(tokenizers()))
    assert "tags" not in corpus.files


Change = Callable[[list[str]], list[str]]

UNFIT: dict[str, tuple[str, Change, str]] = {
    "too few links": ("test.sure", lambda lines: lines[:-1], "expected as many lines as in"),
    "too many links": ("test.possible", lambda lines: [*lines, ""], "expected as many lines as in"),
    "a link outside": (
        "test.sure",
        lambda lines: ["0-99", *lines[1:]],
        r"test.sure, line 1: expected links of \d+ source",
    ),
    "too few tag lines": ("test.tags.de", lambda lines: lines[:-1], r"got none for line 6: the file has 5 lines"),
    "too many tag lines": (
        "test.tags.de",
        lambda lines: [*lines, "X"],
        "expected 6 lines, as many as the text has, got 7",
    ),
    "too many tags": (
        "test.tags.de",
        lambda lines: [f"{lines[0]} X", *lines[1:]],
        r"line 1: expected \d+ tags, one a word",
    ),
}


class TestRefused:
    @pytest.mark.parametrize("name", UNFIT)
    def test_lines_that_do_not_fit(self, tmp_path: Path, name: str):
        file, change, message = UNFIT[name]
        corpus = write_corpus(tmp_path, 6)
        lines = (tmp_path / file).read_text(encoding="utf-8").splitlines()
        write_lines(tmp_path / file, change(lines))
        with pytest.raises(ValueError, match=message):
            list(corpus.read(tokenizers()))

    def test_gold_in_one_file_with_too_few_or_many_lines(self, tmp_path: Path):
        corpus = replace(write_corpus(tmp_path, 6), gold=GoldFiles(sure=tmp_path / "test.sure"))
        lines = (tmp_path / "test.sure").read_text(encoding="utf-8").splitlines()
        for changed, message in ((lines[:4], "got none for line 5: the file has 4 lines"), ([*lines, ""], "got 7")):
            write_lines(tmp_path / "test.sure", changed)
            with pytest.raises(ValueError, match=message):
                list(corpus.read(tokenizers()))

    def test_too_few_tags_behind_the_last_good_line(self, tmp_path: Path):
        """Also those of lines that are left out must be there: else the file is of another text."""
        corpus = write_corpus(tmp_path, 3)
        for side in ("en", "de"):
            path = tmp_path / f"test.{side}"
            path.write_text(path.read_text(encoding="utf-8") + "\n", encoding="utf-8")
        with pytest.raises(ValueError, match="expected 4 lines, as many as the text has, got 3"):
            list(replace(corpus, gold=None).read(tokenizers()))

    @pytest.mark.parametrize(("side", "numbers"), [("en", "8 and 6"), ("de", "6 and 8")])
    def test_texts_of_unequal_length(self, tmp_path: Path, side: str, numbers: str):
        """Before anything is measured: if the line that is lost is not the last, all behind it are wrong pairs."""
        corpus = replace(write_corpus(tmp_path, 6), gold=None, tags=None)
        with (tmp_path / f"test.{side}").open("a", encoding="utf-8") as file:
            file.write("dog\ncat")
        with pytest.raises(ValueError, match=f"expected as many lines in both, .* got {numbers}"):
            corpus.check()

    def test_files_that_are_not_there(self, tmp_path: Path):
        corpus = write_corpus(tmp_path, 2)
        with pytest.raises(FileNotFoundError, match=r"none: expected a file \(target\), there is none"):
            replace(corpus, target=tmp_path / "none").check()
        with pytest.raises(IsADirectoryError, match=r"expected a file \(tags\), got a folder"):
            replace(corpus, tags=tmp_path).check()

    def test_streams(self, tmp_path: Path):
        corpus = write_corpus(tmp_path, 2)
        with pytest.raises(ValueError, match=r"^-: expected a file \(source\), since an analysis reads it more than"):
            replace(corpus, source=Path("-")).check()
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(ValueError, match=r"pipe: expected a file \(sure\), .* got a stream"):
            replace(corpus, gold=GoldFiles(sure=tmp_path / "pipe")).check()
