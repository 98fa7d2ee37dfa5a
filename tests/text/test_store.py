"""The token store: what goes in comes out, whatever is damaged is named."""

import hashlib
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.text.stores import write_store

from rela.text.store import DESCRIPTION_FILE, SentenceWriter, Store, Tokenizers, dtype_for
from rela.text.subwords import Subwords

SOURCE = [[5, 6, 7], [], [8]]
TARGET = [[9], [65_535, 3], [4, 4, 4, 4]]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return write_store(tmp_path / "store", SOURCE, TARGET)


def test_what_goes_in_comes_out(store: Store) -> None:
    assert store.languages == ("en", "de")
    assert store.splits == ["train"]
    train = store.split("train")
    assert len(train) == 3
    for side, expected in zip(train, (SOURCE, TARGET), strict=True):
        assert [ids.tolist() for ids in side] == expected
        assert side.lengths(np.array([2, 0])).tolist() == [len(expected[2]), len(expected[0])]
    assert store.tokenizers().joint
    assert store.tokenizers().source.size == 259


def test_no_sentence_is_made_up(store: Store) -> None:
    for index in (-1, 3):
        with pytest.raises(IndexError, match=f"expected a sentence from 0 to 2, got {index}"):
            store.split("train").source[index]


def test_the_arrays_cannot_be_changed(store: Store) -> None:
    with pytest.raises(ValueError, match="read-only"):
        store.split("train").source.tokens[0] = 1


class TestIdentity:
    def test_the_content_decides(self, tmp_path: Path, store: Store) -> None:
        same = write_store(tmp_path / "same", SOURCE, TARGET)
        same.description.update(rela_version="99", learned_from_pairs=None, options={"strict": True})
        assert same.identity() == store.identity()
        for name, source, target in (
            ("shuffled", [SOURCE[2], SOURCE[1], SOURCE[0]], [TARGET[2], TARGET[1], TARGET[0]]),
            ("other-ids", [[5, 6, 9], [], [8]], TARGET),
            ("other-ends", [[5, 6], [7], [8]], TARGET),
            ("exchanged", TARGET, SOURCE),
        ):
            assert write_store(tmp_path / name, source, target).identity() != store.identity(), name

    def test_so_does_the_vocabulary(self, tmp_path: Path, store: Store) -> None:
        other = write_store(tmp_path / "other", SOURCE, TARGET)
        subwords = Subwords.train(["a b a b"], 1)
        (other.folder / "tokenizer.json").write_text(subwords.to_json(), encoding="utf-8")
        other.description["vocabulary"] = {"source": subwords.size, "target": subwords.size}
        assert other.identity() != store.identity()

    def test_without_checksums_the_description_has_to_do(self, store: Store) -> None:
        for side in ("source", "target"):
            del store.description["splits"]["train"][f"{side}_sha256"]
        (store.folder / DESCRIPTION_FILE).write_text(json.dumps(store.description), encoding="utf-8")
        old = Store.open(store.folder)
        facts = [old.description, old.tokenizers().files()]
        assert old.identity() == hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
        old.description["rela_version"] = "99"
        assert old.identity() != store.identity()

    def test_checksums_do_not_depend_on_chunks(self, tmp_path: Path) -> None:
        sums: set[str] = set()
        for size in (1, 2, 3):
            with SentenceWriter(tmp_path, "a", "source", "<u2") as writer:
                for start in range(0, 3, size):
                    writer.write(SOURCE[start : start + size])
            sums.add(writer.sha256)
        assert len(sums) == 1


@settings(max_examples=40)
@given(st.lists(st.lists(st.lists(st.integers(0, 2**32 - 1), max_size=5), max_size=4), max_size=4))
def test_written_in_any_chunks(tmp_path_factory: pytest.TempPathFactory, chunks: list[list[list[int]]]) -> None:
    folder = tmp_path_factory.mktemp("chunks")
    with SentenceWriter(folder, "a.b", "source", "<u4") as writer:
        for chunk in chunks:
            writer.write(chunk)
    flat = [ids for chunk in chunks for ids in chunk]
    tokens = np.fromfile(folder / "a.b.source.tokens", "<u4")
    offsets = np.fromfile(folder / "a.b.source.offsets", "<i8")
    assert writer.num_tokens == len(tokens) == sum(map(len, flat))
    assert [tokens[a:b].tolist() for a, b in itertools.pairwise(offsets)] == flat


@pytest.mark.parametrize(("size", "dtype"), [(1, "<u2"), (2**16, "<u2"), (2**16 + 1, "<u4")])
def test_the_smallest_type(size: int, dtype: str) -> None:
    assert dtype_for(size) == dtype
    assert np.array([size - 1]).astype(dtype)[0] == size - 1


def test_opening_is_instant_whatever_the_size(tmp_path: Path) -> None:
    store = write_store(tmp_path / "store", SOURCE, TARGET)
    pairs, tokens = 100_000_000, 3_000_000_000  # sparse files: no disk is used for what was not written
    description = store.description
    description["splits"]["train"] = {"pairs": pairs, "source_tokens": tokens, "target_tokens": tokens}
    (store.folder / DESCRIPTION_FILE).write_text(json.dumps(description), encoding="utf-8")
    for side in ("source", "target"):
        os.truncate(store.folder / f"train.{side}.tokens", tokens * 2)
        with (store.folder / f"train.{side}.offsets").open("r+b") as file:
            file.seek(pairs * 8)
            file.write(np.array([tokens], "<i8").tobytes())
    seconds: list[float] = []
    for _ in range(3):  # the machine may be busy with something else
        start = time.perf_counter()
        Store.open(store.folder).split("train")
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 0.05
    train = Store.open(store.folder).split("train")
    assert len(train) == pairs
    assert len(train.target.tokens) == tokens


DESCRIPTIONS: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "another format": (lambda d: d.update(format="rela-store-9"), "expected format 'rela-store-1', got 'rela-store-9'"),
    "no format": (lambda d: d.pop("format"), "expected format 'rela-store-1', got None"),
    "no language": (lambda d: d.pop("target_language"), "expected a description with target_language, got none"),
    "no splits": (lambda d: d.update(splits=[]), "expected a description with splits, got none"),
    "another type": (lambda d: d.update(dtype="O"), "expected a description with a dtype of <u2 or <u4"),
    "no vocabulary": (lambda d: d.update(vocabulary={}), "a number as vocabulary.source"),
    "an entry that is none": (lambda d: d["splits"].update(train=3), "a number as splits.train.pairs"),
    "a negative count": (lambda d: d["splits"]["train"].update(pairs=-1), "a number as splits.train.pairs"),
    "no count": (lambda d: d["splits"]["train"].pop("target_tokens"), "a number as splits.train.target_tokens"),
}


class TestDamage:
    @pytest.mark.parametrize("name", DESCRIPTIONS)
    def test_descriptions(self, store: Store, name: str) -> None:
        spoil, message = DESCRIPTIONS[name]
        spoil(store.description)
        (store.folder / DESCRIPTION_FILE).write_text(json.dumps(store.description), encoding="utf-8")
        with pytest.raises(ValueError, match=f"store.json: .*{re.escape(message)}.*; prepare the text anew"):
            Store.open(store.folder)

    @pytest.mark.parametrize(("text", "got"), [("{", "expected JSON"), ("", "expected JSON"), ("[]", "got 'list'")])
    def test_no_description(self, store: Store, text: str, got: str) -> None:
        (store.folder / DESCRIPTION_FILE).write_text(text, encoding="utf-8")
        with pytest.raises(ValueError, match=f"store.json: .*{got}"):
            Store.open(store.folder)

    def test_no_store(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError, match=r"expected a folder that `rela prepare` made.*; it has none"):
            Store.open(tmp_path)
        with pytest.raises(FileNotFoundError, match="there is no such folder"):
            Store.open(tmp_path / "none")

    @pytest.mark.parametrize("content", ["source.tokens", "source.offsets", "target.tokens", "target.offsets"])
    def test_sizes(self, store: Store, content: str) -> None:
        file = store.folder / f"train.{content}"
        size = file.stat().st_size
        for change in (-2, 2):
            os.truncate(file, size + change)
            with pytest.raises(ValueError, match=f"{content}: expected {size} bytes, got {size + change}; the file is"):
                store.split("train")
        file.unlink()
        with pytest.raises(FileNotFoundError, match=f"{content}: expected a file of {size} bytes, there is none"):
            store.split("train")

    @pytest.mark.parametrize(("place", "value"), [(0, 1), (-1, 3)])
    def test_offsets_that_do_not_fit(self, store: Store, place: int, value: int) -> None:
        file = store.folder / "train.source.offsets"
        offsets = np.fromfile(file, "<i8")
        offsets[place] = value
        offsets.tofile(file)
        with pytest.raises(ValueError, match=r"expected offsets from 0 to 4, got .*; the file is damaged"):
            store.split("train")

    def test_no_such_split(self, store: Store) -> None:
        with pytest.raises(ValueError, match="expected one of the splits train; got 'test'"):
            store.split("test")

    def test_the_tokenizer_of_another_store(self, store: Store) -> None:
        (store.folder / "tokenizer.json").write_text(Subwords.train(["aa aa"], 1).to_json(), encoding="utf-8")
        with pytest.raises(ValueError, match=r"expected a vocabulary of 259 pieces on the source side, got .* 260"):
            store.tokenizers()


class TestTokenizers:
    def test_one_or_two(self, tmp_path: Path) -> None:
        one, other = Subwords.train(["aa"], 1), Subwords.train(["bb bb"], 2)
        for name, content in Tokenizers(one, other).files().items():
            (tmp_path / name).write_text(content, encoding="utf-8")
        loaded = Tokenizers.load(tmp_path)
        assert not loaded.joint
        assert (loaded.source.to_json(), loaded.target.to_json()) == (one.to_json(), other.to_json())
        assert list(Tokenizers(one, one).files()) == ["tokenizer.json"]

    def test_missing(self, tmp_path: Path) -> None:
        shutil.copy(write_store(tmp_path / "s", [], []).folder / "tokenizer.json", tmp_path / "tokenizer.source.json")
        with pytest.raises(
            FileNotFoundError, match=r"expected tokenizer.json, or .*; got no tokenizer.target.json; name a"
        ):
            Tokenizers.load(tmp_path)


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from rela.text.store import SentenceWriter
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    with SentenceWriter(Path(sys.argv[1]), "train", "source", "<u2") as writer:
        writer.write([[1] * 200])
        writer.write([[1] * 2000])
except OSError as error:
    print(error.filename)
"""


def test_a_full_disk_names_the_file(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FULL_DISK, tmp_path], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == (f"{tmp_path / 'train.source.tokens'}\n", "")


def test_offsets_that_descend_are_found_where_they_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    write_store(folder, [[5, 6], [7], [8, 9], [3]], [[4], [4], [4], [4]])
    for damaged, wrong in (([0, 5, 3, 5, 6], 1), ([0, -1, 3, 5, 6], 0), ([0, 2, 900, 5, 6], 2)):
        (folder / "train.source.offsets").write_bytes(np.array(damaged, "<i8").tobytes())
        side = Store.open(folder).split("train").source  # both ends are right
        start, end = damaged[wrong : wrong + 2]
        message = (
            rf"train\.source\.offsets: expected sentence {wrong} at two places in ascending order from 0 to 6, got "
            rf"{start} to {end}; the file is damaged, prepare anew"
        )
        with pytest.raises(ValueError, match=message):
            side[wrong]
        with pytest.raises(ValueError, match=message):
            side.lengths(np.arange(4))
        assert side[3].tolist() == [3]


def test_offsets_beyond_the_end(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    write_store(folder, [[5, 6], [7]], [[4], [4]])
    (folder / "train.source.offsets").write_bytes(np.array([0, 4_000, 3], "<i8").tobytes())
    with pytest.raises(ValueError, match=r"expected sentence 0 at .* from 0 to 3, got 0 to 4,000; the file is damaged"):
        Store.open(folder).split("train").source[0]


def test_ids_are_checked_against_the_vocabulary(store: Store) -> None:
    target = store.split("train").target
    target.check(target[0])
    target.check(target[0][:0])
    with pytest.raises(ValueError, match=r"train\.target\.tokens: expected ids from 0 to 258, got 65,535; the file is"):
        target.check(target[1])
