"""A preparation that was cut off goes on; a stream cannot."""

import io
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.text.preparations import OPTIONS, CutError, decoded, run
from tests.text.stores import ENGLISH, GERMAN, contents, store_files, write_pair

from rela.text.prepare import PrepareOptions, prepare
from rela.text.readers import PairSource
from rela.text.store import Store, Tokenizers
from rela.text.subwords import Subwords

pytestmark = pytest.mark.usefixtures("small_chunks")


class TestResume:
    def cut_after(self, calls: int, seen: list[str] | None = None) -> Callable[[str, int], None]:
        counted = [0]

        def progress(what: str, _count: int) -> None:
            counted[0] += 1
            if seen is not None:
                seen.append(what)
            if counted[0] > calls:
                raise CutError

        return progress

    @pytest.mark.parametrize("joint", [True, False])
    def test_cut_anywhere_the_result_is_the_same(self, tmp_path: Path, text: Any, joint: bool) -> None:
        options = PrepareOptions(merges=60, joint=joint)
        seen: list[str] = []
        whole = run(text, tmp_path / "whole", options, progress=self.cut_after(1000, seen))
        for calls in range(len(seen)):
            out = tmp_path / f"cut-{calls}"
            with pytest.raises(CutError):
                run(text, out, options, progress=self.cut_after(calls))
            assert not out.exists()
            partial = tmp_path / f".cut-{calls}.partial"
            assert partial.exists() == (calls >= seen.index("encoding train"))  # only if something was finished
            partial.mkdir(exist_ok=True)
            (partial / ".tokenizer.json.77.partial").touch()  # as after a kill
            again = run(text, out, options)
            assert again.description == whole.description
            assert again.reports == whole.reports
            assert contents(out) == contents(tmp_path / "whole")
        assert not list(tmp_path.glob(".*"))

    def test_what_was_done_is_not_done_again(self, tmp_path: Path, text: Any) -> None:
        seen: list[str] = []
        run(text, tmp_path / "whole", progress=self.cut_after(1000, seen))
        learning = seen.index("encoding train")
        for calls, first in (
            (learning - 1, "choosing pairs to learn from"),
            (learning, "encoding train"),
            (len(seen) - 1, "encoding dev"),
        ):
            out = tmp_path / first
            with pytest.raises(CutError):
                run(text, out, progress=self.cut_after(calls))
            after: list[str] = []
            run(text, out, progress=self.cut_after(1000, after))
            assert after == seen[seen.index(first) :]

    @pytest.mark.parametrize("change", ["options", "text", "time", "languages", "tokenizers"])
    def test_another_recipe_begins_anew(self, tmp_path: Path, text: Any, change: str) -> None:
        with pytest.raises(CutError):  # after the subwords and the first split
            run(text, tmp_path / "store", progress=self.cut_after(9))
        options, languages, tokenizers = OPTIONS, ("en", "de"), None
        if change == "options":
            options = PrepareOptions(merges=61)
        elif change == "text":
            text["train"] = [write_pair(tmp_path, "train", ENGLISH[:5], GERMAN[:5])]
        elif change == "time":
            os.utime(tmp_path / "train.en", (1, 1))
        elif change == "languages":
            languages = ("en", "nl")
        else:
            subwords = Subwords.train(["other"], 3)
            tokenizers = Tokenizers(subwords, subwords)
        seen: list[str] = []
        before = contents(tmp_path / ".store.partial")
        with pytest.warns(UserWarning, match=r"\.store\.partial has what was .* kept as \.store\.partial\.old"):
            prepare(
                text, languages, tmp_path / "store", options, tokenizers=tokenizers, progress=self.cut_after(99, seen)
            )
        assert contents(tmp_path / ".store.partial.old") == before
        assert seen[0] == ("encoding train" if change == "tokenizers" else "choosing pairs to learn from")
        prepare(text, languages, tmp_path / "whole", options, tokenizers=tokenizers)
        assert contents(tmp_path / "store") == contents(tmp_path / "whole")

    @pytest.mark.parametrize("strict", [True, False])
    def test_what_the_text_is_to_blame_for_leaves_nothing(self, tmp_path: Path, text: Any, strict: bool) -> None:
        """With other text, nothing that was done would hold."""
        text["dev"] = [write_pair(tmp_path, "dev", ["", ""], ["a", "b"])]
        seen: list[str] = []
        message = "line 1: empty-source" if strict else "dev: expected at least one pair, got none"
        with pytest.raises(ValueError, match=message):
            run(text, tmp_path / "store", PrepareOptions(merges=60, strict=strict), progress=self.cut_after(99, seen))
        assert "encoding train" in seen
        assert not list(tmp_path.glob("*store*"))

    def test_a_damaged_tokenizer_is_learned_again(self, tmp_path: Path, text: Any) -> None:
        run(text, tmp_path / "whole")
        with pytest.raises(CutError):
            run(text, tmp_path / "store", progress=self.cut_after(7))
        (tmp_path / ".store.partial" / "tokenizer.json").write_text("{", encoding="utf-8")
        run(text, tmp_path / "store")
        assert contents(tmp_path / "store") == contents(tmp_path / "whole")


class TestStreams:
    def test_standard_input(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        lines = [f"{source}\t{target}\n" for source, target in zip(ENGLISH, GERMAN, strict=True)]
        for _ in range(2):  # once more: what is read from a stream is never taken from before
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("".join([*lines, "one\n"]).encode())))
            prepared = run({"train": [PairSource.tsv("-")]}, tmp_path / "store", overwrite=True)
            assert decoded(Store.open(tmp_path / "store"), "train") == (ENGLISH, GERMAN)
            found = prepared.reports["train"].to_json()["problems"]
            assert found == {"bad-record": {"count": 1, "first": [{"file": "-", "line": 13}]}}
            assert set(contents(tmp_path / "store")) == store_files("train")

    def test_nothing_stays_of_a_stream(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """It cannot be read again, and what was read might be of another."""
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a\tb\n")))

        def cut(what: str, _count: int) -> None:
            if what == "encoding train":
                raise CutError

        with pytest.raises(CutError):
            run({"train": [PairSource.tsv("-")]}, tmp_path / "store", progress=cut)
        assert not list(tmp_path.iterdir())

    def test_strict_names_standard_input(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a\tb\nc\n")))
        with pytest.raises(ValueError, match=r"^-, line 2: bad-record"):
            run({"train": [PairSource.tsv("-")]}, tmp_path / "store", PrepareOptions(merges=1, strict=True))

    def test_pipes_are_read_once(self, tmp_path: Path) -> None:
        pipes = [tmp_path / "source", tmp_path / "target"]
        for pipe, lines in zip(pipes, (ENGLISH, [*GERMAN, "mehr"]), strict=True):
            os.mkfifo(pipe)
            threading.Thread(target=pipe.write_text, args=("".join(f"{line}\n" for line in lines), "utf-8")).start()
        prepared = run({"train": [PairSource.files(*pipes)]}, tmp_path / "store")
        assert decoded(Store.open(tmp_path / "store"), "train") == (ENGLISH, GERMAN)
        assert prepared.reports["train"].places["unequal-lines"][0] == (str(pipes[1]), 13)
