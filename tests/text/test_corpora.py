"""Corpora by name: the registry, copies under RELA_DATA, the cache, and files fetched from a server of the tests."""

import gzip
import io
import re
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest
from tests.text.web import Page, Web

from rela.text import corpora
from rela.text.corpora import LocalCorpus, cache_folder, fetch
from rela.text.corpus import Corpus, Part, Selection, Side
from rela.text.download import DownloadError, Remote
from rela.text.forms import write_part
from rela.text.problems import ReadReport
from rela.text.readers import PairSource, read_pairs
from rela.text.registry import CORPORA, find_corpus

FETCHED = [name for name, corpus in CORPORA.items() if not corpus.is_generated]


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    for name in ("RELA_DATA", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RELA_CACHE", str(tmp_path / "cache"))


def tgz(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1) as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def pairs(sources: list[PairSource]) -> list[tuple[str, str]]:
    found = (read_pairs(source, report=ReadReport(), strict=True) for source in sources)
    return [(pair.source, pair.target) for part in found for pair in part]


class TestRegistry:
    def test_the_corpora_that_were_asked_for(self):
        assert list(CORPORA) == [
            "grammar",
            "multi30k-en-de",
            "multi30k-en-fr",
            "multi30k-en-cs",
            "europarl-en-de",
            "wmt14-en-de",
            "wmt14-en-fr",
            "wmt18-en-fi",
            "wmt18-zh-en",
            "wmt16-ro-en",
        ]

    @pytest.mark.parametrize(
        ("name", "dev", "test"),
        [
            ("wmt14-en-de", "newstest2013", "newstest2014"),
            ("wmt14-en-fr", "newstest2013", "newstest2014"),
            ("wmt18-en-fi", "newstest2017", "newstest2018"),
            ("wmt18-zh-en", "newstest2017", "newstest2018"),
            ("wmt16-ro-en", "newsdev2016", "newstest2016"),
        ],
    )
    def test_the_sets_of_the_paper(self, name: str, dev: str, test: str):
        for split, expected in (("dev", dev), ("test", test)):
            (part,) = CORPORA[name].splits[split]
            assert part.name == expected
            assert part.form == "sgm"
            assert all(expected in (side.member or "") for side in part.sides.values())

    @pytest.mark.parametrize("name", FETCHED)
    def test_entries_are_whole(self, name: str):
        corpus = CORPORA[name]
        assert name.endswith(f"-{corpus.source_language}-{corpus.target_language}")
        assert list(corpus.splits)[:3] == ["train", "dev", "test"]
        assert corpus.description
        assert corpus.terms
        for part in (part for parts in corpus.splits.values() for part in parts):
            assert set(part.sides) == {corpus.source_language, corpus.target_language}
            for language, side in part.sides.items():
                assert side.remote.url.startswith("https://")
                assert part.form == "titles" or re.search(rf"\.{language}\b", side.member or side.remote.url)
                checksum = side.remote.checksum
                assert checksum is None or re.fullmatch(r"md5:[0-9a-f]{32}|sha256:[0-9a-f]{64}", checksum)

    def test_the_built_in_corpus_is_generated(self):
        assert CORPORA["grammar"].is_generated
        assert set(CORPORA["grammar"].splits) == {"train", "dev", "test", "test-compositional"}

    def test_names_the_other_way_round(self):
        corpus = find_corpus("multi30k-de-en")
        assert (corpus.name, corpus.source_language, corpus.target_language) == ("multi30k-de-en", "de", "en")
        assert corpus.splits is find_corpus("multi30k-en-de").splits
        assert corpus.reversed().name == "multi30k-en-de"

    @pytest.mark.parametrize(
        ("name", "near"),
        [("multi30k-en-dee", "multi30k-en-de"), ("wmt14-de-em", "wmt14-de-en"), ("gramar", "grammar")],
    )
    def test_unknown_names(self, name: str, near: str):
        with pytest.raises(ValueError, match=rf"expected a known corpus, got '{name}'; did you mean '{near}'\?"):
            find_corpus(name)

    def test_a_name_that_is_near_to_none(self):
        with pytest.raises(ValueError, match=r"got 'x'; Known are grammar, multi30k-en-de, "):
            find_corpus("x")


class TestLocal:
    @pytest.fixture
    def data(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        folder = tmp_path / "data" / "multi30k"
        folder.mkdir(parents=True)
        for stem in ("train", "val", "test_2016_flickr"):
            (folder / f"{stem}.en").write_text(f"{stem} English\n")
            (folder / f"{stem}.de").write_text(f"{stem} deutsch\n")
        monkeypatch.setenv("RELA_DATA", str(folder.parent))
        return folder.parent

    def test_files_under_rela_data_are_taken(self, data: Path):
        local = fetch("multi30k-en-de", splits=["train", "dev", "test"])
        assert pairs(local.splits["train"]) == [("train English", "train deutsch")]
        assert pairs(local.splits["dev"]) == [("val English", "val deutsch")]
        assert pairs(local.splits["test"]) == [("test_2016_flickr English", "test_2016_flickr deutsch")]
        assert local.notes == ()

    @pytest.mark.parametrize("local", [("multi30k-de-en", False), ("multi30k-en-de", True)])
    def test_the_other_way_round(self, data: Path, local: tuple[str, bool]):
        found = fetch(local[0], splits=["train"], reverse=local[1])
        assert pairs(found.splits["train"]) == [("train deutsch", "train English")]
        assert (found.name, found.source_language, found.target_language) == ("multi30k-de-en", "de", "en")

    def test_packed_files(self, data: Path):
        (data / "multi30k" / "train.en").unlink()
        (data / "multi30k" / "train.en.gz").write_bytes(gzip.compress(b"packed\n"))
        assert pairs(fetch("multi30k-en-de", splits=["train"]).splits["train"]) == [("packed", "train deutsch")]

    def test_the_folder_of_europarl(self, tmp_path: Path):
        (tmp_path / "europarl-de-en").mkdir()
        (tmp_path / "europarl-de-en" / "dev.de").write_text("ja\n")
        (tmp_path / "europarl-de-en" / "dev.en").write_text("yes\n")
        local = fetch("europarl-en-de", splits=["dev"], data=tmp_path)
        assert pairs(local.splits["dev"]) == [("yes", "ja")]

    def test_what_is_not_there_is_said_and_fetched(self, data: Path, web: Web, monkeypatch: pytest.MonkeyPatch):
        made = make_corpus(web)
        monkeypatch.setitem(CORPORA, "made-en-de", made)
        local = fetch("made-en-de", splits=["train"])
        assert len(pairs(local.splits["train"])) == 4
        assert re.search(r"data has no made/train\.\* of both languages: train is taken from", local.notes[0])

    def test_unknown_splits(self):
        with pytest.raises(ValueError, match=r"multi30k-en-cs: expected splits among train, dev, test, got tset"):
            fetch("multi30k-en-cs", splits=["train", "tset"])


def make_corpus(web: Web) -> Corpus:
    """A small corpus on the server of the tests, of every kind of part."""
    web.pages["/train.tgz"] = Page(tgz({"in/a.en": b"one\ntwo\n", "in/a.de": b"eins\nzwei\n", "in/a.fr": b"un\n"}))
    web.pages["/titles.tgz"] = Page(tgz({"titles": b"drei ||| three\n"}))
    web.pages["/b.en.gz"] = Page(gzip.compress(b"four\n"))
    web.pages["/b.de.gz"] = Page(gzip.compress(b"vier\n"))
    sgm = {
        f"test.{language}.sgm": f'<seg id="1">{text}</seg>'.encode() for language, text in (("en", "five"), ("de", "5"))
    }
    web.pages["/test.tgz"] = Page(tgz(sgm))

    def archive(name: str, members: dict[str, str]) -> dict[str, Side]:
        remote = Remote(url=web.url(f"/{name}"))
        return {language: Side(remote=remote, member=member) for language, member in members.items()}

    single = {language: Side(remote=Remote(url=web.url(f"/b.{language}.gz"))) for language in ("en", "de")}
    return Corpus(
        name="made-en-de",
        source_language="en",
        target_language="de",
        splits={
            "train": (
                Part(name="a", sides=archive("train.tgz", {"en": "in/a.en", "de": "in/a.de"})),
                Part(name="titles", sides=archive("titles.tgz", {"de": "titles", "en": "titles"}), form="titles"),
                Part(name="b", sides=single),
            ),
            "test": (
                Part(name="t", sides=archive("test.tgz", {"en": "test.en.sgm", "de": "test.de.sgm"}), form="sgm"),
            ),
        },
        description="made by the tests",
        terms="none",
        folder="made",
    )


class TestFetched:
    @pytest.fixture(autouse=True)
    def made(self, web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(CORPORA, "made-en-de", make_corpus(web))

    def test_all_kinds_of_parts(self):
        local = fetch("made-en-de")
        assert [pairs([source]) for source in local.splits["train"]] == [
            [("one", "eins"), ("two", "zwei")],
            [("three", "drei")],
            [("four", "vier")],
        ]
        assert pairs(local.splits["test"]) == [("five", "5")]

    def test_a_second_time_from_the_cache(self, web: Web, tmp_path: Path):
        first = fetch("made-en-de")
        web.pages.clear()
        assert fetch("made-en-de") == first
        swapped = fetch("made-de-en").splits
        assert pairs(swapped["test"]) == [("5", "five")]
        assert [path.name for path in (tmp_path / "cache" / "corpora").iterdir()] == ["made-en-de"]
        kept = [path.name for path in (tmp_path / "cache" / "corpora" / "made-en-de").iterdir()]
        assert sorted(re.sub(r"-\w{8}$", "", name) for name in kept) == ["test", "test.lock", "train", "train.lock"]

    def test_progress(self, web: Web):
        seen: list[tuple[str, int, int | None]] = []

        def note(url: str, done: int, total: int | None) -> None:
            seen.append((url, done, total))

        fetch("made-en-de", splits=["test"], progress=note)
        size = len(web.pages["/test.tgz"].data)
        assert seen[-1] == (web.url("/test.tgz"), size, size)

    def test_a_failure_leaves_no_half_corpus(self, web: Web, tmp_path: Path):
        page = web.pages.pop("/b.de.gz")
        with pytest.raises(DownloadError, match="404"):
            fetch("made-en-de", splits=["train"])
        home = tmp_path / "cache" / "corpora" / "made-en-de"
        assert [path.name for path in home.iterdir()] == ["train.lock"]
        web.pages["/b.de.gz"] = page
        assert len(pairs(fetch("made-en-de", splits=["train"]).splits["train"])) == 4

    def test_an_archive_that_has_changed(self, web: Web):
        web.pages["/train.tgz"] = Page(tgz({"in/a.en": b"one\n"}))
        with pytest.raises(ValueError, match=r"expected in/a\.de in it"):
            fetch("made-en-de", splits=["train"])


def fake_text(language: str) -> bytes:
    return b"".join(f"{language} {number} {'word ' * (number % 40)}\n".encode() for number in range(6_000))


@pytest.mark.parametrize("name", FETCHED)
def test_every_entry_of_the_registry_can_be_built(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """With a web that holds the members that the entry names, and nothing else."""
    corpus = CORPORA[name]
    members: dict[str, dict[str, bytes]] = {}
    for part in (part for parts in corpus.splits.values() for part in parts):
        for language, side in part.sides.items():
            text = fake_text(language)
            if part.form == "sgm":
                text = b'<seg id="1">text</seg>'
            elif part.form == "titles":
                text = b"otsikko ||| title\n"
            elif (side.member or side.remote.url).endswith(".gz"):
                text = gzip.compress(text, compresslevel=1)
            members.setdefault(side.remote.url, {})[side.member or ""] = text

    def fake_download(remote: Remote, path: Path, **_: object) -> Path:
        files = members[remote.url]
        path.parent.mkdir(parents=True, exist_ok=True)
        if "" in files:
            path.write_bytes(files[""])
        elif path.suffix == ".zip":
            with zipfile.ZipFile(path, "w") as archive:
                for member, data in files.items():
                    archive.writestr(member, data)
        else:
            packed = tgz(files)
            path.write_bytes(gzip.decompress(packed) if path.suffix == ".tar" else packed)
        return path

    monkeypatch.setattr(corpora, "download", fake_download)
    local = fetch(name)
    assert {split: len(sources) for split, sources in local.splits.items()} == {
        split: len(parts) for split, parts in corpus.splits.items()
    }
    for source in (source for sources in local.splits.values() for source in sources):
        assert next(read_pairs(source, report=ReadReport(), strict=True))


class TestForms:
    def test_selection(self, tmp_path: Path):
        lengths = [5, 5, 1, 2, 3, 6, 7, 4, 4, 4]
        (tmp_path / "x.de").write_text("".join(f"{'w ' * length}\n" for length in lengths))
        (tmp_path / "x.en").write_text("".join(f"line {number}\n" for number in range(10)))
        files = {"de": tmp_path / "x.de", "en": tmp_path / "x.en"}
        part = Part(name="x", sides={}, selection=Selection(start=1, stop=-2, words=(2, 6)))
        write_part(part, files, tmp_path / "out")
        assert (tmp_path / "out.en").read_text() == "line 1\nline 3\nline 4\nline 5\nline 7\n"
        assert (tmp_path / "out.de").read_text().startswith("w w w w w \nw w \n")

    def test_selection_of_unequal_files(self, tmp_path: Path):
        (tmp_path / "x.de").write_text("a\n")
        (tmp_path / "x.en").write_text("a\nb\n")
        part = Part(name="x", sides={}, selection=Selection())
        with pytest.raises(ValueError, match=r"expected as many lines in both, got 1 in .* and 2 in"):
            write_part(part, {"de": tmp_path / "x.de", "en": tmp_path / "x.en"}, tmp_path / "out")

    def test_test_sets_of_unequal_length(self, tmp_path: Path):
        (tmp_path / "x.de").write_text("<seg>a</seg>")
        (tmp_path / "x.en").write_text("<seg>a</seg><seg>b</seg>")
        part = Part(name="x", sides={}, form="sgm")
        with pytest.raises(ValueError, match=r"expected as many segments on both sides, got 1 in .*x\.de, 2 in"):
            write_part(part, {"de": tmp_path / "x.de", "en": tmp_path / "x.en"}, tmp_path / "out")

    def test_titles_without_a_partner_are_counted_when_read(self, tmp_path: Path):
        (tmp_path / "titles").write_text("yksi ||| one\nalone\n")
        files = {"fi": tmp_path / "titles", "en": tmp_path / "titles"}
        write_part(Part(name="x", sides={}, form="titles"), files, tmp_path / "out")
        report = ReadReport()
        found = list(read_pairs(PairSource.files(tmp_path / "out.fi", tmp_path / "out.en"), report=report))
        assert [(pair.source, pair.target) for pair in found] == [("yksi", "one")]
        assert report.counts == {"empty-target": 1}


class TestGrammar:
    class Made(NamedTuple):
        source: str
        target: str

    def test_is_generated_into_the_cache(self, monkeypatch: pytest.MonkeyPatch):
        """With a stand-in for the generator."""
        calls: list[tuple[str, int, int]] = []

        def generate(split: str, *, seed: int, count: int) -> Iterator[TestGrammar.Made]:
            calls.append((split, seed, count))
            yield TestGrammar.Made("the house", "das Haus")

        module = ModuleType("rela.text.grammar")
        module.generate = generate  # pyright: ignore[reportAttributeAccessIssue]
        monkeypatch.setitem(sys.modules, "rela.text.grammar", module)
        local: LocalCorpus = fetch("grammar", splits=["dev"])
        assert pairs(local.splits["dev"]) == [("the house", "das Haus")]
        assert pairs(fetch("grammar", splits=["dev"], reverse=True).splits["dev"]) == [("das Haus", "the house")]
        assert calls == [("dev", corpora.GRAMMAR_SEED, corpora.GRAMMAR_SIZES["dev"])]


class TestCacheFolder:
    def test_in_order_of_the_variables(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
        monkeypatch.setenv("RELA_CACHE", "/a")
        monkeypatch.setenv("XDG_CACHE_HOME", "/b")
        assert cache_folder() == Path("/a")
        monkeypatch.delenv("RELA_CACHE")
        assert cache_folder() == Path("/b/rela")
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setenv("HOME", str(tmp_path))
        assert cache_folder() == tmp_path / ".cache" / "rela"
