"""Corpora by name: the registry, copies under RELA_DATA, the cache, and files fetched from a server of the tests."""

import gzip
import io
import re
import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest
from tests.text.web import Page, Web

from rela.text import corpora
from rela.text.corpora import cache_folder, fetch
from rela.text.corpus import Corpus, Part, Side
from rela.text.download import DownloadError, Remote
from rela.text.grammar import DEFAULT_COUNTS, generate
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
        built_in = find_corpus("grammar-de-en")
        assert (built_in.name, built_in.source_language, built_in.is_generated) == ("grammar-de-en", "de", True)

    @pytest.mark.parametrize(
        ("name", "near"),
        [("multi30k-en-dee", "multi30k-en-de"), ("wmt14-de-em", "wmt14-de-en"), ("gramar", "grammar")],
    )
    def test_unknown_names(self, name: str, near: str):
        with pytest.raises(ValueError, match=rf"expected a known corpus, got '{name}'; did you mean '{near}'\?"):
            find_corpus(name)

    def test_a_name_without_its_languages(self):
        near = "'wmt14-en-de' or 'wmt14-en-fr'"
        with pytest.raises(ValueError, match=rf"got 'wmt14'; did you mean {near}\? Known are"):
            find_corpus("wmt14")

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

    def test_the_other_way_round(self, data: Path):
        found = fetch("multi30k-de-en", splits=["train"])
        assert pairs(found.splits["train"]) == [("train deutsch", "train English")]
        assert (found.name, found.source_language, found.target_language) == ("multi30k-de-en", "de", "en")

    @pytest.mark.parametrize("ending", ["gz", "GZ"])
    def test_packed_files(self, data: Path, ending: str):
        (data / "multi30k" / "train.en").unlink()
        (data / "multi30k" / f"train.en.{ending}").write_bytes(gzip.compress(b"packed\n"))
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
        assert local.notes[1] == "made-en-de was fetched from the web: made by the tests; terms: none"

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
        assert first.notes == ("made-en-de was fetched from the web: made by the tests; terms: none",)
        web.pages.clear()
        again = fetch("made-en-de")
        assert (again.splits, again.notes) == (first.splits, ())
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

    def test_a_killed_one_leaves_nothing_for_good(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        class KilledError(BaseException):
            pass

        def killed(*_: object, **__: object) -> None:
            raise KilledError

        home = tmp_path / "cache" / "corpora" / "made-en-de"
        with monkeypatch.context() as context:
            context.setattr(corpora, "write_part", killed)
            context.setattr("shutil.rmtree", lambda *_, **__: None)  # pyright: ignore[reportUnknownLambdaType]
            with pytest.raises(KilledError):
                fetch("made-en-de", splits=["train"])
        (rest,) = (path for path in home.iterdir() if path.is_dir())
        assert re.fullmatch(r"\.train-\w{8}\.partial", rest.name)
        folder = Path(fetch("made-en-de", splits=["train"]).splits["train"][0].path).parent
        assert [path for path in home.iterdir() if path.is_dir()] == [folder]
        assert all(path.is_file() for path in folder.iterdir())

    def test_the_files_are_on_disk_before_the_folder_has_its_name(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        synced: list[str] = []
        monkeypatch.setattr("rela._files.sync", lambda path: synced.append(path.name))  # pyright: ignore[reportUnknownLambdaType, reportUnknownMemberType, reportUnknownArgumentType]
        fetch("made-en-de", splits=["test"])
        assert {"1-t.en", "1-t.de"} <= set(synced)

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


class TestGrammar:
    @pytest.fixture(autouse=True)
    def small(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(DEFAULT_COUNTS, "dev", 5)

    def test_is_generated_into_the_cache_with_its_gold_files(self):
        local = fetch("grammar", splits=["dev"])
        assert pairs(local.splits["dev"]) == [(pair.source, pair.target) for pair in generate("dev", count=5)]
        folder = Path(local.splits["dev"][0].path).parent
        gold = ("en", "de", "sure", "possible", "tags.en", "tags.de")
        assert {path.name for path in folder.iterdir()} == {f"dev.{ending}" for ending in gold}
        assert local.notes == ()

    def test_is_generated_once(self, monkeypatch: pytest.MonkeyPatch):
        first = fetch("grammar", splits=["dev"])
        monkeypatch.setattr("rela.text.grammar.write_corpus", None)
        assert fetch("grammar", splits=["dev"]) == first

    def test_another_grammar_makes_another_corpus(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
        """It is known by its source: a version may have several, while it is worked on."""
        first = fetch("grammar", splits=["dev"])
        shutil.copytree(Path(corpora.__file__).parent / "grammar", tmp_path / "text" / "grammar")
        digest = corpora._grammar_digest.__wrapped__  # pyright: ignore[reportPrivateUsage]
        monkeypatch.setattr(corpora.resources, "files", lambda _package: tmp_path / "text")  # pyright: ignore[reportUnknownLambdaType]
        assert digest() == corpora._grammar_digest()  # pyright: ignore[reportPrivateUsage]
        with (tmp_path / "text" / "grammar" / "nouns.py").open("a") as file:
            file.write("# changed")
        assert digest() != corpora._grammar_digest()  # pyright: ignore[reportPrivateUsage]
        monkeypatch.setattr(corpora, "_grammar_digest", digest)
        assert fetch("grammar", splits=["dev"]).splits != first.splits


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
