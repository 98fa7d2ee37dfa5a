"""From text to a store: what is in it, problems in the text, and where it goes."""

from pathlib import Path
from typing import Any

import pytest
from tests.text.preparations import decoded, run
from tests.text.stores import ENGLISH, GERMAN, contents, store_files, write_pair

from rela._lock import FolderLock
from rela.text import prepare as preparing
from rela.text import unfinished
from rela.text.prepare import PrepareOptions
from rela.text.readers import PairSource
from rela.text.store import Store, Tokenizers
from rela.text.subwords import Subwords

pytestmark = pytest.mark.usefixtures("small_chunks")


class TestStore:
    @pytest.mark.parametrize("joint", [True, False])
    def test_the_text_comes_out_again(self, tmp_path: Path, text: Any, joint: bool) -> None:
        out = tmp_path / "made" / "on the way" / "store"
        prepared = run(text, out, PrepareOptions(merges=60, joint=joint))
        store = Store.open(out)
        assert store.description == prepared.description
        assert store.languages == ("en", "de")
        assert decoded(store, "train") == (ENGLISH, GERMAN)
        assert decoded(store, "dev") == (ENGLISH[:7], GERMAN[:7])
        texts = [(out / f"dev.{side}.txt").read_text(encoding="utf-8").split("\n") for side in ("source", "target")]
        assert texts == [[*ENGLISH[:7], ""], [*GERMAN[:7], ""]]
        assert store.tokenizers().joint == joint
        assert [file.name for file in out.parent.iterdir()] == ["store"]
        if joint:
            assert set(contents(out)) == store_files("train", "dev")
        else:
            assert store.tokenizers().source.encode("house") != store.tokenizers().target.encode("house")

    def test_the_same_text_has_the_same_identity(self, tmp_path: Path, text: Any) -> None:
        run(text, tmp_path / "one")
        run(text, tmp_path / "two", PrepareOptions(merges=60, max_chars=5000))
        identity = Store.open(tmp_path / "one").identity()
        assert Store.open(tmp_path / "two").identity() == identity
        text["train"] = [write_pair(tmp_path, "shuffled", ENGLISH[::-1], GERMAN[::-1])]
        run(text, tmp_path / "three", tokenizers=Tokenizers.load(tmp_path / "one"))
        assert Store.open(tmp_path / "three").identity() != identity

    def test_32k_merges_unless_told_otherwise(self) -> None:
        assert (PrepareOptions().merges, PrepareOptions().joint) == (32_000, True)

    def test_large_vocabularies(self, tmp_path: Path, text: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(preparing, "dtype_for", lambda _size: "<u4")  # pyright: ignore[reportUnknownLambdaType]
        run(text, tmp_path / "store")
        store = Store.open(tmp_path / "store")
        assert store.split("train").source.tokens.dtype == "<u4"
        assert decoded(store, "train") == (ENGLISH, GERMAN)

    def test_subwords_of_another_store(self, tmp_path: Path, text: Any) -> None:
        run(text, tmp_path / "one")
        tokenizers = Tokenizers.load(tmp_path / "one")
        prepared = run({"test": text["dev"]}, tmp_path / "two", PrepareOptions(merges=3), tokenizers=tokenizers)
        assert decoded(Store.open(tmp_path / "two"), "test") == (ENGLISH[:7], GERMAN[:7])
        assert contents(tmp_path / "two")["tokenizer.json"] == contents(tmp_path / "one")["tokenizer.json"]
        assert prepared.description["options"] == {"strict": False, "max_chars": 10_000}  # the others had no effect

    def test_splits_with_the_names_of_our_files(self, tmp_path: Path, text: Any) -> None:
        names = ["tokenizer", "store", "recipe", "lock", "train"]
        run(dict.fromkeys(names, text["train"]), tmp_path / "store")
        store = Store.open(tmp_path / "store")
        assert set(contents(store.folder)) == store_files(*names)
        assert all(decoded(store, name) == (ENGLISH, GERMAN) for name in names)

    def test_several_files_in_one_split(self, tmp_path: Path) -> None:
        parts = [write_pair(tmp_path, name, [name, "x"], [name, ""]) for name in ("a", "b", "c")]
        prepared = run({"train": parts}, tmp_path / "store")
        assert decoded(Store.open(tmp_path / "store"), "train") == (["a", "b", "c"], ["a", "b", "c"])
        assert prepared.description["splits"]["train"]["left_out"]["empty-target"]["count"] == 3

    def test_fewer_pairs_to_learn_from(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        learned: list[list[str]] = []

        def train(texts: Any, merges: int) -> Subwords:
            learned.append(list(texts))
            return Subwords.train(learned[-1], merges)

        class Spy:
            pass

        Spy.train = staticmethod(train)  # pyright: ignore[reportAttributeAccessIssue]
        monkeypatch.setattr(preparing, "Subwords", Spy)
        source = write_pair(tmp_path, "many", [f"s{n}" for n in range(23)], [f"t{n}" for n in range(23)])
        run({"train": [source]}, tmp_path / "store", PrepareOptions(merges=5, max_train_pairs=5))
        assert learned == [[f"{side}{n}" for n in range(0, 23, 5) for side in "st"]]
        description = Store.open(tmp_path / "store").description
        assert description["splits"]["train"]["pairs"] == 23
        assert description["learned_from_pairs"] == {"source": 5, "target": 5}
        run({"train": [source]}, tmp_path / "two", PrepareOptions(merges=5, joint=False))
        assert [len(texts) for texts in learned[1:]] == [23, 23]
        monkeypatch.setattr(preparing, "find_stride", lambda texts: len(list(texts)) // 4)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
        prepared = run({"train": [source]}, tmp_path / "three", PrepareOptions(merges=5, joint=False))
        assert learned[3:] == [[f"{side}{n}" for n in range(0, 23, 5)] for side in "st"]
        assert prepared.description["learned_from_pairs"] == {"source": 5, "target": 5}


class TestProblems:
    def test_are_left_out_and_told_by_line(self, tmp_path: Path) -> None:
        source = write_pair(tmp_path, "bad", ["good", "", "x" * 50, "good", "more"], ["gut", "leer", "lang", "gut"])
        prepared = run({"train": [source]}, tmp_path / "store", PrepareOptions(merges=5, max_chars=20))
        problems = prepared.description["splits"]["train"]["left_out"]
        assert {name: [place["line"] for place in found["first"]] for name, found in problems.items()} == {
            "unequal-lines": [5],
            "too-long": [3],
            "empty-source": [2],
        }
        assert prepared.reports["train"].num_left_out == 3
        assert decoded(Store.open(tmp_path / "store"), "train") == (["good", "good"], ["gut", "gut"])

    def test_strict(self, tmp_path: Path) -> None:
        source = write_pair(tmp_path, "bad", ["good", ""], ["gut", "leer"])
        with pytest.raises(ValueError, match=r"bad\.en, line 2: empty-source"):
            run({"train": [source]}, tmp_path / "store", PrepareOptions(merges=5, strict=True))
        assert not (tmp_path / "store").exists()

    @pytest.mark.parametrize("lines", [[], ["", " "]])
    def test_nothing_to_prepare(self, tmp_path: Path, lines: list[str]) -> None:
        source = write_pair(tmp_path, "empty", lines, lines)
        message = f"train: expected at least one pair, got none; {len(lines)} lines read, 0 kept"
        with pytest.raises(ValueError, match=message):
            run({"train": [source]}, tmp_path / "store")
        assert not (tmp_path / "store").exists()

    def test_splits_that_cannot_be(self, tmp_path: Path, text: Any) -> None:
        for splits, message in (
            ({"dev": text["dev"]}, "expected the split 'train' to learn subwords from, got dev"),
            ({}, "expected the split 'train' to learn subwords from, got none"),
            ({"train": []}, "train: expected at least one source of pairs, got none"),
            ({**text, "../x": text["dev"]}, r"expected a split's name of letters, digits, -, _ and \., got '\.\./x'"),
            (
                {"train": [PairSource.tsv("-")], "dev": [PairSource.tsv("-")]},
                r"expected standard input \(-\) once at most, got it 2 times",
            ),
        ):
            with pytest.raises(ValueError, match=message):
                run(splits, tmp_path / "store")
        assert not list(tmp_path.glob(".*"))

    def test_files_that_are_none(self, tmp_path: Path, text: Any) -> None:
        with pytest.raises(FileNotFoundError, match="none: expected a text file, there is none"):
            run({"train": [PairSource.files(tmp_path / "none", tmp_path / "train.de")]}, tmp_path / "store")
        with pytest.raises(IsADirectoryError, match="expected a text file, got a folder"):
            run({"train": [PairSource.tsv(tmp_path)]}, tmp_path / "store")
        assert not list(tmp_path.glob(".*"))


class TestOut:
    def test_is_not_overwritten_unasked(self, tmp_path: Path, text: Any) -> None:
        out = tmp_path / "store"
        run(text, out)
        before = contents(out)
        with pytest.raises(FileExistsError, match=r"store: there is something already; name another .* --overwrite"):
            run(text, out, PrepareOptions(merges=5))
        assert contents(out) == before
        run(text, out, PrepareOptions(merges=5), overwrite=True)
        assert Store.open(out).tokenizers().source.num_merges == 5
        assert {file.name for file in tmp_path.iterdir()} == {"store", "train.en", "train.de", "dev.en", "dev.de"}

    def test_what_is_no_store_is_never_overwritten(self, tmp_path: Path, text: Any) -> None:
        (tmp_path / "file").write_text("mine", encoding="utf-8")
        for path in (tmp_path, tmp_path / "file"):
            with pytest.raises(FileExistsError, match="expected a store to overwrite, got something else"):
                run(text, path, overwrite=True)
        (tmp_path / "empty").mkdir()
        run(text, tmp_path / "empty", overwrite=True)
        assert Store.open(tmp_path / "empty").splits == ["train", "dev"]

    def test_a_link_stays_a_link(self, tmp_path: Path, text: Any) -> None:
        (tmp_path / "large disk").mkdir()
        (tmp_path / "link").symlink_to(tmp_path / "large disk" / "store")
        for _ in range(2):
            run(text, tmp_path / "link", overwrite=True)
        assert (tmp_path / "link").is_symlink()
        assert [file.name for file in (tmp_path / "large disk").iterdir()] == ["store"]

    def test_in_a_file(self, tmp_path: Path, text: Any) -> None:
        with pytest.raises(NotADirectoryError):
            run(text, tmp_path / "train.en" / "store")

    def test_two_at_a_time(self, tmp_path: Path, text: Any) -> None:
        def second(_what: str, _count: int) -> None:
            with pytest.raises(BlockingIOError, match="expected no other process to write here, got one; wait for it"):
                run(text, tmp_path / "store")

        run(text, tmp_path / "store", progress=second)
        assert decoded(Store.open(tmp_path / "store"), "train") == (ENGLISH, GERMAN)

    def test_a_second_one_while_the_first_ends(
        self, tmp_path: Path, text: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """To wait for the disk takes seconds: in that time, too, the folder is that of the first."""
        sync = preparing.sync_folder

        def second(folder: Path) -> None:
            with pytest.raises(BlockingIOError, match="expected no other process to write here"):
                run(text, tmp_path / "store")
            sync(folder)

        monkeypatch.setattr(preparing, "sync_folder", second)
        run(text, tmp_path / "store")
        assert set(contents(tmp_path / "store")) == store_files("train", "dev")
        assert not list(tmp_path.glob(".*"))

    def test_a_first_one_that_ends_before_the_second_begins(
        self, tmp_path: Path, text: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fingerprints: Any = unfinished._fingerprints  # pyright: ignore[reportPrivateUsage]

        def first(sources: Any) -> Any:
            monkeypatch.setattr(unfinished, "_fingerprints", fingerprints)
            run(text, tmp_path / "store")
            return fingerprints(sources)

        monkeypatch.setattr(unfinished, "_fingerprints", first)
        with pytest.raises(FileExistsError, match="there is something already"):
            run(text, tmp_path / "store", PrepareOptions(merges=5))
        assert Store.open(tmp_path / "store").tokenizers().source.num_merges > 5
        assert not list(tmp_path.glob(".*"))

    def test_a_folder_that_gets_its_name_while_the_second_locks_it(
        self, tmp_path: Path, text: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Late(FolderLock):
            def __init__(self, folder: Path, refusal: str) -> None:
                super().__init__(folder, refusal)
                monkeypatch.setattr(unfinished, "FolderLock", FolderLock)
                (folder / "theirs").touch()
                folder.rename(tmp_path / "theirs")

        monkeypatch.setattr(unfinished, "FolderLock", Late)
        run(text, tmp_path / "store")
        assert set(contents(tmp_path / "theirs")) == {"theirs"}
        assert set(contents(tmp_path / "store")) == store_files("train", "dev")
