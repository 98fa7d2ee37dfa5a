"""The corpus as files."""

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from rela.text.grammar import GrammarPair, generate, write_corpus

COUNTS = {"train": 30, "dev": 5, "test": 6, "test-compositional": 7}


def read(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def test_files(tmp_path: Path):
    assert write_corpus(tmp_path / "new", counts=COUNTS, seed=5) == COUNTS
    gold = [".sure", ".possible", ".tags.en", ".tags.de"]
    expected = {
        f"{split}{ending}" for split in COUNTS for ending in [".en", ".de", *(gold if split != "train" else [])]
    }
    assert {path.name for path in (tmp_path / "new").iterdir()} == expected
    for split, count in COUNTS.items():
        assert len(read(tmp_path / "new" / f"{split}.en")) == count
    assert read(tmp_path / "new" / "train.de") == [pair.target for pair in generate(seed=5, count=30)]


def test_gold(tmp_path: Path):
    write_corpus(tmp_path, counts={"test": 6}, seed=9)
    pairs = list(generate("test", count=6))
    assert read(tmp_path / "test.en") == [pair.source for pair in pairs]
    assert read(tmp_path / "test.tags.de") == [" ".join(pair.target_tags) for pair in pairs]
    for ending, links in (("sure", [pair.sure for pair in pairs]), ("possible", [pair.possible for pair in pairs])):
        for line, expected in zip(read(tmp_path / f"test.{ending}"), links, strict=True):
            assert [tuple(map(int, link.split("-"))) for link in line.split()] == list(expected)


def test_an_interrupted_file_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def fail(*args: object, **kwargs: object) -> Iterator[GrammarPair]:
        yield from list(generate("dev", count=2))
        raise KeyboardInterrupt

    monkeypatch.setattr("rela.text.grammar.corpus.generate", fail)
    with pytest.raises(KeyboardInterrupt):
        write_corpus(tmp_path, counts={"dev": 5})
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Errors name the file that could not be written, and leave none behind."""

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("rela._files.os.fsync", full)
    with pytest.raises(OSError, match="No space left") as caught:
        write_corpus(tmp_path, counts={"train": 5})
    assert caught.value.filename in {str(tmp_path / "train.en"), str(tmp_path / "train.de")}
    assert list(tmp_path.iterdir()) == []


def test_progress(tmp_path: Path):
    seen: list[tuple[str, int]] = []
    write_corpus(tmp_path, counts={"train": 1500, "dev": 3}, progress=lambda split, count: seen.append((split, count)))
    assert seen == [("train", 1000), ("train", 500), ("dev", 3)]


def test_unknown_split(tmp_path: Path):
    with pytest.raises(ValueError, match="not tune"):
        write_corpus(tmp_path, counts={"tune": 3})
